"""Each check: a fault put into a right program is found by its rule, an idiom that looks like it is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.check.checks import all_checks
from scaffold.check.config import Config
from scaffold.check.finding import Finding
from scaffold.check.run import check

RIGHT = (Path(__file__).parent / "right.py").read_text(encoding="utf-8")

Edits = list[tuple[str, str]]
GUARD = "        if rank == 0:\n            writer"
TRAIN = "            optimizer.step()\n"

FAULTS: list[tuple[str, str, Edits]] = [
    ("SC101", "the group is left open", [("    dist.destroy_process_group()\n", "")]),
    ("SC101", "the group is made twice", [('    dist.init_process_group("nccl")\n', '    dist.init_process_group("nccl")\n    dist.init_process_group("nccl")\n')]),
    ("SC102", "a barrier on rank 0", [(GUARD, "        if rank == 0:\n            dist.barrier()\n            writer")]),
    ("SC102", "a function that reduces, called on rank 0", [("        accuracy = evaluate(", "        accuracy = 0.0\n        if rank == 0:\n            accuracy = evaluate(")]),
    ("SC102", "a reduction in a conditional expression", [("accuracy = evaluate(net, test_loader, device)", "accuracy = evaluate(net, test_loader, device) if rank == 0 else 0.0")]),
    ("SC103", "a rank leaves", [(TRAIN, TRAIN + "            if rank == 1 and epoch == 3:\n                return\n")]),
    ("SC103", "patience that follows the rank", [("        best = max(best, accuracy)\n", "        best += rank\n        if best > 4:\n            break\n")]),
    ("SC201", "no sampler", [("sampler=sampler)", "shuffle=True)"), ("        sampler.set_epoch(epoch)\n", "")]),
    ("SC201", "a sampler and shuffle", [("sampler=sampler)", "sampler=sampler, shuffle=True)")]),
    ("SC201", "the share of one rank", [("DistributedSampler(train_set)", "DistributedSampler(train_set, num_replicas=2, rank=0)")]),
    ("SC203", "no set_epoch", [("        sampler.set_epoch(epoch)\n", "")]),
    ("SC203", "always the same epoch", [("set_epoch(epoch)", "set_epoch(0)")]),
    ("SC206", "a stream that knows no rank", [
        ("class Net(", "class Stream(torch.utils.data.IterableDataset):\n    def __iter__(self):\n        yield from range(9)\n\n\nclass Net("),
        ("DataLoader(train_set, batch_size=8, sampler=sampler)", "DataLoader(Stream(), batch_size=8)"), ("        sampler.set_epoch(epoch)\n", ""),
    ]),
    ("SC207", "batches drawn alike", [
        ("for x, y in tqdm(loader, disable=rank != 0):", "for _ in range(10):\n            at = torch.randint(0, 80, (8,))\n            x, y = data[at]"),
        ("    torch.manual_seed(1 + rank)\n", ""),
    ]),
    ("SC208", "a split without a seed", [("    torch.manual_seed(0)\n", "")]),
    ("SC208", "a split that follows the rank", [("torch.manual_seed(0)", "torch.manual_seed(rank)")]),
    ("SC209", "one seed with dropout", [("nn.ReLU()", "nn.Dropout(0.1)"), ("torch.manual_seed(1 + rank)", "torch.manual_seed(1)")]),
    ("SC210", "a download on all ranks", [("    net = Net()", '    MNIST("data", download=True)\n    net = Net()')]),
    ("SC212", "numbers from a set", [("    net = Net()", "    classes = list(set(os.environ))\n    net = Net()")]),
    ("SC301", "not wrapped", [("DDP(net, device_ids=[local_rank])", "net")]),
    ("SC301", "moved after it was wrapped", [("    optimizer = ", "    ddp.to(device)\n    optimizer = ")]),
    ("SC301", "a learning rate of each rank", [("lr=0.1", "lr=0.1 * (rank + 1)")]),
    ("SC301", "weights of each rank", [("    ddp = DDP", "    [p.data.mul_(1 + rank) for p in net.parameters()]\n    ddp = DDP")]),
    ("SC303", "the loss past the wrapper", [("ddp(x.to(device))", "ddp.module(x.to(device))")]),
    ("SC303", "the loss through a method", [("ddp(x.to(device))", "net.forward(x.to(device))")]),
    ("SC303", "an attribute of the wrapper", [("ddp.parameters()", "ddp.head.parameters()")]),
    ("SC307", "accumulation that reduces each time", [(
        "            optimizer.step()\n", "            if (epoch + 1) % 4 == 0:\n                optimizer.step()\n                optimizer.zero_grad()\n",
    )]),
    ("SC307", "never reduced", [("            loss.backward()", "            with ddp.no_sync():\n                loss.backward()")]),
    ("SC308", "BatchNorm replaced after the wrapper", [("    optimizer = ", "    ddp = nn.SyncBatchNorm.convert_sync_batchnorm(ddp)\n    optimizer = ")]),
    ("SC311", "DataParallel as well", [("    ddp = DDP(net", "    net = nn.DataParallel(net)\n    ddp = DDP(net")]),
    ("SC315", "a sum", [("y.to(device))\n            loss", 'y.to(device), reduction="sum")\n            loss')]),
    ("SC315", "a mean multiplied", [("loss.backward()", "(loss * world_size).backward()")]),
    ("SC315", "divided once more", [("loss.backward()", "(loss / world_size).backward()")]),
    ("SC401", "the first GPU", [("x.to(device)), y", 'x.to("cuda:0")), y')]),
    ("SC401", "no GPU chosen", [('torch.device("cuda", local_rank)', 'torch.device("cuda")'), ("    torch.cuda.set_device(device)\n", ""), (", device_ids=[local_rank]", ""), ("    net = Net().to(device)", "    net = Net().cuda()")]),
    ("SC402", "GPUs hidden", [("    rank, local_rank", '    os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n    rank, local_rank')]),
    ("SC403", "CUDA before the device", [("    torch.cuda.set_device(device)\n", '    warm = torch.zeros(1).cuda()\n    torch.cuda.set_device(device)\n')]),
    ("SC501", "parts never put together", [("    dist.all_reduce(sums)\n", "")]),
    ("SC501", "a mean of means", [("    dist.all_reduce(sums)\n    return (sums[0] / sums[1]).item()", "    mean = sums[0] / sums[1]\n    dist.all_reduce(mean, op=dist.ReduceOp.AVG)\n    return mean.item()")]),
    ("SC501", "padding counted", [("sampler=range(rank, len(held_out), world_size)", "sampler=DistributedSampler(held_out, shuffle=False)")]),
    ("SC501", "a sum that is averaged", [("dist.all_reduce(sums)\n    return (sums[0] / sums[1]).item()", "dist.all_reduce(sums, op=dist.ReduceOp.AVG)\n    return (sums[0] / len(loader.dataset)).item()")]),
    ("SC504", "a list of local losses shown", [("        ddp.train()\n", "        ddp.train()\n        losses = []\n"), (TRAIN, TRAIN + "            losses.append(loss.item())\n"), ("print(epoch, accuracy)", "print(epoch, sum(losses))")]),
    ("SC502", "rank 0 through the wrapper", [(GUARD, "        if rank == 0:\n            ddp(torch.zeros(8, 8, device=device))\n            writer")]),
    ("SC503", "a stop on a local loss", [(TRAIN, TRAIN + "            if loss.item() > 100:\n                return\n")]),
    ("SC503", "a time limit", [("    best = 0.0\n", "    best = 0.0\n    start = time.time()\n"), ("        if accuracy > 0.99:", "        if time.time() - start > 3600:"), ("import os\n", "import os\nimport time\n")]),
    ("SC503", "a schedule on a local loss", [("plateau.step(accuracy)", "plateau.step(loss.item())")]),
    ("SC504", "a local loss shown", [("print(epoch, accuracy)", "print(epoch, loss.item())")]),
    ("SC601", "printed by all", [("        plateau.step", "        print(epoch, accuracy)\n        plateau.step")]),
    ("SC602", "a bar for each rank", [("tqdm(loader, disable=rank != 0)", "tqdm(loader)")]),
    ("SC603", "a writer for each rank", [(' if rank == 0 else None', "")]),
    ("SC604", "a log of all ranks", [("        plateau.step", '        with open("log.txt", "a") as log:\n            log.write("x")\n        plateau.step')]),
    ("SC605", "a race for a folder", [(', exist_ok=True', "")]),
    ("SC606", "a folder named by the clock", [('os.makedirs("runs", exist_ok=True)', 'os.makedirs(time.strftime("%H%M%S"), exist_ok=True)')]),
    ("SC611", "saved by all", [("            torch.save", "        torch.save")]),
    ("SC611", "the wrapper's keys", [("torch.save(net.state_dict()", "torch.save(ddp.state_dict()")]),
    ("SC611", "the wrapper pickled", [("torch.save(net.state_dict()", "torch.save(ddp")]),
    ("SC612", "loaded onto the first GPU", [(", map_location=device", "")]),
    ("SC612", "read before it is written", [("            torch.save(net.state_dict(), \"last.pt\")\n", ""), ("    dist.barrier()\n", '    if rank == 0:\n        torch.save(net.state_dict(), "last.pt")\n')]),
    ("SC701", "an optimizer before the shards", [("    ddp = DDP(net, device_ids=[local_rank])\n    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)", "    ddp = net\n    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n    fully_shard(net)")]),
    ("SC701", "the root first", [("    ddp = DDP(net, device_ids=[local_rank])\n", "    ddp = net\n    fully_shard(net)\n    for block in net.body:\n        fully_shard(block)\n")]),
    ("SC702", "shares saved", [("    ddp = DDP(net, device_ids=[local_rank])\n", "    ddp = net = fully_shard(net)\n")]),
]  # fmt: skip

IDIOMS: list[tuple[str, Edits]] = [
    ("one process of a machine goes first", [("    net = Net()", "    if local_rank != 0:\n        dist.barrier()\n    open('x')\n    if local_rank == 0:\n        dist.barrier()\n    net = Net()")]),
    ("a number that all ranks agree on", [(TRAIN, TRAIN + "            bad = loss.detach().clone()\n            dist.all_reduce(bad)\n            if bad.item() > 100:\n                return\n")]),
    ("a summed loss, scaled", [("y.to(device))\n            loss.backward()", 'y.to(device), reduction="sum")\n            (loss * world_size / 64).backward()')]),
    ("the wrapper saves and loads", [("torch.save(net.state_dict()", "torch.save(ddp.state_dict()"), ("    net.load_state_dict", "    ddp.load_state_dict")]),
    ("files of each rank", [("            torch.save(net.state_dict(), \"last.pt\")", '            pass\n        torch.save(loss, f"loss{rank}.pt")')]),
    ("a line that names its rank", [("        plateau.step", '        print(f"[{rank}] {accuracy}")\n        plateau.step')]),
    ("rank 0 through the module inside", [(GUARD, "        if rank == 0:\n            ddp.module(torch.zeros(8, 8, device=device))\n            writer")]),
    ("no_sync but for the last", [("            loss.backward()", "            if epoch % 2:\n                with ddp.no_sync():\n                    loss.backward()\n            else:\n                loss.backward()")]),
    ("a writer that only rank 0 has", [("        if rank == 0:\n            writer.add_scalar", "        if writer is not None:\n            writer.add_scalar")]),
    ("a writer that only rank 0 has, given to a method", [
        ("class Net(", "class Log:\n    def show(self, writer, value):\n        if writer is not None:\n            torch.save(value, \"v.pt\")\n\n\nclass Net("),
        ('    writer = SummaryWriter("runs") if rank == 0 else None\n', '    writer = None\n    if rank == 0:\n        writer = SummaryWriter("runs")\n'),
        ("        plateau.step", "        Log().show(writer, accuracy)\n        plateau.step"),
    ]),
    ("draws of each rank", [("for x, y in tqdm(loader, disable=rank != 0):", "for _ in range(10):\n            at = torch.randint(0, 80, (8,))\n            x, y = data[at]")]),
    ("gradients averaged by hand", [("ddp = DDP(net, device_ids=[local_rank])", "ddp = net"), ("            optimizer.step()", "            for p in net.parameters():\n                dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)\n            optimizer.step()")]),
    ("print is silenced elsewhere", [("class Net(", "import builtins\n\n\ndef quiet():\n    builtins.print = lambda *a: None\n\n\nclass Net("), ("        plateau.step", "        print(epoch)\n        plateau.step")]),
]  # fmt: skip


def found(folder: Path, edits: Edits) -> list[Finding]:
    """What is found in the right program with some edits."""
    text = RIGHT
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    compile(text, "case", "exec")
    (folder / "train.py").write_text(text, encoding="utf-8")
    return check([folder], Config(root=folder)).findings


def test_the_right_program_is_clear(tmp_path: Path) -> None:
    assert found(tmp_path, []) == []


@pytest.mark.parametrize(("rule", "name", "edits"), FAULTS, ids=[f"{r}-{n.replace(' ', '-')}" for r, n, _ in FAULTS])
def test_a_fault_is_found(tmp_path: Path, rule: str, name: str, edits: Edits) -> None:
    rules = [f.rule for f in found(tmp_path, edits)]
    assert rule in rules, f"{name}: {rules}"


@pytest.mark.parametrize(("name", "edits"), IDIOMS, ids=[n.replace(" ", "-") for n, _ in IDIOMS])
def test_an_idiom_is_left_alone(tmp_path: Path, name: str, edits: Edits) -> None:
    assert [f for f in found(tmp_path, edits) if f.severity != "note"] == []


def test_every_check_has_a_fault_here() -> None:
    assert {c.id for c in all_checks()} <= {rule for rule, _, _ in FAULTS}
