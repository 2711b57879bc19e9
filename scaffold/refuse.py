"""Scripts that must be left alone, and what their users should do instead."""

from __future__ import annotations

import libcst as cst

from scaffold.errors import Refused
from scaffold.roles import api
from scaffold.roles.facts import Facts
from scaffold.roles.values import Func
from scaffold.source.tree import Source, dotted


def check(facts: Facts) -> None:
    """Refuse a script that is distributed already, run by a framework, or does not train.

    Raises:
        Refused: with one paragraph on what to do instead.
    """
    for source in facts.project.sources:
        _distributed(source)
    for source in facts.project.sources:
        _framework(facts, source)
    name = facts.project.entry.name
    if not facts.backwards and facts.project.unreadable:
        raise Refused(f"{name}: no training loop was found, and a module that it imports could not be read: {facts.project.unreadable[0]}")
    if not facts.backwards:
        raise Refused(
            f"{name}: no training loop was found (nothing calls .backward() on a loss). Name the script that trains; if its loop "
            "is in an installed package, that package's own multi-GPU option is the way."
        )
    _environment(facts)
    _processes(facts)
    if not facts.train_data:
        event = facts.backwards[0]
        raise Refused(
            f"{event.source.name}:{event.source.line(event.node)}: no DataLoader, slice or draw was found that leads to this loss. Either each step trains "
            "on all of the data at once, and there is nothing to divide among processes (run independent trainings, one on each GPU), or the batches are "
            "made in a way that is not understood: read them through torch.utils.data.DataLoader, or slice them as data[i:i + batch_size] in a loop over "
            "range(0, len(data), batch_size)."
        )


def _processes(facts: Facts) -> None:
    """Training that the script itself spreads over processes (Hogwild)."""
    trained = {f.node for e in facts.backwards for f in e.frame.stack()}
    for event in facts.trace.of_kind("call"):
        if event.name.endswith(("multiprocessing.Process", "multiprocessing.spawn", "multiprocessing.Pool")):
            targets = [o for v in (*event.args, *event.kwargs.values()) for o in v.objs if isinstance(o, Func)]
            if any(t.node in trained for t in targets):
                raise Refused(
                    f"{event.source.name}:{event.source.line(event.node)}: starts its own training processes ({event.name}). DDP needs one process for each "
                    "GPU, started by torchrun: call the training function directly first, then convert."
                )


def _distributed(source: Source) -> None:
    for node in source.nodes:
        text = None
        if isinstance(node, cst.Import):
            text = next((n for a in node.names if (n := dotted(a.name) or "").startswith(("torch.distributed", "horovod", "torch_xla"))), None)
        elif isinstance(node, cst.ImportFrom) and node.module is not None and not node.relative:
            module = dotted(node.module) or ""
            names = [] if isinstance(node.names, cst.ImportStar) else [dotted(a.name) or "" for a in node.names]
            full = [module, *(f"{module}.{n}" for n in names)]
            text = next((f for f in full if f.startswith((*api.DISTRIBUTED_MARKS, "torch.distributed", "torch.utils.data.distributed"))), None)
        elif isinstance(node, cst.Call):
            called = dotted(node.func) or ""
            if called.endswith(("init_process_group", "DistributedDataParallel", "fully_shard", "DistributedSampler")):
                text = called
        if text is not None:
            raise Refused(
                f"{source.name}:{source.line(node)}: is distributed already ({text}). There is nothing to convert: start it with "
                "`torchrun --nproc-per-node=<GPUs> "
                f"{source.path.name}`, or with the launcher its README names."
            )


def _framework(facts: Facts, source: Source) -> None:
    for node in source.nodes:
        modules: list[str] = []
        if isinstance(node, cst.Import):
            modules = [dotted(a.name) or "" for a in node.names]
        elif isinstance(node, cst.ImportFrom) and node.module is not None and not node.relative:
            module = dotted(node.module) or ""
            modules = [module] if isinstance(node.names, cst.ImportStar) else [f"{module}.{dotted(a.name)}" for a in node.names]
        for module in modules:
            for prefix, (title, how) in api.FRAMEWORKS.items():
                if (module + ".").startswith(prefix + ".") and facts.project.module(prefix) is None:
                    raise Refused(
                        f"{source.name}:{source.line(node)}: is run by {title}, which does its own multi-GPU training: use {how}. "
                        "Rewriting the loop beneath it would do the work twice."
                    )
            if module.startswith("ignite.") and "distributed" in module:
                raise Refused(f"{source.name}:{source.line(node)}: uses ignite's distributed launcher; start it with torchrun as its documentation shows.")
            if module.rpartition(".")[2] in {"Trainer", "Seq2SeqTrainer", "SFTTrainer"} and module.split(".")[0] in {"transformers", "trl"}:
                raise Refused(
                    f"{source.name}:{source.line(node)}: is trained by the Hugging Face Trainer, which does its own multi-GPU training: start "
                    f"it with `torchrun --nproc-per-node=<GPUs> {source.path.name}` unchanged."
                )


def _environment(facts: Facts) -> None:
    imports_gym = any(
        (dotted(a.name) or "").split(".")[0] in {"gym", "gymnasium", "pettingzoo", "dm_control"}
        for s in facts.project.sources
        for n in s.nodes
        if isinstance(n, cst.Import)
        for a in n.names
    )
    stepping = [e for e in facts.trace.of_kind("call") if e.name.endswith(".step") and len(e.args) == 1 and e.loops and not e.name.startswith(("optimizer", "scheduler", "scaler"))]
    if imports_gym and stepping:
        event = stepping[0]
        raise Refused(
            f"{event.source.name}:{event.source.line(event.node)}: is reinforcement learning that steps an environment: there is no data set to "
            "divide, each process would play its own episodes of its own length. Run independent seeds on the GPUs, or use a library with "
            "vectorised environments and a distributed learner."
        )
