"""Ask, start and serve once: terminal input, shell commands, ports, signals, processes of the script's own.

``input()`` reaches rank 0; the others get ``EOFError``. A shell command runs N times. A second server on one port fails. A signal reaches each
rank at another step: one that saves or leaves then, while others wait in a collective, hangs.

Before::

    answer = input("overwrite? ")
    os.system(f"cp train.py {run_dir}")

After::

    answer = from_rank_0(input("overwrite? ") if rank == 0 else None)
    if rank == 0:
        os.system(f"cp train.py {run_dir}")

Reference: https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from scaffold.plan import Plan
from scaffold.plan.first import nodes_in_first
from scaffold.roles import api
from scaffold.roles.trace import Event
from scaffold.roles.values import Func
from scaffold.rules import Diagnostic
from scaffold.rules.common import broadcast_object
from scaffold.rules.effects.sc601_print_once import guard_call
from scaffold.source.edits import Author
from scaffold.source.tree import walk

ID = "SC614"
NAME = "process"
SEVERITY = "C"

_SERVERS = {"prometheus_client.start_http_server", "wsgiref.simple_server.make_server", "http.server.HTTPServer", "socketserver.TCPServer", "webbrowser.open"}
_SPAWNS = {"multiprocessing.Process", "torch.multiprocessing.Process", "torch.multiprocessing.spawn"}
_SIGNALS_OK = {"signal.SIG_IGN", "signal.SIG_DFL"}


def apply(plan: Plan, author: Author) -> Iterable[Diagnostic]:
    """Give one process the terminal and the shell; report what must be decided by hand."""
    done: set[cst.CSTNode] = set()
    skip = nodes_in_first(plan.facts)
    for event in plan.facts.trace.of_kind("call"):
        node = event.node
        if not isinstance(node, cst.Call) or node in done or node in skip:
            continue
        done.add(node)
        alone = isinstance(event.source.parents[node], cst.Expr)
        if event.name in api.READS_TERMINAL:
            if alone:
                guard_call(plan, author, event.source, node)
            else:
                author.wrap(event.source, node, f"{broadcast_object(plan, author, event.source)}(", f" if {plan.is_main(author, event.source, node)} else None)")
        elif event.name in api.SHELL_CALLS | _SERVERS and alone:
            guard_call(plan, author, event.source, node)
        elif event.name == "signal.signal":
            yield from _signal(event, node)
        elif event.name in _SPAWNS:
            yield from _spawn(event, node)
        elif event.name in {"socket.socket.bind", "?.bind"} and node.args and isinstance(node.args[0].value, cst.Tuple):
            yield Diagnostic.at(ID, "warning", event.source, node, "every process would bind this port, and all but one would fail", "bind it on rank 0 only")


def _signal(event: Event, node: cst.Call) -> Iterable[Diagnostic]:
    if len(node.args) > 1 and event.source.code(node.args[1].value) not in _SIGNALS_OK:
        yield Diagnostic.at(
            ID, "warning", event.source, node, "a signal reaches each process at another step: one that saves or leaves then makes the others wait for ever",
            "let the handler only set a flag, and let all ranks look at it together after a step (an all-reduce of the flag)",
        )  # fmt: skip


def _spawn(event: Event, node: cst.Call) -> Iterable[Diagnostic]:
    targets = [o for v in (*event.args, *event.kwargs.values()) for o in v.objs if isinstance(o, Func) and o.node is not None]
    if any(isinstance(n, cst.Attribute) and n.attr.value == "backward" for t in targets for n in walk(t.node)):  # type: ignore[arg-type]
        yield Diagnostic.at(
            ID, "error", event.source, node, "the script starts training processes of its own; each process that torchrun starts would start them again",
            "call the training function once, and let torchrun start the processes",
        )  # fmt: skip
