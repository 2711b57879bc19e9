"""Wrong versions of the right conversions in ``pairs``: what is replaced, and the checks that may refute it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAIRS = Path(__file__).parent / "pairs"


@dataclass(frozen=True)
class Mutant:
    """One fault: ``(old, new)`` texts of the right conversion, and the IDs of checks of which one must fail."""

    pair: str
    name: str
    edits: tuple[tuple[str, str], ...]
    refuted_by: tuple[str, ...]

    def text(self) -> str:
        """The faulty script."""
        source = (PAIRS / self.pair / "converted.py").read_text(encoding="utf-8")
        for old, new in self.edits:
            assert old in source, f"{self.name}: {old!r} is not in {self.pair}/converted.py"
            source = source.replace(old, new)
        return source


def _m(pair: str, name: str, refuted_by: str, *edits: tuple[str, str]) -> Mutant:
    return Mutant(pair, name, edits, tuple(refuted_by.split()))


SAMPLER = ("sampler=sampler, pin_memory", "shuffle=True, pin_memory")
GUARD = "        if rank == 0:\n            state"

CLASSIFIER = [
    _m("classifier", "no sampler", "data.disjoint", SAMPLER),
    _m("classifier", "sampler of one rank", "data.disjoint",
            ("DistributedSampler(train_set)", "DistributedSampler(train_set, 2, 0)")),
    _m("classifier", "no set_epoch", "data.order", ("    sampler.set_epoch(epoch)\n", "")),
    _m("classifier", "not shuffled", "data.order",
       ("DistributedSampler(train_set)", "DistributedSampler(train_set, shuffle=False)")),
    _m("classifier", "saved by all", "files.once", (GUARD, "        if True:\n            state")),
    _m("classifier", "module. keys", "files.content", ("model.state_dict()", "ddp.state_dict()")),
    _m("classifier", "keys left out", "files.content", (', "epoch": epoch}', "}")),
    _m("classifier", "printed by all", "output.once", ('    if rank == 0:\n        print(f"epoch', '    if True:\n        print(f"epoch')),
    _m("classifier", "local training loss shown", "output.equal",
       ("    dist.all_reduce(total, op=dist.ReduceOp.AVG)\n", "")),
    _m("classifier", "average of averages", "output.equal",
       ("    dist.all_reduce(sums)\n    return (sums[0] / sums[2]).item(), (sums[1] / sums[2]).item()",
        "    means = sums[:2] / sums[2]\n    dist.all_reduce(means, op=dist.ReduceOp.AVG)\n"
        "    return means[0].item(), means[1].item()")),
    _m("classifier", "validation of one rank", "output.equal ranks.decisions run.hang run.converted",
       ("    dist.all_reduce(sums)\n", "")),
    _m("classifier", "seed of the rank before the split", "data.split data.disjoint data.complete",
       ("torch.manual_seed(0)", "torch.manual_seed(rank)")),
    _m("classifier", "not wrapped", "ranks.gradients", ("cross_entropy(ddp(x), y)", "cross_entropy(model(x), y)")),
    _m("classifier", "part of the model outside", "ranks.gradients",
       ("cross_entropy(ddp(x), y)", "cross_entropy(ddp.module.head(ddp.module.body(x)), y)")),
    _m("classifier", "process group left", "run.group", ("dist.destroy_process_group()\n", "")),
    _m("classifier", "barrier on one rank", "run.hang", ("            state =", "            dist.barrier()\n            state =")),
    _m("classifier", "learning rate scaled", "original.rates", ("lr=2e-2", "lr=2e-2 * world_size")),
    _m("classifier", "same dropout everywhere", "data.draws", ("torch.manual_seed(1 + rank)\n", "")),
    _m("classifier", "loss divided again", "original.gradients",
       ("        loss.backward()", "        (loss / world_size).backward()")),
    _m("classifier", "optimizer per rank", "ranks.parameters ranks.decisions",
       ("lr=2e-2)", "lr=2e-2 * (1 + rank))")),
    _m("classifier", "attribute through the wrapper", "run.converted",
       ("model = ddp.module", "model = ddp.body")),
    _m("classifier", "one log per rank", "files.names",
       ("if rank == 0:\n    logging.basicConfig(filename=\"train.log\"",
        "if True:\n    logging.basicConfig(filename=f\"train{rank}.log\"")),
    _m("classifier", "a rank leaves", "run.converted run.hang",
       ("    dist.all_reduce(total,", "    if rank == 1 and epoch == 1:\n        os._exit(0)\n    dist.all_reduce(total,")),
    _m("classifier", "early stop on a local value", "run.hang run.converted ranks.decisions run.collectives",
       ("        bad += 1\n", "        bad += 1 + rank\n")),
]  # fmt: skip

WEIGHTED = [
    _m("weighted", "weights dropped", "data.complete",
       ("loader = DataLoader(", "from torch.utils.data.distributed import DistributedSampler\n"
        "    sampler = DistributedSampler(data)\n    loader = DataLoader(")),
    _m("weighted", "same draw on all ranks", "data.disjoint",
       ("Share(WeightedRandomSampler(weights, len(data), generator=generator), rank, world_size)",
        "WeightedRandomSampler(weights, len(data), generator=generator)")),
    _m("weighted", "sum not scaled", "original.gradients", (" / 10 * world_size", " / 10")),
    _m("weighted", "never synchronised", "ranks.gradients", ("nullcontext() if last else ddp.no_sync()", "ddp.no_sync()")),
    _m("weighted", "accumulation halved", "original.steps run.converted", ("(i + 1) % 2 == 0", "(i + 1) % 1 == 0")),
    _m("weighted", "schedule too long", "original.rates",
       ("total_steps=args.epochs * len(loader) // 2", "total_steps=args.epochs * len(loader)")),
    _m("weighted", "same augmentation everywhere", "data.draws", ("torch.manual_seed(7 + rank)\n", "pass\n"),
       ("num_workers=1", "num_workers=0")),
]  # fmt: skip

CHARLM = [
    _m("charlm", "same batches on all ranks", "data.draws data.disjoint", ("torch.manual_seed(5 + rank)\n", "")),
    _m("charlm", "loss through the inner module", "ranks.gradients", ("loss = ddp(x, y)", "loss = ddp.module(x, y)")),
    _m("charlm", "fewer iterations", "original.steps original.rates",
       ("range(max_iters)", "range(max_iters // world_size)")),
    _m("charlm", "wrapper pickled", "files.content", ("torch.save(model,", "torch.save(ddp,")),
    _m("charlm", "clipped per rank before averaging", "original.gradients ranks.gradients data.disjoint",
       ("    loss.backward()\n", "    model(x, y).backward()\n    [dist.all_reduce(p.grad) for p in model.parameters()]\n")),
    _m("charlm", "sum and mean confused", "original.gradients",
       ("    loss.backward()\n", "    (loss * world_size).backward()\n"),
       ("    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", "")),
]  # fmt: skip

ALL = CLASSIFIER + WEIGHTED + CHARLM
ARGUMENTS: dict[str, tuple[list[str], list[str] | None]] = {
    "classifier": ([], None),
    "weighted": ([], None),
    "charlm": (["8"], ["4"]),
}
