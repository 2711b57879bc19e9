"""The report: JSON is the source; Markdown, HTML and SVG say the same, stay within limits and escape what is hostile."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from scaffold.report import figures, full
from tests.cli.conftest import Scaffold

GIB = 1 << 30
HOSTILE = "</title><script>alert(1)</script>|a|`b` \"c\" & 'd' $(e) {{ f }} 早く\nnew"
MEMORY: dict[str, Any] = {
    "gpu": {"name": "H100", "bytes": 80 * GIB},
    "strategies": [
        {
            "name": "DDP",
            "parts": [{"name": "parameters", "bytes": 60 * GIB}, {"name": "optimizer state", "bytes": 60 * GIB}, {"name": "nothing", "bytes": 0}],
            "low": 110 * GIB, "expected": 120 * GIB, "high": 130 * GIB,
        },
        {"name": "FSDP2 on 8 GPUs", "parts": [{"name": "parameters", "bytes": 15 * GIB}], "low": 14 * GIB, "expected": 15 * GIB, "high": 20 * GIB},
    ],
}  # fmt: skip
WORDS = ["cost", "--hours", "10", "--gpu", "H100", "--price", "2.60", "--nodes", "1,2,4", "--efficiency", "0.9,0.75"]
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Checks that elements are closed in order; keeps their names, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.values: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.values += [f"{name}={value}" for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    return page


@pytest.fixture
def folder(scaffold: Scaffold, here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A report of the article's run with memory."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "config"))
    (here / "memory.json").write_text(json.dumps(MEMORY))
    assert scaffold(*WORDS, "--memory", "memory.json", "--report", "out").code == 0
    return here / "out"


def test_every_form_says_the_same(folder: Path) -> None:
    assert sorted(p.name for p in folder.iterdir()) == ["cost.svg", "memory.svg", "report.html", "report.json", "report.md", "time.svg"]
    data = json.loads((folder / "report.json").read_text())
    assert data["decision"].startswith("FSDP2 on 8 GPUs fits on H100 (20 GiB at most of 80 GiB); 1 machine is the cheaper answer at $208.00")
    assert data["decision"].count(". ") == 0
    page, text = parsed((folder / "report.html").read_text()), (folder / "report.md").read_text()
    for said in ("$231.11", "$277.33", "106.7", "5.6 h", "$20.80", "2.60 dollars for a GPU-hour", data["cost"]["verdict"], data["decision"]):
        assert said in page.text and said in text, said
    assert full.markdown(data) == text and full.html(data) == (folder / "report.html").read_text()


def test_the_page_needs_nothing_else(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    page = parsed(text)
    assert page.names.count("svg") == 3 and not {"script", "link", "img", "iframe", "a"} & set(page.names)
    assert not re.search(r"url\(|@import|src=|javascript:", text)
    assert all("http" not in value for value in page.values if not value.startswith("xmlns"))
    assert "prefers-color-scheme: dark" in text and "@media print" in text and "width=device-width" in text


def test_the_figures(folder: Path) -> None:
    for name in ("memory", "cost", "time"):
        root = ElementTree.fromstring((folder / f"{name}.svg").read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and root[0].tag.endswith("title") and root[1].tag.endswith("desc")
        width, height = map(float, root.attrib["viewBox"].split()[2:])
        for element in root.iter():
            across = float(element.get("x", 0)) + float(element.get("width", 0))
            down = float(element.get("y", 0)) + float(element.get("height", 0))
            assert 0 <= across <= width and 0 <= down <= height, ElementTree.tostring(element)


def test_bars_are_as_long_as_their_bytes() -> None:
    figure = figures.memory(MEMORY)
    first, second = figure["bars"]
    widths = [part["width"] for part in first["parts"]]
    assert len(widths) == 2 and widths[0] == pytest.approx(widths[1], abs=0.02) == pytest.approx(4 * second["parts"][0]["width"], abs=0.1)
    assert first["parts"][1]["x"] == pytest.approx(first["parts"][0]["x"] + widths[0], abs=0.02)
    assert first["parts"][0]["x"] < figure["limit"]["x"] < first["parts"][1]["x"] + widths[1]
    assert (first["fits"], second["fits"]) == (False, True)
    assert first["parts"][0]["colour"] == second["parts"][0]["colour"]


def test_curves_pass_through_the_table(folder: Path) -> None:
    figure = figures.cost(json.loads((folder / "report.json").read_text())["cost"])
    assert figure is not None
    better, worse = figure["series"]
    assert (better["name"], worse["name"]) == ("on demand, 90% efficiency", "on demand, 75% efficiency")
    assert better["dots"][0] == worse["dots"][0] and len(better["dots"]) == 3
    bottom, top = figure["ticks"][0]["y"], figure["ticks"][-1]["y"]
    dollars = float(figure["ticks"][-1]["name"].removeprefix("$").replace(",", ""))
    assert (bottom - worse["dots"][1]["y"]) / (bottom - top) * dollars == pytest.approx(277.33, abs=1)
    assert f"{worse['dots'][1]['x']},{worse['dots'][1]['y']}" in figure["bands"][0]["points"]


@pytest.mark.parametrize("largest", [0.0, 0.003, 1, 7, 79.6, 208, 585.6, 12345])
def test_ticks_are_round_and_reach_the_largest(largest: float) -> None:
    marks = figures.ticks(largest)
    assert marks[0] == 0 and marks[-1] >= largest * 0.999 and 2 <= len(marks) <= 7


def hostile() -> dict[str, Any]:
    study = json.loads(json.dumps(MEMORY).replace("DDP", "X"))
    study["strategies"][0]["name"] = study["gpu"]["name"] = study["strategies"][0]["parts"][0]["name"] = HOSTILE
    conversion = {
        "strategy": "ddp", "command": f"torchrun {HOSTILE}", "batch": HOSTILE, "learning_rate": HOSTILE, "decision": [HOSTILE],
        "rules": [{"id": "SC1", "name": HOSTILE, "places": 1, "why": HOSTILE}],
        "diagnostics": [{"path": HOSTILE, "line": 1, "rule": "SC1", "severity": "note", "why": HOSTILE, "do": HOSTILE}],
    }  # fmt: skip
    return full.report(date(2026, 12, 1), HOSTILE, memory=full.memory_of(study), conversion=conversion)


def test_hostile_text_is_text() -> None:
    found = hostile()
    page = parsed(full.html(found))
    assert "script" not in page.names and page.text.count("<script>alert(1)</script>") >= 8
    for name, figure in full.drawn(found).items():
        root = ElementTree.fromstring(full.svg(figure, name))
        assert not [e for e in root.iter() if e.tag.endswith("script")] and "<script>" in "".join(root.itertext())
    text = full.markdown(found)
    assert "<script>" not in re.sub(r"```.*?```|^    .*$", "", text, flags=re.S | re.M)
    rows = [line for line in text.splitlines() if line.startswith("| SC1")]
    assert len(rows) == 1 and len(re.findall(r"(?<!\\)\|", rows[0])) == 5


def test_markdown_stays_below_githubs_limit() -> None:
    found = hostile()
    found["conversion"]["diagnostics"] *= 3000
    text = full.markdown(found)
    assert len(text) < full.LIMIT and "more in report.json" in text
    found["conversion"]["batch"] = "x" * 200_000
    assert len(full.markdown(found)) < full.LIMIT


def test_what_is_not_known_is_left_out() -> None:
    empty = full.report(date(2026, 12, 1), "nothing")
    assert full.drawn(empty) == {} and "No estimate was asked for." in full.markdown(empty)
    assert parsed(full.html(empty)).names.count("table") == 0


def test_conversion_memory_and_cost_together(scaffold: Scaffold, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(script.parent / "config"))
    done = scaffold("convert", script, "-o", "out", "--report", "report", "--hours", "10", "--gpu", "H100", "--price", "2.60", "--efficiency", "0.9", "--strategy", "auto")
    assert done.code == 0, done.err
    data = json.loads((script.parent / "report" / "report.json").read_text())
    assert {r["id"] for r in data["conversion"]["rules"]} >= {"SC101", "SC201", "SC301"}
    assert [s["cost"]["expected"] for s in data["cost"]["setups"]] == ["208.00", "231.11"]
    assert any("decision: DDP" in line for line in data["conversion"]["decision"])
    assert data["memory"]["gpu"]["name"] == "H100" and data["memory"]["strategies"][0]["name"] == "DDP on 8 GPUs"
    assert "```diff" in (script.parent / "report" / "conversion.md").read_text()
    assert "DDP on 8 GPUs fits on H100" in (script.parent / "report" / "report.md").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--hours", "10"], "give --report DIR"),
        (["--price", "2", "--report", "r.md"], "give --report DIR"),
        (["--report", "r", "--price", "2"], "give --hours too"),
        (["--report", "r", "--hours", "-1"], "--hours -1: must be above 0"),
        (["--report", "train.py"], "is a Python file"),
    ],
)
def test_wrong_words_convert_nothing(scaffold: Scaffold, script: Path, words: list[str], told: str) -> None:
    before = script.read_text()
    done = scaffold("convert", script, "--allow-dirty", *words)
    assert done.code == 2 and told in done.err and script.read_text() == before


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps(MEMORY).replace('"low": ', '"low": -'), '{"gpu": {"name": "x", "bytes": 1}, "strategies": []}'])
def test_what_is_no_memory_estimate(scaffold: Scaffold, here: Path, text: str) -> None:
    (here / "memory.json").write_text(text)
    done = scaffold(*WORDS, "--memory", "memory.json", "--report", "out")
    assert done.code == 2 and "is no memory estimate" in done.err and not (here / "out").exists()


BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
FRAME = """<!doctype html><iframe id="f" width="375" height="700" srcdoc="{page}"></iframe><script>
document.getElementById("f").onload = event => {{
  const page = event.target.contentDocument, root = page.documentElement
  const small = [...page.querySelectorAll("svg text")].filter(t => t.getBoundingClientRect().height < 8).length
  document.body.dataset.found = JSON.stringify({{
    wide: root.scrollWidth, svgs: page.querySelectorAll("svg").length, small,
    outside: [...page.querySelectorAll("svg text")].filter(t => t.getBoundingClientRect().right > 375).length,
    drawn: [...page.querySelectorAll("rect, circle")].filter(r => r.getBoundingClientRect().width > 1).length,
  }})
}}</script>"""


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_in_a_browser_as_on_a_phone(folder: Path, tmp_path: Path) -> None:
    page = (folder / "report.html").read_text().replace("&", "&amp;").replace('"', "&quot;")
    (tmp_path / "frame.html").write_text(FRAME.format(page=page))
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000", "--dump-dom", (tmp_path / "frame.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    match = re.search(r'data-found="(.*?)"', done.stdout)
    assert match, done.stdout[-500:]
    found = json.loads(match[1].replace("&quot;", '"'))
    assert found["wide"] <= 375 and found["svgs"] == 3 and found["small"] == 0 and found["outside"] == 0
    assert found["drawn"] >= 3 + 10
