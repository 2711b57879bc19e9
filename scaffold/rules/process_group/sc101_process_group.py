"""Start one process group, tell each process which it is, and close the group at the end.

Without a process group the copies of the script that ``torchrun`` starts know nothing of each other: each trains the
whole job. Without ``set_device`` they all use GPU 0. Without ``destroy_process_group`` NCCL warns, and may hang, at exit.

Under Gloo a thread takes Python's lock for a moment after each collective, to free what belonged to it. A process that
ends in those milliseconds aborts or hangs (torch 2.13: 5 of 25 runs of a script that ends with its last step), so a
script that may run on the CPU waits for a tenth of a second before it closes the group.

Before::

    def main():
        args = parser.parse_args()
        device = torch.device("cuda")

After::

    def main():
        args = parser.parse_args()
        if "RANK" not in os.environ:
            raise SystemExit("launch with: torchrun --nproc-per-node=<number of GPUs> train.py")
        local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")
        rank, world_size = dist.get_rank(), dist.get_world_size()
        device = torch.device("cuda")

Reference: https://docs.pytorch.org/docs/stable/distributed.html#initialization
and https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.device import cuda_test
from scaffold.plan.setup import Setup
from scaffold.rules import Diagnostic
from scaffold.source.edits import SETUP, Author
from scaffold.source.tree import Source

ID = "SC101"
NAME = "process-group"
SEVERITY = "W"

_EXITS = {"sys.exit", "exit", "quit", "os._exit"}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Insert set-up before the first thing that needs it, and the clean-up behind the last."""
    setup = plan.setup
    if setup is None:
        entry = plan.facts.project.entry
        yield Diagnostic.at(ID, "error", entry, entry.tree, "no place for the process group was found", "call the training code from this file")
        return
    if not plan.facts.trace.complete:
        entry = plan.facts.project.entry
        yield Diagnostic.at(ID, "error", entry, entry.tree, "the script is too large to be followed to its end", "convert the module that trains on its own")
    source = setup.source
    dist = plan.dist(author, source)
    author.need(source, "import os")
    names = plan.names
    torch = plan.torch(author, source) if plan.device != "cpu" else "torch"
    lines = [
        'if "RANK" not in os.environ:',
        f'    raise SystemExit("launch with: torchrun --nproc-per-node=<number of GPUs> {plan.facts.project.entry.path.name}")',
    ]
    if plan.device == "cuda":
        lines += [f'{names["local_rank"]} = int(os.environ["LOCAL_RANK"])', f"{torch}.cuda.set_device({names['local_rank']})"]
    elif plan.device == "maybe":
        lines += [f'{names["local_rank"]} = int(os.environ["LOCAL_RANK"])', f"if {cuda_test(plan.facts, setup, torch)}:", f"    {torch}.cuda.set_device({names['local_rank']})"]
    lines += [f"{dist}.init_process_group({_backend(plan, setup, torch)})", f"{names['rank']}, {names['world_size']} = {dist}.get_rank(), {dist}.get_world_size()"]
    author.before(source, setup.anchor, "\n".join(lines), SETUP, above_comments=True)
    _close(plan, author, setup)


def _backend(plan: Plan, setup: Setup, torch: str) -> str:
    if plan.options.backend:
        return f'"{plan.options.backend}"'
    return {"cuda": '"nccl"', "maybe": f'"nccl" if {cuda_test(plan.facts, setup, torch)} else "gloo"', "cpu": '"gloo"'}[plan.device]


def _close(plan: Plan, author: Author, setup: Setup) -> None:
    """Close the group where the set-up's block ends, and before every explicit exit after it."""
    source = setup.source
    line = _closing(plan, author, source)
    owner = setup.scope
    if isinstance(owner, cst.FunctionDef):
        frames = plan.facts.called_from(owner)
        call = frames[0].call if frames else None
        place = frames[0].caller.source if frames and frames[0].caller else source
        if call is not None:
            statement = place.statement(call)
            author.after(place, statement, _closing(plan, author, place))
        else:
            author.after(source, setup.suite.body[-1], line)
    else:
        author.after(source, setup.suite.body[-1], line)
    for event in plan.facts.trace.events:
        if event.kind == "call" and event.name in _EXITS and event.grad is not None:
            statement = event.source.statement(event.node)
            started = event.order > min((e.order for e in plan.facts.trace.events if e.node is setup.anchor or _inside(plan, e, setup)), default=0)
            if started and isinstance(statement, cst.SimpleStatementLine):
                author.before(event.source, statement, _closing(plan, author, event.source))


def _closing(plan: Plan, author: Author, source: Source) -> str:
    line = f"{plan.dist(author, source)}.destroy_process_group()"
    if "gloo" not in (plan.options.backend or ("gloo" if plan.device != "cuda" else "nccl")):
        return line
    return f"{plan.sleep(author, source)}(0.1)  # Gloo's threads free their last work; Python must not end before them\n{line}"


def _inside(plan: Plan, event: object, setup: Setup) -> bool:
    node = getattr(event, "node", None)
    return node is not None and getattr(event, "source", None) is setup.source and setup.anchor in [node, *setup.source.ancestors(node)]
