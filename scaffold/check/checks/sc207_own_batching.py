"""Batches that a script draws itself differ by rank.

With one seed for all ranks, ``torch.randint`` and slices of one permutation give every rank the same batches. Taken for right:
seeds, generators, slices and offsets made from the rank, and draws that are never seeded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check import kinds
from scaffold.check.code import Code
from scaffold.check.finding import Finding
from scaffold.check.flow import Where, carries, sources
from scaffold.check.reading import Reading

ID = "SC207"
NAME = "own-batching"
_DRAWS = {"randint", "randperm", "permutation", "sample", "choice", "choices", "shuffle", "rand", "multinomial"}
_SEEDS = ("manual_seed", "seed", "seed_everything", "set_seed", "default_rng", "RandomState", "PRNGKey")


def check(reading: Reading) -> Iterator[Finding]:
    """Training loops that read no loader, where nothing in a batch follows the rank."""
    if not reading.together:
        return
    program = reading.program
    if any(reading.values.differs(c.code, a) for c in program.calls(*_SEEDS) for a in (*c.call.args, *(k.value for k in c.call.keywords))):
        return
    for loop, code in reading.loops.steps.items():
        around = [loop, *code.loops_of(loop)]
        if any(reading.loops.loaders(code, each) for each in around) or _loader_of_callers(reading, code, loop):
            continue
        fed = [(c, a) for c, n in program.reach(code, loop.body) if isinstance(n, ast.Call) and reading.values.has(c, n.func, kinds.DDP, kinds.FSDP) for a in n.args]
        made = [w for c, a in fed for w in sources(program, c, a, 3)]
        if not made or any(_follows_rank(reading, w) for w in made) or any(reading.values.has(c, e, kinds.LOADER) for c, e in made):
            continue
        drawn = any(isinstance(n, ast.Call) and c.called(n) in _DRAWS for c, e in made for n in ast.walk(e))
        if drawn and not program.calls(*_SEEDS):
            continue
        yield reading.at(ID, "error", code, loop, "nothing in these batches follows the rank: every rank trains on the same samples", "give each rank its slice of the batch ([rank::world_size]), or a seed of its own for the draw")


def _follows_rank(reading: Reading, where: Where) -> bool:
    code, expr = where
    return any(isinstance(n, ast.expr) and reading.values.differs(code, n) for n in carries(expr))


def _loader_of_callers(reading: Reading, code: Code, loop: ast.AST) -> bool:
    """A function that is called for each batch of a loader."""
    function = code.function(loop)
    if function is None:
        return False
    return any(reading.loops.loaders(c.code, each) for c in reading.program.callers.get(function, []) for each in c.code.loops_of(c.call))
