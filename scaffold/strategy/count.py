"""What a script's model and batch look like, found without a GPU and without training: sliced code in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaffold.errors import ScaffoldError
from scaffold.plan import Plan
from scaffold.roles.values import Inst
from scaffold.strategy.memory import Curve, Model
from scaffold.strategy.sizes import GIB
from scaffold.strategy.slicing import slice_for

SECONDS = 120
MEMORY = 12 * GIB
"""Address space of the process; what torch maps without using it included."""

Inputs = dict[str, Any]
"""``{"listed": [[shape, dtype], …], "named": {name: [shape, dtype]}}``."""


@dataclass(frozen=True)
class Counted:
    """A model, what its blocks are (``"6 x Block"``), and the inputs that its activations were simulated for."""

    model: Model
    blocks: str
    inputs: Inputs
    not_simulated: str = ""


def parse_inputs(text: str) -> Inputs:
    """``32x3x224x224`` or ``16x128:int64,16x128:int64`` as inputs. Raises ``ScaffoldError`` for anything else."""
    listed = []
    for one in text.split(","):
        shape, _, dtype = one.strip().partition(":")
        try:
            sizes = [int(size) for size in shape.lower().split("x")]
        except ValueError:
            sizes = []
        if not sizes or min(sizes) < 1 or (dtype or "float32") not in {"float32", "float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool"}:
            raise ScaffoldError(f"--input {one.strip()!r} is no shape: write for instance 32x3x224x224, or 16x128:int64 for token numbers")
        listed.append([sizes, dtype or "float32"])
    return {"listed": listed}


def count(plan: Plan, arguments: Sequence[str], inputs: Inputs | None, precision: str) -> Counted:
    """Count the largest trained model of a script, and simulate a step of it where ``inputs`` are given.

    Raises ``ScaffoldError`` saying what is missing, where the code that builds it was not found or does not run alone.
    """
    facts = plan.facts
    found: list[dict[str, Any]] = []
    reasons: list[str] = []
    for model in facts.models:
        result = _run(plan, model.inst, "model", arguments, inputs, precision)
        (reasons.append(f"{model.name}: {result['error']}") if "error" in result else found.append(result))
    if not found:
        why = "; ".join(reasons) or "no model that is trained was found"
        raise ScaffoldError(f"{facts.project.entry.path}: its parameters could not be counted ({why}); give their number with --params, for instance --params 350M")
    largest = max(found, key=lambda r: r["parameters"])
    blocks = f"{largest['blocks'][1]} x {largest['blocks'][0]}" if largest["blocks"] else ""
    model_ = Model(
        sum(r["parameters"] for r in found), sum(r["trainable"] for r in found), sum(r["buffers"] for r in found),
        largest["largest"] or largest["parameters"], _joined(found, "activations"), _joined(found, "checkpointed"),
    )  # fmt: skip
    return Counted(model_, blocks, inputs or {}, "; ".join(r["not_simulated"] for r in found if "not_simulated" in r))


def _joined(found: list[dict[str, Any]], key: str) -> Curve | None:
    """The steps of all models one after the other."""
    return [(a, b) for r in found for a, b in r[key]] if all(key in r for r in found) else None


def probe(plan: Plan, arguments: Sequence[str]) -> Inputs:
    """The shapes of one batch of the script's training loader, which is run for it. Raises ``ScaffoldError`` where that fails."""
    for loader in plan.train_loaders:
        result = _run(plan, loader.inst, "batch", arguments, None, "fp32")
        if "error" in result:
            raise ScaffoldError(f"--probe: one batch of {loader.source.name}:{loader.source.line(loader.node)} could not be read ({result['error']}); give its shape with --input")
        return result
    raise ScaffoldError("--probe: no training DataLoader was found; give the shape of a batch with --input, for instance 32x3x224x224")


def _run(plan: Plan, inst: Inst, wanted: str, arguments: Sequence[str], inputs: Inputs | None, precision: str) -> dict[str, Any]:
    code = slice_for(plan.facts, inst)
    if code is None:
        return {"error": "the statement that builds it was not found"}
    entry = plan.facts.project.entry.path.resolve()
    with tempfile.TemporaryDirectory(prefix="scaffold-count-") as folder:
        job, result = Path(folder) / "plan.json", Path(folder) / "result.json"
        job.write_text(json.dumps({
            "code": code, "script": str(entry), "wanted": wanted, "inputs": inputs, "precision": precision, "memory": MEMORY,
        }))  # fmt: skip
        command = [sys.executable, "-m", "scaffold.strategy.simulate", str(job), str(result), *arguments]
        try:
            done = subprocess.run(command, cwd=entry.parent, capture_output=True, timeout=SECONDS, text=True, env=_environment(), stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return {"error": f"building it took more than {SECONDS} s"}
        if not result.exists():
            last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
            return {"error": last[0][:300]}
        found: dict[str, Any] = json.loads(result.read_text())
        return found


def _environment() -> dict[str, str]:
    import os

    home = str(Path(__file__).resolve().parent.parent.parent)
    path = os.pathsep.join(p for p in (home, os.environ.get("PYTHONPATH", "")) if p)
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
