"""What ``scaffold measure --json`` wrote, and the scaling over machines that follows from it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from scaffold.cost.calculator import Scaling
from scaffold.cost.model import SHARDED, efficiency
from scaffold.cost.numbers import Range
from scaffold.errors import ScaffoldError

SCHEMA = "scaffold-measure/1"
_MOST = Decimal(2)


@dataclass(frozen=True)
class Size:
    """One number of processes: seconds of a step (middle of the steps, with the spread of its parts), efficiency to one process of the smallest size."""

    nproc: int
    step: Range
    efficiency: Range


@dataclass(frozen=True)
class Measured:
    """A measurement: sizes in ascending order, bytes that a step's communication is worth as all-reduced gradients, the device and the day."""

    script: str
    device: str
    date: str
    gradients: Decimal
    sizes: tuple[Size, ...]

    def about(self) -> str:
        """What was measured, in a few words."""
        counts = ", ".join(str(s.nproc) for s in self.sizes)
        return f"{self.script} on {counts} process{'es' * (counts != '1')} ({self.device})"

    def scaling(self, nodes: int, gpus: int, link: Range) -> Scaling:
        """The scaling over ``nodes`` machines of ``gpus`` GPUs: measured where both sizes are, else by the model."""
        one, more = self._size(gpus), self._size(nodes * gpus)
        if one and more:
            low, high = more.efficiency.low / one.efficiency.high, more.efficiency.high / one.efficiency.low
            middle = more.efficiency.expected / one.efficiency.expected
            return Scaling(nodes, Range(*sorted(min(v, _MOST) for v in (low, middle, high))), "measured")
        nearest = one or max((s for s in self.sizes if s.nproc <= gpus), key=lambda s: s.nproc, default=self.sizes[0])
        return Scaling(nodes, efficiency(nearest.step.expected, self.gradients, nodes, link), "model")

    def _size(self, nproc: int) -> Size | None:
        return next((s for s in self.sizes if s.nproc == nproc), None)


def read_measured(path: Path) -> Measured:
    """Read the JSON of ``scaffold measure``.

    Raises:
        ScaffoldError: there is no such file, or it is another.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal, parse_int=Decimal)
        if data["schema"] != SCHEMA:
            raise ValueError
        sizes = tuple(Size(int(s["nproc"]), _range(s["step_seconds"]), _range(s["efficiency"])) for s in data["sizes"])
        found = Measured(str(data["script"]), str(data["device"]), str(data["date"]), Decimal(data["gradient_bytes"]) * (SHARDED if data["sharded"] else 1), sizes)
        if not sizes or any(s.step.low <= 0 or s.efficiency.low <= 0 for s in sizes):
            raise ValueError
    except OSError as error:
        raise ScaffoldError(f"{path}: cannot be read ({error.strerror}); `scaffold measure --json` writes it") from None
    except (ValueError, KeyError, TypeError, ArithmeticError):
        raise ScaffoldError(f"{path}: is no measurement; `scaffold measure --json` writes one") from None
    return found


def _range(data: Any) -> Range:
    return Range(Decimal(data["low"]), Decimal(data["expected"]), Decimal(data["high"]))
