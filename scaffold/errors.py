"""Errors a person can act on: one line, an exit code, no traceback."""

from __future__ import annotations


class ScaffoldError(Exception):
    """Bad input. The message says what is wrong, where, and what to do; the command exits with ``exit_code``."""

    exit_code = 2


class Refused(ScaffoldError):
    """The input is understood but must be left alone (already distributed, framework-run, no training)."""

    exit_code = 3
