"""The entry script and the local modules it imports, each read and parsed once."""

from __future__ import annotations

import codecs
import io
import re
import tokenize
from pathlib import Path

import libcst as cst

from scaffold.errors import ScaffoldError
from scaffold.source.reach import SKIP, may_train, teaches
from scaffold.source.tree import Source, dotted

_TOP_IMPORT = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.M)
_PYTHON2 = re.compile(r"^\s*(print\s+[\"'\w]|exec\s+[\"']|raise\s+\w+\s*,|except\s+[\w.]+\s*,\s*\w+\s*:)", re.M)


def read_source(path: Path, name: str) -> Source:
    """Read and parse one file, keeping its encoding, byte-order mark and line ends.

    Raises:
        ScaffoldError: the file is missing, unreadable, binary, a notebook, Python 2, or not valid Python.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ScaffoldError(f"{path}: cannot be read ({error.strerror}); name a readable Python file") from None
    if b"\0" in raw:
        raise ScaffoldError(f"{path}: is a binary file; name a Python training script")
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
        text = raw[len(bom) :].decode("utf-8" if bom else encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise ScaffoldError(f"{path}: cannot be decoded ({error}); save it as UTF-8") from None
    try:
        return Source(path, name, text, "utf-8" if bom else encoding, bom)
    except cst.ParserSyntaxError as error:
        if _PYTHON2.search(text):
            raise ScaffoldError(f"{path}:{error.raw_line}: is Python 2; port it to Python 3 first") from None
        raise ScaffoldError(f"{path}:{error.raw_line}: is not valid Python; fix the syntax first") from None
    except (RecursionError, UnicodeError) as error:
        raise ScaffoldError(f"{path}: cannot be parsed ({type(error).__name__}); simplify the file") from None


class Project:
    """A training script and the local modules that it imports, by dotted module name.

    Modules are looked for in the script's folder, then in the folders above it up to the repository's root (a script inside a
    package, or one that appends to ``sys.path``). :attr:`root` is the topmost folder that was needed.
    :attr:`trains` is False where no text in reach speaks of torch and of backward; then only modules that name a
    training library are read; :attr:`unreadable` says why a module could not be.
    """

    def __init__(self, entry: Path) -> None:
        _check_entry(entry)
        self.entry = read_source(entry, entry.name)
        self.folders = _search_path(entry.resolve().parent, self.entry.text)
        self.root = self.folders[0]
        self.modules: dict[str, Source] = {}
        self.unreadable: list[str] = []
        self._absent: set[str] = set()
        self.trains = may_train(self.folders, self.entry.data)
        self._load_imports(self.entry, "")
        self.entry.name = str(entry.resolve().relative_to(self.root))
        for source in self.modules.values():
            source.name = str(source.path.relative_to(self.root))

    @property
    def sources(self) -> list[Source]:
        """Every file read, the entry first."""
        return [self.entry, *self.modules.values()]

    def module(self, name: str) -> Source | None:
        """The local module called ``name`` (dotted), or None if it is not a file of this project."""
        return self.modules.get(name)

    def package_of(self, source: Source) -> str:
        """Dotted package that ``source`` belongs to ('' for the entry)."""
        if source is self.entry:
            return ""
        name = next(n for n, s in self.modules.items() if s is source)
        return name if source.path.name == "__init__.py" else name.rpartition(".")[0]

    def absolute(self, source: Source, node: cst.ImportFrom) -> str:
        """Dotted name of the module that a ``from ... import`` of ``source`` reads."""
        name = "" if node.module is None else dotted(node.module) or ""
        level = len(node.relative)
        if not level:
            return name
        parts = self.package_of(source).split(".") if self.package_of(source) else []
        base = parts[: len(parts) - (level - 1)] if level > 1 else parts
        return ".".join([*base, name] if name else base)

    def _load_imports(self, source: Source, package: str) -> None:
        for node in source.nodes:
            if isinstance(node, cst.Import):
                for alias in node.names:
                    self._load(dotted(alias.name) or "")
            elif isinstance(node, cst.ImportFrom):
                name = self.absolute(source, node)
                self._load(name)
                if not isinstance(node.names, cst.ImportStar):
                    for alias in node.names:
                        self._load(f"{name}.{dotted(alias.name)}" if name else dotted(alias.name) or "")

    def _load(self, name: str) -> None:
        if not name or name in self.modules or name in self._absent:
            return
        parts = name.split(".")
        for depth in range(1, len(parts)):
            self._load(".".join(parts[:depth]))
        for folder in self.folders:
            if self._load_from(folder, parts, name):
                return
        self._absent.add(name)

    def _load_from(self, folder: Path, parts: list[str], name: str) -> bool:
        base = folder.joinpath(*parts)
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file() and not SKIP.intersection(path.parts) and path.resolve() != self.entry.path.resolve():
                try:
                    if not self.trains and not teaches(path.read_bytes()):
                        break
                    source = read_source(path, path.name)
                except ScaffoldError as error:
                    self.unreadable.append(str(error))
                    break
                except OSError:
                    break
                if not folder.is_relative_to(self.root):
                    self.root = folder
                self.modules[name] = source
                self._load_imports(source, name)
                return True
        return False


def _search_path(folder: Path, text: str) -> list[Path]:
    """The script's folder and, inside a repository or where the script reaches for them, folders above it."""
    found = [folder]
    for parent in folder.parents:
        if (found[-1] / ".git").exists():
            return found
        if parent == parent.parent:
            break
        found.append(parent)
    if "sys.path" in text:
        return found[:4]
    names = set(_TOP_IMPORT.findall(text))
    for depth, parent in enumerate(found[1:4], 2):
        if not SKIP.intersection(parent.parts) and any((parent / n / "__init__.py").exists() and not (folder / n).exists() for n in names):
            return found[:depth]
    package = [folder]
    while (package[-1] / "__init__.py").exists() and package[-1] != package[-1].parent:
        package.append(package[-1].parent)
    return package


def _check_entry(entry: Path) -> None:
    try:
        if entry.is_dir():
            raise ScaffoldError(f"{entry}: is a folder; name the training script in it")
        if not entry.exists():
            raise ScaffoldError(f"{entry}: no such file; name the training script")
        regular = entry.is_file()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ScaffoldError(f"{entry}: cannot be read ({reason}); name the training script") from None
    if not regular:
        raise ScaffoldError(f"{entry}: is not a regular file; name the training script")
    if entry.suffix == ".ipynb":
        raise ScaffoldError(f"{entry}: is a notebook; export it first (jupyter nbconvert --to script {entry.name})")
