"""From a command line to a choice: whose parameters, which regime, which GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from scaffold.errors import ScaffoldError
from scaffold.plan import Options, Plan
from scaffold.source.project import Project
from scaffold.strategy.catalogue import Gpu, find_gpu
from scaffold.strategy.choose import Choice, Setup, choose
from scaffold.strategy.count import Inputs, count, parse_inputs, probe
from scaffold.strategy.memory import Model
from scaffold.strategy.regime import PRECISIONS, Regime, read_regime
from scaffold.strategy.sizes import parse_bytes, parse_count, show_bytes, show_count


@dataclass(frozen=True)
class Asked:
    """What ``scaffold estimate`` and ``--strategy auto`` are asked."""

    script: Path | None = None
    arguments: tuple[str, ...] = ()
    params: str | None = None
    gpu: str | None = None
    gpu_memory: str | None = None
    gpus: int = 8
    nodes: int = 1
    optimizer: str | None = None
    precision: str | None = None
    shape: str | None = None
    probe: bool = False
    batch: int | None = None
    no_exec: bool = False

    def hardware(self) -> Gpu:
        """The GPU that is asked for, else the one in this machine. Raises ``ScaffoldError`` where there is neither."""
        if self.gpu_memory is not None:
            return Gpu(self.gpu or "GPU", parse_bytes(self.gpu_memory))
        if self.gpu is not None:
            return find_gpu(self.gpu)
        import torch

        if torch.cuda.is_available():
            found = torch.cuda.get_device_properties(0)
            return Gpu(found.name, found.total_memory)
        raise ScaffoldError("which GPU? There is none in this machine: give --gpu (H100, A100-80GB, L4, …) or --gpu-memory 24GiB")


def decide(asked: Asked, plan: Plan | None = None) -> tuple[Choice, list[str]]:
    """The choice, and lines that say what it is about. ``plan`` is the script's where it was followed already."""
    gpu = asked.hardware()
    if plan is None and asked.script is not None:
        plan = Plan.of(Project(asked.script), Options())
    regime = read_regime(plan) if plan is not None else Regime()
    regime = replace(regime, optimizer=(asked.optimizer or regime.optimizer).lower(), precision=asked.precision or regime.precision)
    if asked.params is not None:
        model, blocks, inputs, failed = Model(parse_count(asked.params)), "", Inputs(), ""
    elif plan is None:
        raise ScaffoldError("of what? Give a script, or --params 8B")
    elif asked.no_exec:
        raise ScaffoldError("--no-exec: the script's model is not built, so its size is not known; give it with --params, for instance --params 350M")
    else:
        inputs = _batched(parse_inputs(asked.shape) if asked.shape else probe(plan, asked.arguments) if asked.probe else Inputs(), asked.batch)
        counted = count(plan, asked.arguments, inputs or None, regime.precision)
        model, blocks, failed = counted.model, counted.blocks, counted.not_simulated
    about = [f"{show_count(model.parameters)} parameters{_more(model, blocks)}; {regime.optimizer}, {regime.precision}: {PRECISIONS[regime.precision]}"]
    about.append(f"{regime.per_parameter:g} bytes a trained parameter: {regime.weight} weight + {regime.gradient} gradient + {regime.master} master + {regime.state:g} optimizer")
    if model.activations is not None:
        shapes = [*inputs.get("listed", []), *inputs.get("named", {}).values()]
        told = ", ".join(f"{'x'.join(map(str, s))} {d}" for s, d in shapes)
        about.append(f"a batch on each GPU of {told}: activations {show_bytes(max(a for a, _ in model.activations))} at most, attention and dropout as CUDA's kernels keep them")
    if failed:
        about.append(f"activations are not known: the step could not be simulated ({failed})")
    return choose(model, regime, Setup(gpu, asked.gpus, asked.nodes)), about


def _more(model: Model, blocks: str) -> str:
    frozen = f", {show_count(model.training)} of them trained" if model.training != model.parameters else ""
    return f"{frozen} ({blocks})" if blocks else frozen


def _batched(inputs: Inputs, rows: int | None) -> Inputs:
    if rows is None:
        return inputs
    listed = [[[rows, *shape[1:]], dtype] for shape, dtype in inputs.get("listed", [])]
    named = {k: [[rows, *shape[1:]], dtype] for k, (shape, dtype) in inputs.get("named", {}).items()}
    return {"listed": listed, "named": named}
