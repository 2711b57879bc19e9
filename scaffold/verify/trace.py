"""What one process did, read back from its records."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Draws = dict[str, list[Event]]


@dataclass
class Pass:
    """One pass over a loader: its batches of sample indices, and whether a backward pass followed one of them."""

    batches: list[list[int]] = field(default_factory=list)
    finished: bool = False
    learned: bool = False

    @property
    def flat(self) -> list[int]:
        """All samples in the order drawn."""
        return [index for batch in self.batches for index in batch]


@dataclass
class Loader:
    """A data loader: the fields of its event, its passes, and how many batches a backward pass followed."""

    facts: Event
    passes: list[Pass] = field(default_factory=list)
    learned: int = 0

    @property
    def trains(self) -> bool:
        """Whether most of its batches are followed by a backward pass."""
        return 2 * self.learned >= sum(len(p.batches) for p in self.passes) > 0


@dataclass
class Trace:
    """The records of one process."""

    rank: int
    events: list[Event]
    stdout: str = ""
    stderr: str = ""
    folder: Path = Path()

    def of(self, kind: str) -> list[Event]:
        """The events of one kind, in order."""
        return [event for event in self.events if event["e"] == kind]

    @property
    def steps(self) -> list[Event]:
        """The optimizer steps."""
        return self.of("step")

    @property
    def end(self) -> Event:
        """How the script ended; empty where the process was killed."""
        ends = self.of("end")
        return ends[0] if ends else {}

    @property
    def losses(self) -> list[float]:
        """The mean of the values that ``backward`` was called on, per optimizer step."""
        found: dict[int, list[float]] = {}
        for event in self.of("enter"):
            if event["kind"] == "backward" and event.get("loss") is not None:
                found.setdefault(event["n"], []).append(event["loss"])
        return [sum(values) / len(values) for _, values in sorted(found.items())]

    @cached_property
    def loaders(self) -> dict[int, Loader]:
        """The loaders by order of creation."""
        loaders = {event["id"]: Loader(event) for event in self.of("loader")}
        passes: dict[tuple[int, int], Pass] = {}
        waiting: set[int] = set()
        for event in self.events:
            if event["e"] == "batch":
                order = event["loader"]
                current = passes.get((order, event["number"]))
                if current is None:
                    current = passes[order, event["number"]] = Pass()
                    loaders[order].passes.append(current)
                current.batches.append(event["idx"])
                if event["grad"]:
                    waiting.add(order)
            elif event["e"] == "pass-end" and (event["loader"], event["number"]) in passes:
                passes[event["loader"], event["number"]].finished = True
            elif event["e"] == "enter" and event["kind"] == "backward":
                for order in waiting:
                    loaders[order].learned += 1
                    loaders[order].passes[-1].learned = True
                waiting.clear()
        return loaders

    @property
    def train_loaders(self) -> dict[int, Loader]:
        """The loaders that training reads."""
        return {order: loader for order, loader in self.loaders.items() if loader.trains}

    @cached_property
    def draws(self) -> Draws:
        """The draws from global generators, by function and caller."""
        found: Draws = {}
        path = self.folder / "draws.jsonl"
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    draw = json.loads(line)
                except ValueError:
                    break
                found.setdefault(draw["key"], []).append(draw)
        return found

    @cached_property
    def rows(self) -> list[list[int]]:
        """Checksums of the rows the model trained on, per optimizer step."""
        return self._per_step("crc")

    @cached_property
    def projections(self) -> list[list[float]]:
        """Projections of the rows the model trained on, where they are real numbers, per optimizer step."""
        return self._per_step("proj")

    def _per_step(self, what: str) -> list[Any]:
        found: dict[int, list[Any]] = {}
        for event in self.of("rows"):
            found.setdefault(event["n"], []).extend(event[what])
        return [found.get(step, []) for step in range(len(self.steps))]

    @property
    def sources(self) -> set[str]:
        """The kinds of legitimate randomness that were seen."""
        return {event["kind"] for event in self.of("source")}

    def final(self) -> dict[str, Any] | None:
        """The last parameters, or ``None`` where the process did not get to keep them."""
        path = self.folder / "final.pt"
        if not path.is_file() or not self.of("kept"):
            return None
        import torch

        state: dict[str, Any] = torch.load(path, weights_only=True)
        return state


def read(out: Path, rank: int) -> Trace:
    """The trace that rank ``rank`` left under ``out``."""
    folder = out / f"rank{rank}"
    events = []
    path = folder / "events.jsonl"
    if path.is_file():
        for line in path.read_bytes().splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                break

    def text(name: str) -> str:
        file = folder / name
        if not file.is_file():
            return ""
        with file.open("rb") as stream:
            return stream.read(4 << 20).decode("utf-8", "replace")

    return Trace(rank, events, text("stdout.txt"), text("stderr.txt"), folder)
