"""How a script trains: optimizer, precision, copies. Bytes per parameter follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scaffold.errors import ScaffoldError
from scaffold.plan import Plan
from scaffold.roles import calls
from scaffold.roles.facts import Facts
from scaffold.roles.values import Ext

STATES = {
    "sgd": 0.0, "momentum": 1.0, "adam": 2.0, "adamw": 2.0, "adamax": 2.0, "nadam": 2.0, "radam": 2.0, "lamb": 2.0, "amsgrad": 3.0,
    "adagrad": 1.0, "rmsprop": 1.0, "lion": 1.0, "adadelta": 2.0, "asgd": 1.0, "rprop": 2.0, "sparseadam": 2.0, "adafactor": 0.01, "lbfgs": 203.0,
}  # fmt: skip
"""Numbers that an optimizer keeps per parameter, in the parameter's precision (in 32 bits beside master weights).

Adafactor keeps rows and columns only (arXiv 1804.04235); LBFGS keeps ``2 * history_size + 3`` vectors, 100 in torch's default."""

EIGHT_BIT = {"adam8bit", "adamw8bit", "pagedadamw8bit", "lion8bit"}
"""Optimizers of bitsandbytes: one byte for each number (arXiv 2110.02861)."""

_DENOMINATORS = {"adam", "adamw", "nadam", "radam", "amsgrad", "rmsprop", "adagrad"}

PRECISIONS = {
    "mixed": "16-bit weights and gradients, 32-bit master weights (ZeRO paper, arXiv 1910.02054, section 3.1)",
    "fp32": "everything in 32 bits",
    "autocast": "32-bit weights and gradients, computing in 16 bits under torch.autocast, which keeps 16-bit copies of weights",
    "bf16": "weights, gradients and optimizer state in bfloat16",
}


@dataclass(frozen=True)
class Regime:
    """Bytes per parameter: ``weight``, ``gradient``, ``master`` and ``state`` (for those that train), ``cast`` (16-bit copies in forward)."""

    optimizer: str = "adamw"
    precision: str = "mixed"
    averages: int = 0
    keeps: str = ""
    """Gradients of the last step are still there in the next ``forward`` (``zero_grad`` after it), or ``always`` (accumulation)."""

    def __post_init__(self) -> None:
        if self.optimizer not in STATES and self.optimizer not in EIGHT_BIT:
            raise ScaffoldError(f"--optimizer {self.optimizer} is not known: {', '.join([*STATES, *EIGHT_BIT])}")
        if self.precision not in PRECISIONS:
            raise ScaffoldError(f"--precision {self.precision} is not known: {', '.join(PRECISIONS)}")

    @property
    def weight(self) -> int:
        """Bytes of a weight."""
        return 2 if self.precision in {"mixed", "bf16"} else 4

    @property
    def gradient(self) -> int:
        """Bytes of a gradient."""
        return self.weight

    @property
    def master(self) -> int:
        """Bytes of a 32-bit master weight."""
        return 4 if self.precision == "mixed" else 0

    @property
    def state(self) -> float:
        """Bytes of optimizer state."""
        if self.optimizer in EIGHT_BIT:
            return 1.0 if self.optimizer.startswith("lion") else 2.0
        return STATES[self.optimizer] * (2 if self.precision == "bf16" else 4)

    @property
    def cast(self) -> int:
        """Bytes of autocast's copy of a weight."""
        return 2 if self.precision == "autocast" else 0

    @property
    def step(self) -> int:
        """Bytes that a step of the optimizer needs for a moment: Adam's denominators, all at once in the ``foreach`` form that CUDA takes."""
        return 4 if self.optimizer in _DENOMINATORS and self.precision != "bf16" else 2 if self.optimizer in _DENOMINATORS else 0

    @property
    def per_parameter(self) -> float:
        """Bytes of model state for each parameter that trains."""
        return self.weight + self.gradient + self.master + self.state


def read_regime(plan: Plan) -> Regime:
    """The regime that a script's code shows."""
    facts = plan.facts
    precision = "autocast" if plan.half_precision or facts.trace.named("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast") else "fp32"
    if any(_to_bfloat16(e.name, e) for e in facts.trace.of_kind("call")):
        precision = "bf16"
    copies = facts.trace.named("copy.deepcopy", "torch.optim.swa_utils.AveragedModel")
    held = {m.inst for m in facts.models}
    averages = len({e.node for e in copies if any(i in held for a in e.args for i in a.insts())})
    return replace(Regime(precision=precision, averages=averages, keeps=_keeps(facts)), optimizer=_optimizer(facts))


def _keeps(facts: Facts) -> str:
    zeros = [z for z in facts.trace.named("optimizer.zero_grad", "module.zero_grad") if z.loops]
    if not zeros or any(len(z.branches) > min((len(e.branches) for e in facts.backwards), default=0) for z in zeros):
        return "always"
    for forward in (e for m in facts.models for e in m.live):
        end = min((b.order for b in facts.backwards if b.order > forward.order), default=0)
        if any(forward.order < z.order < end for z in zeros):
            return "forward"
    return ""


def _to_bfloat16(name: str, event: object) -> bool:
    if name == "module.bfloat16":
        return True
    given = [*getattr(event, "args", []), *getattr(event, "kwargs", {}).values()]
    return name == "module.to" and any(isinstance(o, Ext) and o.name == "torch.bfloat16" for v in given for o in v.objs)


def _optimizer(facts: Facts) -> str:
    """The optimizer's name, with its momentum or AMSGrad; the one of most state where there are several."""
    names = []
    for found in facts.optimizers:
        inst = found.inst
        short = inst.qualified.rpartition(".")[2].lower()
        momentum = inst.kwargs.get("momentum")
        if short == "sgd" and momentum is not None and momentum.consts() != [0]:
            short = "momentum"
        if "amsgrad" in inst.kwargs and inst.kwargs["amsgrad"].consts() == [True]:
            short = "amsgrad"
        if calls.role(inst) == "optimizer" and (short in STATES or short in EIGHT_BIT):
            names.append(short)
    return max(names, key=lambda n: STATES.get(n, 0.5), default="adamw")
