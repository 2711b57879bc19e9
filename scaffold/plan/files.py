"""Files and folders that a script writes and reads: which calls do it, on which path, and whether two mean one file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from scaffold.plan.places import argument_at
from scaffold.roles.facts import Facts
from scaffold.roles.trace import Event
from scaffold.source.tree import Source, children, walk

OPENERS = {"open", "io.open", "codecs.open", "gzip.open", "bz2.open", "lzma.open"}
"""Functions that open a path and take ``os.devnull`` for it."""

_WRITE_PATHS = {
    "torch.save": (1, "f"), "torch.jit.save": (1, "f"), "joblib.dump": (1, "filename"), "numpy.save": (0, "file"), "numpy.savez": (0, "file"),
    "numpy.savez_compressed": (0, "file"), "numpy.savetxt": (0, "fname"), "shutil.copy": (1, "dst"), "shutil.copyfile": (1, "dst"),
    "shutil.copy2": (1, "dst"), "shutil.move": (1, "dst"), "os.rename": (1, "dst"), "os.replace": (1, "dst"),
    "safetensors.torch.save_file": (1, "filename"), "urllib.request.urlretrieve": (1, "filename"),
}  # fmt: skip
_WRITE_METHODS = {"to_csv", "to_json", "to_pickle", "to_parquet", "save_pretrained", "save_to_disk"}
_READ_PATHS = {
    "torch.load": (0, "f"), "torch.jit.load": (0, "f"), "joblib.load": (0, "filename"), "numpy.load": (0, "file"), "numpy.loadtxt": (0, "fname"),
    "pandas.read_csv": (0, "filepath_or_buffer"), "pandas.read_pickle": (0, "filepath_or_buffer"), "pandas.read_json": (0, "path_or_buf"),
    "pandas.read_parquet": (0, "path"), "safetensors.torch.load_file": (0, "filename"),
}  # fmt: skip
_READ_METHODS = {"read_text", "read_bytes"}
_EXISTS = {"exists", "isfile", "isdir", "is_file", "is_dir", "lexists"}


@dataclass(frozen=True)
class Access:
    """One call that writes or reads the file at ``path``."""

    event: Event
    path: cst.BaseExpression

    @property
    def node(self) -> cst.Call:
        """The call."""
        assert isinstance(self.event.node, cst.Call)
        return self.event.node


def is_path_open(event: Event) -> bool:
    """Whether an event is ``path.open(...)``."""
    return event.name in {"?.open", "pathlib.Path.open"} and isinstance(event.node, cst.Call) and isinstance(event.node.func, cst.Attribute)


def modes(event: Event) -> set[str]:
    """The modes that an ``open`` call may be given, as far as they are literal."""
    value = event.argument(0 if is_path_open(event) else 1, "mode")
    if value is None:
        return {"r"}
    return {m for m in value.consts() if isinstance(m, str)}


def opens_to_write(event: Event) -> bool:
    """Whether an event opens a file and every mode it may have creates, truncates or appends."""
    if event.kind != "call" or not (event.name in OPENERS or is_path_open(event)):
        return False
    found = modes(event)
    return bool(found) and all(set(m) & set("wax") for m in found)


def _opens_to_read(event: Event) -> bool:
    return event.kind == "call" and (event.name in OPENERS or is_path_open(event)) and any("r" in m for m in modes(event))


def _path(event: Event, table: dict[str, tuple[int, str]], methods: set[str], opens: bool) -> cst.BaseExpression | None:
    node = event.node
    if not isinstance(node, cst.Call):
        return None
    if opens and isinstance(node.func, cst.Attribute) and is_path_open(event):
        return node.func.value
    place = table.get(event.name, (0, "file") if opens else None)
    short = event.name.rpartition(".")[2]
    if place is None and short in methods and isinstance(node.func, cst.Attribute):
        if short.startswith(("to_", "save_")):
            place = (0, "path")
        else:
            return node.func.value
    arg = argument_at(node, *place) if place else None
    return arg.value if arg is not None else None


@lru_cache(maxsize=8)
def writes(facts: Facts) -> tuple[Access, ...]:
    """Calls that write a file whose path they are given, in order."""
    found = []
    for event in facts.trace.of_kind("call"):
        path = _path(event, _WRITE_PATHS, _WRITE_METHODS | {"write_text", "write_bytes"}, opens_to_write(event))
        if path is not None and not _is_open(facts, path):
            found.append(Access(event, path))
    return tuple(found)


@lru_cache(maxsize=8)
def reads(facts: Facts) -> tuple[Access, ...]:
    """Calls that read a file whose path they are given, in order."""
    found = []
    for event in facts.trace.of_kind("call"):
        path = _path(event, _READ_PATHS, _READ_METHODS, _opens_to_read(event))
        if path is not None and not _is_open(facts, path):
            found.append(Access(event, path))
    return tuple(found)


def _is_open(facts: Facts, path: cst.BaseExpression) -> bool:
    """Whether a file is given open, and not by its path."""
    return any(i.qualified in OPENERS for i in facts.trace.value(path).insts())


def same_file(facts: Facts, one: Access, other: Access) -> bool:
    """Whether two paths are written alike: one variable, one setting, or one literal file name."""
    return bool(path_keys(facts, one.event.source, one.path) & path_keys(facts, other.event.source, other.path))


def path_keys(facts: Facts, source: Source, node: cst.CSTNode, depth: int = 0) -> frozenset[object]:
    """What identifies the file that an expression names."""
    found: set[object] = set()
    for const in facts.trace.value(node).consts():
        if isinstance(const, str) and const:
            found.add(_base(const))
    if isinstance(node, (cst.Name, cst.Attribute)):
        holder = source.function(node) if isinstance(node, cst.Name) else source
        found.add((holder, source.code(node)))
        found.update(("config", t.of) for t in facts.trace.value(node).tags if t.kind == "config")
        if depth < 3:
            for value in _assigned(source, node):
                found |= path_keys(facts, source, value, depth + 1)
    elif isinstance(node, cst.FormattedString):
        found.add(_base("".join(p.value if isinstance(p, cst.FormattedStringText) else "{}" for p in node.parts)))
    elif isinstance(node, cst.BinaryOperation):
        found |= path_keys(facts, source, node.left if isinstance(node.operator, cst.Modulo) else node.right, depth)
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in {"format", "absolute", "resolve"}:
        found |= path_keys(facts, source, node.func.value, depth)
    elif isinstance(node, cst.Call) and node.args:
        found |= path_keys(facts, source, node.args[-1].value, depth)
    return frozenset(k for k in found if k not in {"", "{}"})


def _base(text: str) -> str:
    return text.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _assigned(source: Source, name: cst.Name | cst.Attribute) -> Iterator[cst.BaseExpression]:
    """The values given to a variable in its function or module, or to an attribute anywhere in the file."""
    text = source.code(name)
    scopes = {source.function(name), source.tree} if isinstance(name, cst.Name) else {source.tree}
    for node in source.nodes:
        if not isinstance(node, cst.Assign) or not any(source.code(t.target) == text for t in node.targets):
            continue
        if isinstance(name, cst.Attribute) or source.function(node) in scopes:
            yield node.value


@lru_cache(maxsize=8)
def names_of_calls(facts: Facts) -> dict[cst.CSTNode, str]:
    """The qualified callee of each call that was reached."""
    return {e.node: e.name for e in facts.trace.of_kind("call")}


def tests_existence(facts: Facts, test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The paths whose existence a condition asks for."""
    names = names_of_calls(facts)
    found: list[cst.BaseExpression] = []
    for node in walk(test):
        if isinstance(node, cst.Call) and names.get(node, _spelled(node)).rpartition(".")[2] in _EXISTS:
            if node.args:
                found.append(node.args[0].value)
            elif isinstance(node.func, cst.Attribute):
                found.append(node.func.value)
    return found


def _spelled(node: cst.Call) -> str:
    return node.func.attr.value if isinstance(node.func, cst.Attribute) else node.func.value if isinstance(node.func, cst.Name) else ""


def own_nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Nodes under ``node``, the bodies of functions defined there left out."""
    yield node
    for child in children(node):
        if not isinstance(child, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            yield from own_nodes(child)
