"""Outside the edits a file keeps every byte: newlines, tabs, byte-order mark, form feeds, encoding, any syntax."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from scaffold.convert import convert
from scaffold.plan import Options
from scaffold.source.edits import Author
from scaffold.source.project import read_source
from scaffold.source.rewrite import rewrite
from scaffold.source.tree import Source, walk

SYNTAX = {
    "3.8": "def f(a, /, b, *, c): return (n := a) + b + c\nprint(f'{f(1, 2, c=3)=}')\n",
    "3.9": "@(lambda f: f)\ndef g(): pass\nwith (open('x') as a, open('y') as b): pass\n",
    "3.10": "match 1, 2:\n    case [int(x), _] if x: pass\n    case {'k': v, **rest} | v: pass\n",
    "3.11": "try: pass\nexcept* (ValueError, OSError) as group: pass\na[*b]\n",
    "3.12": "type Pair[T: int] = tuple[T, T]\ndef f[T, *Ts, **P](x: T) -> T: return x\nclass C[T = int]: pass\n",
    "f-strings": "x = f'{a!r:>{width}} {{}} {d[\"k\"]}'\ny = rb'\\x00' b'' + Rf'{x}'.encode()\n",
    "async": "async def f():\n    async with a as b, c: return [x async for x in b if await x]\n",
    "layout": "if a: b; c\nelif d:\n  e\nelse:\n        f\n\n\n\n# end without newline",
    "continued": "x = 1 + \\\n    2\nassert (yield_ :=\n        3), 'a' \\\n  'b'\n",
}

FORMS = {
    "crlf": b"import os\r\n\r\ndef f(a):\r\n    if a:\r\n        print('x')\r\n        a = 2\r\n    return a\r\n",
    "tabs": b"def f(a):\n\tif a:\n\t\tprint('x')\n\t\ta = 2\n\treturn a\n",
    "two spaces": b"def f(a):\n  if a:\n    print('x')\n    a = 2\n  return a\n",
    "bom": b"\xef\xbb\xbfdef f(a):\n    print('\xc3\xa9')\n    return a\n",
    "bom and crlf": b"\xef\xbb\xbfdef f(a):\r\n    print('x')\r\n    return a\r\n",
    "form feed": b"import os\n\x0c\ndef f(a):\n    print('x')\n\x0c\n    return a\n",
    "latin-1": b"# -*- coding: latin-1 -*-\ndef f(a):\n    print('\xe9\xfc')\n    return a\n",
    "no final newline": b"def f(a):\n    print('x')",
    "only carriage returns": b"def f(a):\r    print('x')\r    return a\r",
    "mixed newlines": b"def f(a):\r\n    print('x')\n    return a\r\n",
}


def load(path: Path, data: bytes) -> Source:
    path.write_bytes(data)
    return read_source(path, path.name)


def call(source: Source, name: str) -> cst.Call:
    return next(n for n in walk(source.tree) if isinstance(n, cst.Call) and source.code(n.func) == name)


@pytest.mark.parametrize("code", SYNTAX.values(), ids=SYNTAX.keys())
def test_every_syntax_is_kept(tmp_path: Path, code: str) -> None:
    source = load(tmp_path / "a.py", code.encode())
    assert rewrite(source, []).encoded() == code.encode()


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS.keys())
def test_every_form_is_kept(tmp_path: Path, data: bytes) -> None:
    assert rewrite(load(tmp_path / "a.py", data), []).encoded() == data


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS.keys())
def test_a_guard_takes_the_form_of_the_file(tmp_path: Path, data: bytes) -> None:
    source = load(tmp_path / "a.py", data)
    author = Author("SC000", "test")
    author.guard(source, source.statement(call(source, "print")), "rank == 0")
    text = rewrite(source, author.edits).encoded()
    before, line = data.split(b"print(")[0], data[data.index(b"print(") :]
    indent = before.replace(b"\r", b"\n").rpartition(b"\n")[2]
    unit = b"\t" if b"\t" in data else b"  " if data == FORMS["two spaces"] else b"    "
    newline = b"\r\n" if b"\r\n" in data else b"\r" if b"\r" in data else b"\n"
    assert text == before + b"if rank == 0:" + newline + indent + unit + line


@pytest.mark.parametrize("data", [FORMS["crlf"], FORMS["bom and crlf"]], ids=["crlf", "bom and crlf"])
def test_inserted_lines_end_as_the_file_does(tmp_path: Path, data: bytes) -> None:
    source = load(tmp_path / "a.py", data)
    author = Author("SC000", "test")
    author.before(source, source.statement(call(source, "print")), "if a:\n    b = 1")
    author.need(source, "import torch")
    author.helper(source, "help_me", 'def help_me():\n    """Help."""\n    return 1\n')
    text = rewrite(source, author.edits).encoded()
    assert text.count(b"\n") == text.count(b"\r\n")
    assert text.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize("form", ["crlf", "bom", "tabs", "latin-1", "form feed"])
def test_a_conversion_keeps_the_form(tmp_path: Path, training: str, form: str) -> None:
    plain = training.encode()
    data = {
        "crlf": plain.replace(b"\n", b"\r\n"),
        "bom": b"\xef\xbb\xbf" + plain,
        "tabs": plain.replace(b"    ", b"\t"),
        "latin-1": b"# coding: latin-1\n" + plain.replace(b"how far", b"caf\xe9"),
        "form feed": plain.replace(b"model = ", b"\x0c\nmodel = "),
    }[form]
    path = tmp_path / "train.py"
    path.write_bytes(data)
    conversion = convert(path, Options())
    (new,) = [f.encoded() for f in conversion.changed]
    assert conversion.errors == []
    kept = data.splitlines(keepends=True)
    moved = [line for line in kept if line.strip() and line.strip() not in new]
    assert all(b"loader = " in line or b"model(a)" in line for line in moved)
    assert (b"\r\n" in new) == (form == "crlf") and new.replace(b"\r\n", b"").count(b"\r") == 0
    assert new.startswith(b"\xef\xbb\xbf") == (form == "bom")
    assert (b"caf\xe9" in new) == (form == "latin-1")
    assert not (form == "tabs" and b"\n    " in new)
    assert (b"\x0c\n" in new) == (form == "form feed")


def test_the_parentheses_of_an_expression_are_its_own(tmp_path: Path) -> None:
    source = load(tmp_path / "a.py", b"x = f(  # not (this\n    (  # nor ) that (\n        g(1) )  # end\n    )\n")
    start, end = source.outer_span(call(source, "g"))
    assert source.data[start:end] == b"(  # nor ) that (\n        g(1) )"
