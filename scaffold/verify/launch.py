"""Starts the processes of a run as torchrun would, watches over them, and leaves none behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import scaffold
from scaffold.verify.plan import Plan

POLL = 0.05  # seconds between two looks at the processes
IDLE = 4.0  # seconds without events or computing after which ranks that wait for each other count as hung
GRACE = 10.0  # seconds the other ranks get to end after one has failed
PRINTED = 64 << 20  # bytes of output that stop a run

BOOT = (
    "import sys; sys.path.insert(0, {home!r}); from scaffold.verify.runner import main; "
    "sys.path.pop(0); sys.exit(main(sys.argv[1], sys.argv[2:]))"
)


@dataclass(frozen=True)
class Outcome:
    """How a run ended: exit codes by rank (``None``: it was killed), seconds, and why it was stopped."""

    codes: tuple[int | None, ...]
    seconds: float
    stopped: str = ""
    hang: str = ""
    stacks: tuple[str, ...] = ()


@dataclass
class _Rank:
    process: subprocess.Popen[bytes]
    folder: Path
    size: int = 0
    changed: float = field(default_factory=time.monotonic)
    busy: float = 0.0

    def events_size(self) -> int:
        total = 0
        for name in ("events.jsonl", "stdout.txt", "stderr.txt"):
            with contextlib.suppress(OSError):
                total += (self.folder / name).stat().st_size
        return total

    def computing(self) -> float:
        """Processor seconds used so far."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return self.busy
        fields = text.rsplit(")", 1)[1].split()
        return sum(int(value) for value in fields[11:15]) / os.sysconf("SC_CLK_TCK")

    def last_event(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with (self.folder / "events.jsonl").open("rb") as stream:
                stream.seek(max(0, self.events_size() - 65536) if self.events_size() > 65536 else 0)
                lines = stream.read().splitlines()
            event: dict[str, Any] = json.loads(lines[-1])
            return event
        return {}

    def waits(self) -> str:
        """What communication the rank is in, or nothing."""
        event = self.last_event()
        return f"{event['kind']} at {event['place']}" if event.get("e") == "enter" else ""


RUN = "SCAFFOLD_VERIFY_RUN"
"""In the environment of every process of a run, which children inherit: names the folder of the run's records."""


def _environment(plan: Plan, rank: int, port: int) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TORCHELASTIC_", "SLURM_", "OMPI_"))}
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE"):
        env.pop(name, None)
    env.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1")
    env.pop("PYTHONHASHSEED", None)
    env[RUN] = plan.out
    if plan.converted:
        env.update(
            RANK=str(rank), LOCAL_RANK=str(rank), GROUP_RANK="0", ROLE_RANK=str(rank), ROLE_NAME="default",
            WORLD_SIZE=str(plan.world), LOCAL_WORLD_SIZE=str(plan.world), ROLE_WORLD_SIZE=str(plan.world),
            GROUP_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
            TORCHELASTIC_RUN_ID="scaffold-verify", TORCHELASTIC_RESTART_COUNT="0",
            TORCHELASTIC_MAX_RESTARTS="0", TORCHELASTIC_USE_AGENT_STORE="True",
        )  # fmt: skip
    return env


def _start(plan: Plan, arguments: Sequence[str], rank: int, port: int) -> _Rank:
    out = Path(plan.out)
    folder = out / f"rank{rank}"
    folder.mkdir(parents=True)
    home = str(Path(scaffold.__file__).resolve().parent.parent)
    command = [sys.executable, "-c", BOOT.format(home=home), str(out / "plan.json"), *arguments]
    with (folder / "stdout.txt").open("wb") as stdout, (folder / "stderr.txt").open("wb") as stderr:
        process = subprocess.Popen(
            command, cwd=plan.root, env=_environment(plan, rank, port), stdin=subprocess.DEVNULL,
            stdout=stdout, stderr=stderr, start_new_session=True,
        )  # fmt: skip
    return _Rank(process, folder)


def _strays(plan: Plan) -> list[int]:
    """Processes of a run that still live, those in sessions of their own included."""
    mark = f"{RUN}={plan.out}\0".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in entry.read_bytes() + b"\0":
                found.append(int(entry.parent.name))
    return found


def _kill(ranks: Sequence[_Rank], plan: Plan) -> None:
    """End every process that was started: workers, children, and what these have left running."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(rank.process.pid, sig)
        deadline = time.monotonic() + 1.0
        while sig is signal.SIGTERM and time.monotonic() < deadline:
            if all(rank.process.poll() is not None for rank in ranks):
                break
            time.sleep(POLL)
    for rank in ranks:
        rank.process.wait()
    for pid in _strays(plan):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _stacks(ranks: Sequence[_Rank]) -> tuple[str, ...]:
    """The Python stacks of every rank that still runs."""
    for rank in ranks:
        if rank.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                rank.process.send_signal(signal.SIGUSR1)
    time.sleep(0.5)
    texts = []
    for rank in ranks:
        text = ""
        with contextlib.suppress(OSError):
            text = (rank.folder / "stacks.txt").read_text(encoding="utf-8", errors="replace")
        texts.append(text or "ended")
    return tuple(texts)


def _situation(ranks: Sequence[_Rank]) -> str:
    """Which rank waits where."""
    parts = []
    for number, rank in enumerate(ranks):
        code = rank.process.poll()
        state = f"waits in {rank.waits()}" if rank.waits() else "computes or waits outside torch.distributed"
        parts.append(
            f"rank {number} {state}" if code is None else f"rank {number} has ended (exit code {code})"
        )
    return "; ".join(parts)


class _Guard:
    """Decides when a run has to be stopped."""

    def __init__(self, ranks: Sequence[_Rank], timeout: float) -> None:
        self.ranks, self.timeout = ranks, timeout
        self.begin = time.monotonic()
        self.failed: float | None = None
        self.looked = 0.0
        self.hang = ""

    def _deadlocked(self, now: float) -> bool:
        alive = [rank for rank in self.ranks if rank.process.poll() is None]
        for rank in alive:
            size, busy = rank.events_size(), rank.computing()
            if size != rank.size or busy - rank.busy > 0.3:
                rank.size, rank.busy, rank.changed = size, busy, now
        still = all(now - rank.changed > IDLE for rank in alive)
        return bool(alive) and still and all(rank.waits() for rank in alive)

    def verdict(self) -> str:
        """Why the run must end now, or nothing."""
        now = time.monotonic()
        codes = [rank.process.poll() for rank in self.ranks]
        if self.failed is None and any(code not in (None, 0) for code in codes):
            self.failed = now
        if self.failed is not None and now - self.failed > GRACE:
            return "a rank failed"
        if now - self.begin > self.timeout:
            self.hang = f"no end after {self.timeout:.0f} s"
            return "timeout"
        if now - self.looked > 0.5:
            self.looked = now
            if any((r.folder / "stdout.txt").stat().st_size > PRINTED for r in self.ranks):
                return f"it printed more than {PRINTED >> 20} MB"
            if len(self.ranks) > 1 and self._deadlocked(now):
                self.hang = "the ranks wait for each other"
                return "deadlock"
        return ""


def run(plan: Plan, arguments: Sequence[str], timeout: float) -> Outcome:
    """Run the plan's script for ``timeout`` seconds at most. Never raises for what the script does."""
    out = Path(plan.out)
    out.mkdir(parents=True)
    plan.write(out / "plan.json")
    world = plan.world if plan.converted else 1
    store, port = _store(world) if plan.converted else (None, 0)
    begin = time.monotonic()
    ranks = [_start(plan, arguments, rank, port) for rank in range(world)]
    guard, why = _Guard(ranks, timeout), ""
    stacks: tuple[str, ...] = ()
    try:
        while not why and any(rank.process.poll() is None for rank in ranks):
            time.sleep(POLL)
            why = guard.verdict()
        codes = tuple(rank.process.poll() for rank in ranks)
        seconds = time.monotonic() - begin
        situation = _situation(ranks) if why else ""
        if why:
            stacks = _stacks(ranks)
    finally:
        _kill(ranks, plan)
        del store
    hang = f"{guard.hang}: {situation}" if guard.hang else ""
    return Outcome(codes, seconds, why, hang, stacks)


def _store(world: int) -> tuple[Any, int]:
    """The store at which the ranks meet, on a free port; torchrun's agent keeps it in the same way."""
    from torch._C._distributed_c10d import TCPStore

    store = TCPStore("127.0.0.1", 0, world, is_master=True, wait_for_workers=False)
    return store, store.port
