"""All ranks split the data alike.

``random_split`` and ``train_test_split`` with a seed that differs by rank, or none, give ranks different validation sets: some of
what one rank trains on, another evaluates.
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.random_split
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.code import is_none
from scaffold.check.finding import Finding
from scaffold.check.flow import shared, sources
from scaffold.check.program import Called
from scaffold.check.reading import Reading

ID = "SC208"
NAME = "splits"
_SEEDS = ("manual_seed", "seed", "seed_everything", "set_seed", "setup_seed", "seed_all", "set_random_seed", "fix_seed", "manual_seed_all")


def check(reading: Reading) -> Iterator[Finding]:
    """Splits with no seed, or a rank's own."""
    if not (reading.together or reading.starts):
        return
    for called in reading.program.calls("random_split", "train_test_split"):
        code, call = called
        given = next((k.value for k in call.keywords if k.arg in {"generator", "random_state"}), call.args[2] if len(call.args) > 2 else None)
        if given is not None and not is_none(given):
            if reading.values.differs(code, given):
                yield reading.at(ID, "error", code, call, "this split follows the rank: ranks disagree on what is held out", "give all ranks one seed")
            continue
        if reading.alone(code, call) or any(shared(reading.program, c, n) for c, e in sources(reading.program, code, call, 1) for n in ast.walk(e)):
            continue
        seeds = [c for c in reading.program.calls(*_SEEDS) if _global(c)]
        before = [c for c in seeds if c.code is code and code.function(c.call) is code.function(call) and c.call.lineno < call.lineno] or [
            c for c in seeds if not (c.code is code and code.function(c.call) is code.function(call))
        ]
        if not before:
            yield reading.at(ID, "error", code, call, "this split is not seeded: ranks disagree on what is held out", "pass generator=torch.Generator().manual_seed(…)")
        elif reading.values.differs(before[-1].code, before[-1].call.args[0]) if before[-1].call.args else False:
            yield reading.at(ID, "error", code, call, f"the seed on line {before[-1].call.lineno} follows the rank, and so does this split: ranks disagree on what is held out", "split first, under one seed; offset the seed by the rank afterwards")


def _global(called: Called) -> bool:
    """A seed of the process, not of a generator."""
    func = called.call.func
    if isinstance(func, ast.Name):
        return True
    base = ast.unparse(func.value) if isinstance(func, ast.Attribute) else ""
    return base in {"torch", "random", "np.random", "numpy.random", "torch.cuda", "th", "L", "pl"} or "seed" in base or "util" in base
