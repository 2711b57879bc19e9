"""Renames every local identifier of a project at random, to names that mislead."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst
from libcst import metadata
from libcst.metadata import Assignment, ClassScope, GlobalScope, ImportAssignment, Scope, ScopeProvider

MISLEADING = (
    "model", "net", "optimizer", "loader", "train_loader", "test_loader", "val", "dataset", "loss", "acc", "epoch", "step",
    "batch", "rank", "device", "seed", "path", "best", "scheduler", "sampler", "print", "args", "x", "total", "count",
)  # fmt: skip


@dataclass
class Renaming:
    """New texts by file, and the old name for each new one (new names occur nowhere else, not even as parts)."""

    texts: dict[Path, str] = field(default_factory=dict)
    old: dict[str, str] = field(default_factory=dict)

    def undo(self, text: str) -> str:
        """The text with the old names."""
        for new in sorted(self.old, key=len, reverse=True):
            text = text.replace(new, self.old[new])
        return text


class _Apply(cst.CSTTransformer):
    METADATA_DEPENDENCIES = ()

    def __init__(self, renamed: dict[cst.CSTNode, str]) -> None:
        super().__init__()
        self.renamed = renamed

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        new = self.renamed.get(original_node)
        return updated_node if new is None else updated_node.with_changes(value=new)


def rename(files: list[Path], seed: int) -> Renaming:
    """Rename variables, parameters, functions and classes of ``files``, modules of one folder.

    What others may read by its name keeps it: attributes and methods, keywords, imported names, dictionary keys,
    the globals of a script that looks them up.
    """
    pick = random.Random(seed)
    result = Renaming()
    wrappers = {path: metadata.MetadataWrapper(cst.parse_module(path.read_text())) for path in files}
    local = {path.stem for path in files}
    keywords = {name for w in wrappers.values() for name in _keywords(w.module)}
    whole = {name for w in wrappers.values() for name in _whole_imports(w.module)}
    exported: dict[str, str] = {}

    def new(old: str) -> str:
        name = f"{pick.choice(MISLEADING)}_q{pick.randrange(1000)}z{len(result.old)}q"
        result.old[name] = old
        return name

    for path, wrapper in wrappers.items():
        free = path.stem not in whole and "globals()" not in wrapper.module.code
        renamed: dict[cst.CSTNode, str] = {}
        by_scope: dict[tuple[Scope, str], str] = {}
        for scope in dict.fromkeys(s for s in wrapper.resolve(ScopeProvider).values() if s is not None):
            for assignment in sorted(scope.assignments, key=lambda a: a.name):
                name = assignment.name
                if not _may_rename(scope, assignment, local, keywords, free):
                    continue
                if isinstance(scope, GlobalScope):
                    chosen = exported.get(name) or exported.setdefault(name, new(name))
                else:
                    chosen = by_scope.get((scope, name)) or by_scope.setdefault((scope, name), new(name))
                for node in _names(assignment):
                    renamed[node] = chosen
        for node in _declared_global(wrapper.module):
            if free and node.value in exported:
                renamed[node] = exported[node.value]
        result.texts[path] = wrapper.module.visit(_Apply(renamed)).code
    return result


def _may_rename(scope: Scope, assignment: object, local: set[str], keywords: set[str], free: bool) -> bool:
    if isinstance(scope, ClassScope) or not isinstance(assignment, Assignment):
        return False
    if assignment.name.startswith("__") or isinstance(scope, GlobalScope) and not free:
        return False
    if isinstance(assignment, ImportAssignment):
        node = assignment.node
        from_local = isinstance(node, cst.ImportFrom) and isinstance(node.module, cst.Name) and node.module.value in local
        return from_local and isinstance(assignment.as_name, cst.Name)
    return not (isinstance(assignment.node, cst.Param) and assignment.name in keywords)


def _names(assignment: Assignment) -> Iterator[cst.Name]:
    """The nodes that bear the name: where it is bound, and where it is read."""
    node = assignment.node
    if isinstance(node, cst.Name):
        yield node
    elif isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Param)):
        yield node.name
    elif isinstance(assignment, ImportAssignment) and isinstance(node, cst.ImportFrom):
        yield from (a.name for a in node.names if isinstance(a.name, cst.Name) and a.name.value == assignment.name)  # type: ignore[union-attr]
    for access in assignment.references:
        if isinstance(access.node, cst.Name):
            yield access.node
        elif isinstance(access.node, cst.Attribute):
            root: cst.BaseExpression = access.node
            while isinstance(root, cst.Attribute):
                root = root.value
            if isinstance(root, cst.Name):
                yield root


def _find(module: cst.Module, kind: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    stack: list[cst.CSTNode] = [module]
    while stack:
        node = stack.pop()
        if isinstance(node, kind):
            yield node
        stack += node.children


def _keywords(module: cst.Module) -> Iterator[str]:
    for node in _find(module, cst.Arg):
        if isinstance(node, cst.Arg) and node.keyword is not None:
            yield node.keyword.value


def _whole_imports(module: cst.Module) -> Iterator[str]:
    for node in _find(module, cst.Import):
        if isinstance(node, cst.Import):
            yield from (a.name.value for a in node.names if isinstance(a.name, cst.Name))


def _declared_global(module: cst.Module) -> Iterator[cst.Name]:
    for node in _find(module, cst.NameItem):
        if isinstance(node, cst.NameItem):
            yield node.name
