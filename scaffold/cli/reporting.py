"""The report of ``scaffold convert``: one Markdown file, or a folder with all that is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaffold.errors import ScaffoldError
from scaffold.plan import Plan
from scaffold.report.summary import Summary
from scaffold.source.write import write_all

if TYPE_CHECKING:
    from scaffold.strategy.asked import Asked


@dataclass(frozen=True)
class Run:
    """What the command line says of the run whose cost is asked for."""

    hours: str | None = None
    price: str | None = None
    efficiency: str | None = None


class Reporting:
    """Where the report goes and what is in it; wrong options are told when it is made, before anything is written.

    Raises:
        ScaffoldError: ``--hours`` and the like do not go with the report that is asked for, or are wrong.
    """

    def __init__(self, place: Path | None, run: Run, hardware: Callable[[], Asked]) -> None:
        self.place, self.run, self.hardware = place, run, hardware
        self.today = date.today()
        given = [name for name in ("hours", "price", "efficiency") if getattr(run, name) is not None]
        self.folder = place is not None and place.suffix.lower() != ".md"
        if given and not self.folder:
            raise ScaffoldError(f"--{given[0]}: is for the report; give --report DIR, a folder, too")
        if self.folder and place is not None and place.exists() and not place.is_dir():
            raise ScaffoldError(f"{place}: is a file; give --report a folder, or a Markdown file (.md)")
        if given and run.hours is None:
            raise ScaffoldError(f"--{given[0]}: give --hours too, the time of the run on one machine")
        self.cost = self._cost() if run.hours is not None else None

    def _cost(self) -> dict[str, Any]:
        """One machine against two, and against as many as are asked for."""
        from scaffold.cost.asked import Asked, study

        run, hardware = self.run, self.hardware()
        machines = ",".join(str(n) for n in sorted({1, 2, hardware.nodes}))
        asked = Asked(str(run.hours), max(1, hardware.gpus // hardware.nodes), hardware.gpu, run.price, nodes=machines, efficiency=run.efficiency)
        return study(asked, self.today).as_dict(self.today)

    def write(self, found: Summary, plan: Plan) -> None:
        """Write what is known."""
        if self.place is None:
            return
        from scaffold.report.markdown import markdown

        if not self.folder:
            write_all({self.place: markdown(found).encode()})
            return
        from scaffold.report import full

        memory, missing = self._memory(plan)
        conversion = {key: value for key, value in found.as_dict().items() if key != "files"}
        report = full.report(self.today, f"{found.script} on several GPUs", cost=self.cost, memory=memory, conversion=conversion)
        report["assumptions"] += missing
        full.write(self.place, report)
        write_all({self.place / "conversion.md": markdown(found).encode()})

    def _memory(self, plan: Plan) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
        """The memory of each GPU, where the GPU is named; else, and where it can't be told, what is missing."""
        hardware = self.hardware()
        if hardware.gpu is None and hardware.gpu_memory is None:
            return None, []
        from scaffold.cost.study import Assumption
        from scaffold.report.full import memory_of
        from scaffold.strategy import show
        from scaffold.strategy.asked import decide

        try:
            choice, _ = decide(hardware, plan)
        except ScaffoldError as error:
            return None, [Assumption(f"memory is not estimated: {error}", "scaffold estimate").as_dict()]
        return memory_of(show.data(choice)), []
