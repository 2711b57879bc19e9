"""Proof that a conversion trains the same: run both scripts, compare what they did.

Knows nothing of how the conversion was made; it only runs scripts.
"""

from __future__ import annotations

from scaffold.verify.result import Check, Report, Verdict

__all__ = ["Check", "Report", "Verdict", "compare"]


def __getattr__(name: str) -> object:
    """``compare`` is imported when it is used: a watched process has no need of it."""
    if name == "compare":
        from scaffold.verify.comparison import compare

        return compare
    raise AttributeError(name)
