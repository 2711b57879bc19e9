"""Blocks are sharded first, the root last, and the optimizer gets what comes out.

``fully_shard`` replaces parameters by DTensors: an optimizer made before steps the old ones, and nothing trains. A root sharded
before its blocks takes all their parameters into one group; blocks without the root leave the rest on every rank unsynchronised.
https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code
from scaffold.check.finding import Finding
from scaffold.check.flow import assigned, body_of, own_sources, read, text_of
from scaffold.check.program import Called
from scaffold.check.reading import Reading

ID = "SC701"
NAME = "shard-model"


def check(reading: Reading) -> Iterator[Finding]:
    """Optimizers that come too early, roots that come first or never, shards saved as if they were whole."""
    shards = [c for c in reading.program.calls("fully_shard", "FullyShardedDataParallel") if c.call.args]
    for optimizer in reading.program.calls(*sorted(kinds.OPTIMIZERS)):
        late = next((s for s in shards if _same_function(s, optimizer) and s.call.lineno > optimizer.call.lineno and _same_model(s, optimizer) and not s.code.apart(s.call, optimizer.call)), None)
        if late is not None:
            yield reading.at(ID, "error", optimizer.code, optimizer.call, f"the optimizer is made before the model is sharded (line {late.call.lineno}): it steps parameters that are no longer the model's", "make the optimizer after the last fully_shard")
    fsdp2 = [c for c in reading.program.calls("fully_shard") if c.call.args]
    roots = [c for c in fsdp2 if isinstance(c.call.args[0], ast.Name) and not _loop_name(c)]
    for block in (c for c in fsdp2 if _loop_name(c)):
        early = next((r for r in roots if _same_function(r, block) and r.call.lineno < block.call.lineno and _iterates(block, text_of(r.call.args[0]))), None)
        if early is not None:
            yield reading.at(ID, "error", early.code, early.call, f"the root is sharded before its blocks (line {block.call.lineno}): it takes all their parameters into one group", "shard the blocks first, the root last")
    if fsdp2 and not roots and all(_loop_name(c) for c in fsdp2) and not _elsewhere(reading):
        yield reading.at(ID, "error", fsdp2[0].code, fsdp2[0].call, "blocks are sharded and the root never is: parameters outside the blocks are not synchronised", "call fully_shard(model) after its blocks")
    if fsdp2:
        yield from _shards_saved(reading)


def _same_function(one: Called, other: Called) -> bool:
    return one.code is other.code and one.code.function(one.call) is other.code.function(other.call)


def _same_model(shard: Called, optimizer: Called) -> bool:
    """The optimizer reads parameters of what is sharded, or of what holds it."""
    given = {n for a in (*optimizer.call.args[:1], *(k.value for k in optimizer.call.keywords if k.arg == "params")) for n in read(a)}
    target = text_of(shard.call.args[0])
    return target in given or any(_iterates(shard, name) for name in given)


def _loop_name(called: Called) -> bool:
    name = text_of(called.call.args[0])
    return any(isinstance(loop, ast.For) and name.split(".")[0] in read(loop.target) for loop in called.code.loops_of(called.call))


def _iterates(called: Called, name: str) -> bool:
    return any(isinstance(loop, ast.For) and bool(name) and name in read(loop.iter) for loop in called.code.loops_of(called.call))


def _elsewhere(reading: Reading) -> bool:
    """The root is wrapped by something else."""
    return bool(reading.program.calls("DistributedDataParallel", "FullyShardedDataParallel", "replicate", "apply", "parallelize_module"))


def _shards_saved(reading: Reading) -> Iterator[Finding]:
    for called in reading.program.calls("save"):
        code, call = called
        if code.dotted(call.func) != "torch.save" or not call.args:
            continue
        for c, node in own_sources(code, call.args[0]):
            if _whole(code, call):
                break
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "state_dict" and {kinds.FSDP} & {h.kind for h in reading.values.of(c, node.func.value)}:
                yield reading.at("SC702", "error", c, node, "state_dict() of a sharded model holds this rank's shares: the file is not the whole model", "get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)) on all ranks, then save on rank 0")
                break


def _whole(code: Code, call: ast.Call) -> bool:
    names = [n for _, n in own_sources(code, call.args[0])]
    if any(isinstance(n, ast.Attribute) and n.attr == "full_tensor" for n in names):
        return True
    return any("full_tensor" in ast.unparse(s) or "FULL_STATE_DICT" in ast.unparse(s) or "get_model_state_dict" in ast.unparse(s) for s in body_of(code, call) if assigned(s) or isinstance(s, (ast.For, ast.With, ast.If)))
