"""Runs a script under the watch. No part of scaffold's rewriting is loaded."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

from scaffold.verify.plan import Plan
from scaffold.verify.recorder import Recorder


def _install(plan: Plan, recorder: Recorder) -> Any:
    from scaffold.verify.shim import batchnorm, compiler, cuda, distributed
    from scaffold.verify.watch import comm, data, files, noise, optim, timing

    mode: Any = contextlib.nullcontext()
    if plan.cuda_on_cpu:
        mode = cuda.install(plan.world if plan.converted else 1)
        compiler.install()
        distributed.install(plan.source())
        batchnorm.accept_cpu()
    if plan.timed:
        files.install(recorder)
        recorder.at_end = timing.install(recorder).flush
        return mode
    if plan.cuda_on_cpu:
        batchnorm.install(recorder)
    comm.install(recorder)
    optim.install(recorder)
    data.install(recorder)
    noise.install(recorder)
    files.install(recorder)
    warnings.showwarning = _unheard
    return mode


def _unheard(*args: object, **kwargs: object) -> None:
    """Warnings come from every process and say nothing about the training: they are no output."""


def _seed(number: int) -> None:
    """Start all generators from a seed, for scripts that set none: rank 0 begins as the original does, others apart from it."""
    import random

    import numpy as np
    import torch

    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


class _Run:
    """One execution of the script and how it ended."""

    def __init__(self, plan: Plan, recorder: Recorder) -> None:
        self.plan, self.recorder = plan, recorder
        self.ended = False

    def finish(self, how: str, code: int, message: str = "", place: str = "") -> None:
        """Note the end and keep the final parameters. Only the first call counts."""
        if self.ended or not self.recorder.owns():
            return
        self.ended = True
        from scaffold.verify.watch import comm, optim

        usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        children = [child.name for child in multiprocessing.active_children()]
        self.recorder.write(
            "end",
            how=how,
            code=code,
            message=message,
            place=place,
            peak=usage,
            group=comm.initialised(),
            children=children,
        )
        self.recorder.at_end()
        if not self.plan.timed:
            self.keep(optim.final())
        self.recorder.write("kept")

    def keep(self, state: dict[str, Any]) -> None:
        """Save the final parameters beside the events."""
        from torch.serialization import save

        with (self.recorder.folder / "final.pt").open("wb") as stream:
            save(state, stream)

    def execute(self) -> int:
        """Run the script as ``__main__``; returns the exit code."""
        source = Path(self.plan.script)
        module = types.ModuleType("__main__")
        module.__dict__.update(__file__=str(source), __builtins__=__builtins__)
        sys.modules["__main__"] = module
        from scaffold.verify.watch.optim import Stopped

        try:
            exec(compile(source.read_bytes(), str(source), "exec"), module.__dict__)
        except Stopped:
            self.finish("stopped", 0)
            return 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            if isinstance(error.code, str):
                print(error.code, file=sys.stderr)
            self.finish("exit", code)
            return code
        except BaseException as error:
            traceback.print_exc()
            frames = traceback.extract_tb(error.__traceback__)
            inside = [f for f in frames if f.filename.startswith(self.plan.root)]
            place = f"{Path(inside[-1].filename).name}:{inside[-1].lineno}" if inside else ""
            self.finish("error", 1, f"{type(error).__name__}: {error}".splitlines()[0][:300], place)
            return 1
        self.finish("finished", 0)
        return 0

    def watch_os_exit(self) -> None:
        """``os._exit`` skips everything: note the end before it."""
        leave = os._exit

        def exit_now(code: int) -> None:
            self.finish("os._exit", code)
            leave(code)

        setattr(os, "_exit", exit_now)  # noqa: B010


def main(plan_file: str, arguments: list[str]) -> int:
    """Run the script that the plan names. Returns the exit code of the process."""
    plan = Plan.read(Path(plan_file))
    rank = os.environ.get("RANK", "0") if plan.converted else "0"
    folder = Path(plan.out) / f"rank{rank}"
    from scaffold.verify.watch.comm import initialised

    stacks = (folder / "stacks.txt").open("w", encoding="utf-8")
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    recorder = Recorder(plan)
    mode = _install(plan, recorder)
    sys.argv = [plan.script, *arguments]
    sys.path.insert(0, str(Path(plan.script).parent))
    run = _Run(plan, recorder)
    run.watch_os_exit()
    recorder.write("start", pid=os.getpid())
    _seed(int(rank))
    with mode:
        code = run.execute()
    sys.stdout.flush()
    if initialised():
        time.sleep(0.1)  # Gloo's threads free their last work
    return code
