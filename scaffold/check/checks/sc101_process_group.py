"""The process group is closed on the way out, and the local rank comes from where torchrun puts it.

A process that ends without ``destroy_process_group()`` warns, and may hang with NCCL. torchrun passes no ``--local_rank``
argument: a script that reads the argument alone takes its default in every process, so that all run on one GPU.
https://docs.pytorch.org/docs/stable/distributed.html#shutdown
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.check.finding import Finding
from scaffold.check.reading import Reading

ID = "SC101"
NAME = "process-group"


def check(reading: Reading) -> Iterator[Finding]:
    """A group left open, made twice in a row, or a local rank nobody gives."""
    program = reading.program
    made = program.calls("init_process_group")
    for called in made[:1]:
        if not program.calls("destroy_process_group") and program.trains:
            yield reading.at(
                ID, "warning", called.code, called.call, "the process group is never closed: processes end with a warning, or hang in NCCL",
                "call torch.distributed.destroy_process_group() at the end",
            )  # fmt: skip
    blocks: set[ast.AST] = set()
    for called in sorted(made, key=lambda c: c.call.lineno):
        block = called.code.parent[called.code.statement(called.call)]
        if block in blocks and not isinstance(block, (ast.If, ast.Try, ast.Match)):
            yield reading.at(
                ID, "error", called.code, called.call, "the process group is made a second time: torch raises \"trying to initialize the default process group twice\"",
                "keep one call of init_process_group",
            )  # fmt: skip
        blocks.add(block)
    if any("LOCAL_RANK" in c.text or "local_rank()" in c.text or "SLURM_LOCALID" in c.text for c in program.codes):
        return
    for called in program.calls("add_argument"):
        names = {a.value for a in called.call.args if isinstance(a, ast.Constant)}
        if names & {"--local_rank", "--local-rank"}:
            yield reading.at(
                ID, "error", called.code, called.call, "torchrun passes no --local_rank: every process takes the default, and all run on one GPU",
                'read int(os.environ["LOCAL_RANK"])',
            )  # fmt: skip
