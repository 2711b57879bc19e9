"""Files that run together, and the functions that call each other in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from scaffold.check.code import Code, Function, module_paths, own_of, tail
from scaffold.check.values import Values

FRAMEWORKS = (
    "accelerate", "lightning", "pytorch_lightning", "deepspeed", "horovod", "colossalai", "ray.train", "composer", "ignite", "fairscale", "apex.parallel", "torch_xla", "torchrec",
    "torch.distributed.rpc",
)  # fmt: skip
STARTS = ("init_process_group", "init_device_mesh", "initialize_dist", "init_distributed", "init_distributed_mode", "init_distributed_device", "setup_distributed")
WRAPS = ("DistributedDataParallel", "fully_shard", "FullyShardedDataParallel")


class Called(NamedTuple):
    """A call of a function of the program."""

    code: Code
    call: ast.Call


@dataclass(eq=False)
class Program:
    """One entry file and the local modules it imports, or files that import each other."""

    codes: list[Code]
    assigned: dict[ast.AST, dict[str, list[ast.expr]]] = field(init=False, default_factory=dict)
    """What names are assigned in each function, as far as it was asked for."""
    sharing: dict[ast.Call, bool] = field(init=False, default_factory=dict)
    """Calls that make ranks share a value, as far as it was asked for."""
    _modules: dict[tuple[Code, str], Code | None] = field(init=False, default_factory=dict)

    @cached_property
    def values(self) -> Values:
        """What each name holds."""
        return Values(self)

    @cached_property
    def modules(self) -> dict[Path, Code]:
        """The files by their paths."""
        return {c.path: c for c in self.codes}

    def module(self, code: Code, dotted: str) -> Code | None:
        """The file that ``dotted``, imported by ``code``, names."""
        key = code, dotted
        if key not in self._modules:
            self._modules[key] = next((self.modules[p] for p in module_paths(code.path, dotted) if p in self.modules), None)
        return self._modules[key]

    def definition(self, code: Code, dotted: str) -> tuple[Code, Function | ast.ClassDef] | None:
        """The function or class of the program that a dotted name, as ``code`` resolves it, stands for."""
        name = tail(dotted)
        if "." not in dotted.lstrip("."):
            found = self._tops[code].get(name)
            if found is not None:
                return code, found
            return None
        home = self.module(code, dotted.rpartition(".")[0] or ".")
        for _ in range(3):
            if home is None:
                return None
            found = self._tops[home].get(name)
            if found is not None:
                return home, found
            again = home.imports.get(name)
            if again is None or "." not in again.lstrip("."):
                return None
            home, name = self.module(home, again.rpartition(".")[0] or "."), tail(again)
        return None

    @cached_property
    def _tops(self) -> dict[Code, dict[str, Function | ast.ClassDef]]:
        return {
            c: {d.name: d for d in (*c.functions, *c.classes) if isinstance(c.scope[d], (ast.Module, ast.FunctionDef))}
            for c in self.codes
        }

    def base(self, code: Code, cls: ast.ClassDef) -> Iterator[tuple[Code, ast.ClassDef]]:
        """A class and those of its bases that the program has."""
        yield code, cls
        for expr in cls.bases[:3]:
            found = self.definition(code, code.dotted(expr))
            if found is not None and isinstance(found[1], ast.ClassDef) and found[1] is not cls:
                yield from self.base(found[0], found[1])

    def method(self, code: Code, cls: ast.ClassDef, name: str) -> tuple[Code, Function] | None:
        """The method of a class or of its bases."""
        for home, base in self.base(code, cls):
            for item in base.body:
                if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name == name:
                    return home, item
        return None

    def callee(self, code: Code, call: ast.Call) -> tuple[Code, Function] | None:
        """The function of the program that a call enters."""
        return self.values.callee(code, call)

    @cached_property
    def callers(self) -> dict[Function, list[Called]]:
        """Calls by the function they enter."""
        found: dict[Function, list[Called]] = {}
        for code in self.codes:
            for call in code.calls:
                entered = self.callee(code, call)
                if entered is not None:
                    found.setdefault(entered[1], []).append(Called(code, call))
                for target in (k.value for k in call.keywords if k.arg == "target"):
                    given = self.values.callee(code, ast.Call(target, [], []))
                    if given is not None:
                        found.setdefault(given[1], []).append(Called(code, call))
        return found

    def reach(self, code: Code, parts: list[ast.stmt], depth: int = 4) -> Iterator[tuple[Code, ast.AST]]:
        """Nodes that run when statements do, in the functions they call too."""
        seen: set[Function] = set()

        def go(code: Code, parts: list[ast.stmt], depth: int) -> Iterator[tuple[Code, ast.AST]]:
            for node in own_of(parts):
                yield code, node
                if depth and isinstance(node, ast.Call):
                    entered = self.callee(code, node)
                    if entered is not None and entered[1] not in seen:
                        seen.add(entered[1])
                        yield from go(entered[0], entered[1].body, depth - 1)

        yield from go(code, parts, depth)

    def calls(self, *names: str) -> list[Called]:
        """All calls of a name (its last part) in code that the program comes to."""
        return [called for name in sorted(set(names)) for called in self._by_name.get(name, ())]

    @cached_property
    def _by_name(self) -> dict[str, list[Called]]:
        found: dict[str, list[Called]] = {}
        for code in self.codes:
            for call in code.calls:
                if not self._alive(code, call):
                    continue
                found.setdefault(code.called(call), []).append(Called(code, call))
        return found

    def _alive(self, code: Code, node: ast.AST) -> bool:
        function = code.function(node)
        return function is None or (function in self.entered and not self._namesake(code, function))

    def _namesake(self, code: Code, function: Function) -> bool:
        """Whether only another function of the same name is called."""
        others = [f for f in self._tops_by_name.get(function.name, ()) if f is not function]
        return bool(others) and isinstance(code.scope[function], ast.Module) and function not in self.callers and any(f in self.callers for f in others)

    @cached_property
    def _tops_by_name(self) -> dict[str, list[Function]]:
        found: dict[str, list[Function]] = {}
        for code in self.codes:
            for function in code.functions:
                if isinstance(code.scope[function], ast.Module):
                    found.setdefault(function.name, []).append(function)
        return found

    @cached_property
    def entered(self) -> set[Function]:
        """Functions whose name is used by code that runs: by the files' own statements, and by such functions. All, where a file calls nothing itself."""
        by_name: dict[str, list[tuple[Code, Function]]] = {}
        for code in self.codes:
            for function in code.functions:
                by_name.setdefault(function.name, []).append((code, function))
        found: set[Function] = set()
        queue = [n for code in self.codes for s in code.tree.body if not isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)) for n in ast.walk(s)]
        if not any(isinstance(n, ast.Call) for n in queue):
            return {f for code in self.codes for f in code.functions}
        seen: set[str] = set()
        while queue:
            node = queue.pop()
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if not name or name in seen:
                continue
            seen.add(name)
            for code in self.codes:
                for cls in code.classes:
                    if cls.name == name:
                        queue += [n for item in cls.body if not isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) or item.name.startswith("__") for n in ast.walk(item)]
                        found |= {i for i in cls.body if isinstance(i, (ast.FunctionDef, ast.AsyncFunctionDef)) and (i.name.startswith("__") or i.name == "forward")}
            for _, function in by_name.get(name, ()):
                found.add(function)
                queue += list(ast.walk(function))
        return found | {inner for outer in found for inner in ast.walk(outer) if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef))}

    @cached_property
    def metrics(self) -> bool:
        """Whether it counts with a library whose metrics are put together over the ranks by themselves."""
        return any(i.startswith(("torchmetrics", "torcheval")) for c in self.codes for i in c.imports.values())

    @cached_property
    def framework(self) -> str:
        """The library that runs the training on several GPUs itself, if any."""
        for code in self.codes:
            for name in code.imports.values():
                for framework in FRAMEWORKS:
                    if name == framework or name.startswith(framework + "."):
                        return framework
        return ""

    @cached_property
    def distributed(self) -> bool:
        """Whether it is a program of several processes."""
        return bool(self.calls(*STARTS, *WRAPS, "DistributedSampler"))

    @cached_property
    def trains(self) -> list[Called]:
        """The calls of ``backward``, of a scaler's or a loss's."""
        return [c for c in self.calls("backward") if isinstance(c.call.func, ast.Attribute)]
