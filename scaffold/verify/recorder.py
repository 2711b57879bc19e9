"""The events of one watched process, one JSON line each, written at once: a killed process loses none."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scaffold.verify.plan import Plan

WITHOUT_GRADIENTS = " without gradients"
"""Ends the key of random draws that are made for evaluation."""


class Recorder:
    """Writes events to ``out/rankN/events.jsonl``. Forked children inherit it and stay silent."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rank = int(os.environ.get("RANK", "0")) if plan.converted else 0
        self.folder = Path(plan.out) / f"rank{self.rank}"
        self.steps = 0
        self.at_end: Callable[[], None] = lambda: None
        self._pid = os.getpid()
        self._root = plan.root + os.sep
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(self.folder / "events.jsonl", flags, 0o600)

    def owns(self) -> bool:
        """Whether this is the process that was started, not a child of it."""
        return os.getpid() == self._pid

    def write(self, event: str, **fields: Any) -> None:
        """Append one event with the time in seconds and the number of optimizer steps so far."""
        if not self.owns():
            return
        fields.update(e=event, t=round(time.monotonic(), 6), n=self.steps)
        os.write(self._file, (json.dumps(fields, default=str) + "\n").encode())

    def place(self) -> str:
        """``file:line in function`` of the innermost frame of the user's code."""
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(self._root):
                return f"{code.co_filename[len(self._root) :]}:{frame.f_lineno} in {code.co_name}"
            if frame.f_back is None:
                break
            frame = frame.f_back
        return "outside the project"
