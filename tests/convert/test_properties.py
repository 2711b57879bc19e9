"""Properties of every conversion, under formatting noise: comments, blank lines, line ends, indentation, parentheses."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from scaffold.convert import Conversion, convert
from scaffold.errors import Refused
from scaffold.plan import Options

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*/train.py"))
SINGLE_FILE = [path for path in EXAMPLES if len(list(path.parent.glob("*.py"))) == 1]
COMMENTS = ("# loss = model(x)", "# ünïcode: \u2713", "#!not a shebang", "# (", '# """', "# type: ignore")

noises = st.builds(
    dict,
    comments=st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(COMMENTS)), max_size=12),
    blanks=st.lists(st.integers(0, 10_000), max_size=12),
    trailing=st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(("  ", "\t", "  # seen", " #(")) ), max_size=12),
    newline=st.sampled_from(("\n", "\r\n")),
    indent=st.sampled_from(("same", "\t", "  ")),
    bom=st.booleans(),
    final=st.booleans(),
)  # fmt: skip


def statement_lines(text: str) -> list[int]:
    """The lines (from 0) on which a statement of the text begins."""
    import ast

    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            found.add(min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) - 1)
    return sorted(found)


def logical_ends(text: str) -> list[int]:
    """The lines (from 0) that end a statement, so that something may follow on them."""
    import io
    import tokenize

    return [token.start[0] - 1 for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.NEWLINE]


def noisy(text: str, noise: dict[str, object]) -> bytes:
    """The same program, written otherwise."""
    if noise["indent"] != "same" and "\t" not in text:
        text = reindented(text, str(noise["indent"]))
    lines = text.splitlines()
    begins, ends = statement_lines(text), logical_ends(text)
    for at, tail in noise["trailing"]:  # type: ignore[attr-defined]
        line = ends[at % len(ends)]
        if "#" not in lines[line]:
            lines[line] += tail
    before: dict[int, list[str]] = {}
    for at, comment in noise["comments"]:  # type: ignore[attr-defined]
        line = begins[at % len(begins)]
        indent = re.match(r"\s*", lines[line])
        assert indent is not None
        before.setdefault(line, []).append(indent[0] + comment)
    for at in noise["blanks"]:  # type: ignore[attr-defined]
        before.setdefault(begins[at % len(begins)], []).append("")
    out = [piece for number, line in enumerate(lines) for piece in (*before.get(number, ()), line)]
    data = str(noise["newline"]).join(out).encode() + (str(noise["newline"]).encode() if noise["final"] else b"")
    return b"\xef\xbb\xbf" + data if noise["bom"] else data


def reindented(text: str, unit: str) -> str:
    """The text with another unit of indentation on the lines that begin a statement of a uniformly indented script."""
    lines = text.splitlines()
    widths = {len(lines[n]) - len(lines[n].lstrip()) for n in statement_lines(text)} - {0}
    own = min(widths, default=0)
    if not own or any(width % own for width in widths):
        return text
    for number in statement_lines(text):
        line = lines[number]
        width = len(line) - len(line.lstrip())
        lines[number] = unit * (width // own) + line.lstrip()
    try:
        compile("\n".join(lines), "reindented", "exec")
    except SyntaxError:  # an else or except between the statements
        return text
    return "\n".join(lines) + "\n"


def check(conversion: Conversion, data: bytes, folder: Path) -> None:
    """The properties that no conversion may break."""
    (file,) = conversion.files
    result = file.encoded()
    compile(result, "train.py", "exec", dont_inherit=True)
    touched = [(e.start, e.end) for e in file.edits]
    kept, at = b"", 0
    for start, end in touched:
        kept += file.source.data[at:start]
        at = end
    kept += file.source.data[at:]
    body = result.removeprefix(b"\xef\xbb\xbf")
    assert subsequence(kept, body)
    assert result.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
    if b"\r\n" in data:
        assert result.count(b"\n") == result.count(b"\r\n")
    else:
        assert b"\r" not in result
    (folder / "train.py").write_bytes(result)
    with pytest.raises(Refused, match="distributed already"):
        convert(folder / "train.py", Options())


def subsequence(part: bytes, whole: bytes) -> bool:
    """Whether ``part`` is left when some of ``whole`` is taken away."""
    rest = iter(whole)
    return all(byte in rest for byte in part)


@pytest.mark.parametrize("example", SINGLE_FILE, ids=lambda p: p.parent.name)
@settings(max_examples=8, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(noise=noises)
def test_noise_changes_nothing(example: Path, noise: dict[str, object]) -> None:
    text = example.read_text()
    data = noisy(text, noise)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_bytes(data)
        conversion = convert(path, Options())
        check(conversion, data, Path(folder))
        path.write_text(text)
        plain = convert(path, Options())
    assert [(d.rule, d.severity) for d in conversion.diagnostics] == [(d.rule, d.severity) for d in plain.diagnostics]
    changes = list(difflib.unified_diff(added(plain), added(conversion), "plain", "noisy", lineterm="", n=0))
    assert changes == []


def added(conversion: Conversion) -> list[str]:
    """The lines a conversion adds, without indentation and comments; a comment may part two outputs that share one guard otherwise."""
    (file,) = conversion.files
    before, after = file.source.text.splitlines(), file.text.splitlines()
    changes = difflib.unified_diff([x.partition("#")[0].strip() for x in before], [x.partition("#")[0].strip() for x in after], n=0)
    lines = (line[1:] for line in changes if line.startswith("+") and not line.startswith("+++"))
    return [line for line in lines if line and not re.fullmatch(r"if (rank|dist\.get_rank\(\)) == 0:", line)]
