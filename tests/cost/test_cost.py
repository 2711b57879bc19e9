"""Time, GPU-hours and money; prices; failures."""

from __future__ import annotations

import json
import xml.etree.ElementTree
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scaffold.cli import main
from scaffold.cost.failures import failures
from scaffold.cost.measure import Size, efficiency, modelled
from scaffold.cost.prices import Price, embedded

ASKED = ["cost", "--hours", "10", "--gpus", "8", "--gpu", "H100", "--price", "2.60", "--nodes", "1,2", "--efficiency", "0.9,0.75"]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_one_machine_against_two() -> None:
    rows = json.loads(invoke(*ASKED, "--json").stdout)["rows"]
    assert [row["shown"] for row in rows] == [
        ["10.0 h", "80.0", "$208.00"],
        ["5.6 h", "88.9", "$231.11"],
        ["6.7 h", "106.7", "$277.33"],
    ]
    assert [row["dearer"] for row in rows] == ["", "11%", "33%"]
    assert rows[1]["per_hour_saved"] == "$5.20"


def test_the_verdict_is_a_sentence() -> None:
    assert "$23.11 for 4.4 h saved at 90% efficiency" in invoke(*ASKED).stdout
    assert "2 machines end" in invoke(*ASKED[:-2], "--efficiency", "1").stdout.replace("\n", " ")


@pytest.mark.parametrize(("limit", "code"), [(["--max-cost", "210"], 0), (["--max-cost", "200"], 3), (["--deadline", "6"], 0), (["--deadline", "6", "--max-cost", "230"], 3)])
def test_limits(limit: list[str], code: int) -> None:
    assert invoke(*ASKED, *limit).exit_code == code


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--hours", "-1", "--price", "1"], "above zero"),
        (["--hours", "1", "--price", "-1"], "below zero"),
        (["--hours", "1", "--price", "1", "--nodes", "0"], "at least 1 machine"),
        (["--hours", "1", "--price", "1", "--nodes", "1,2", "--efficiency", "1.5"], "0.9"),
        (["--hours", "1", "--gpu", "K80"], "--price"),
        (["--hours", "much", "--price", "1"], "numbers with commas"),
        (["--hours", "1", "--measured", "nowhere.json", "--price", "1"], "scaffold measure"),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], says: str) -> None:
    done = invoke("cost", *arguments)
    assert done.exit_code == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1


def test_unknown_prices_are_never_zero() -> None:
    assert all(row.usd > 0 and row.source for row in embedded())
    assert "days ago: check it again" in Price("H100", "x", Decimal(1), False, date.today() - timedelta(days=61), "x").age(date.today())
    assert "check it again" not in Price("H100", "x", Decimal(1), False, date.today(), "x").age(date.today())


def test_catalogues_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    sky, hunt = tmp_path / "sky.csv", tmp_path / "hunt.csv"
    sky.write_text("InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice\na,H100,8,16,8\nb,H100,8,24,\nc,,,1,\n")
    hunt.write_text("instance_name,price,gpu_count,gpu_name,spot\nx,4.0,4,L4,False\n")
    assert invoke("prices", "import", str(sky)).exit_code == 0
    assert json.loads(invoke(*ASKED[:7], "--json").stdout)["price"]["usd"] == "2.0000"
    assert json.loads(invoke(*ASKED[:7], "--spot", "--json").stdout)["price"]["usd"] == "1.0000"
    assert json.loads(invoke("cost", "--hours", "1", "--gpu", "L4", "--prices", str(hunt), "--json").stdout)["price"]["usd"] == "1.0"
    assert invoke("prices", "import", str(tmp_path / "none.csv")).exit_code == 2
    assert "H100" in invoke("prices", "list").stdout


def test_the_order_of_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text("[tool.scaffold.prices]\nH100 = 1.5\n")
    Path("mine.toml").write_text('[[price]]\ngpu = "H100"\nprovider = "ours"\nusd = "1.25"\n')

    def price(*more: str) -> str:
        return str(json.loads(invoke("cost", "--hours", "1", "--json", *more).stdout)["price"]["usd"])

    assert price() == "1.5"
    assert price("--prices", "mine.toml") == "1.25"
    assert price("--prices", "mine.toml", "--price", "3") == "3"


def test_the_best_interval_between_checkpoints() -> None:
    """Young: sqrt(2 x 36 s x 1000 h) = 4.47 h for one failure in 1000 h."""
    found = failures(Decimal(100), 1, Decimal("0.024"), Decimal("0.01"), Decimal("0.5"))
    assert round(found.interval, 2) == Decimal("4.47") and round(found.expected, 2) == Decimal("0.10")
    worse = [failures(Decimal(100), 1, Decimal("0.024"), Decimal("0.01"), Decimal("0.5"), step) for step in (found.interval / 2, found.interval * 2)]
    assert all(other.hours > found.hours for other in worse)
    assert failures(Decimal(10), 1, Decimal(0), Decimal("0.01"), Decimal(1)).hours == 0


def test_efficiency_with_its_spread() -> None:
    low, median, high = efficiency(Size(1, 50, 0.9, 1.0, 1.1), Size(2, 50, 1.1, 1.25, 1.5))
    assert (round(low, 2), round(median, 2), high) == (0.6, 0.8, 1.0)
    slow, fast = modelled(1.0, 10e9, 2, 25.0)
    assert round(slow, 3) == 0.714 and fast == 1.0


def test_measured_on_one_and_two_processes(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "verify" / "pairs" / "classifier" / "converted.py"
    done = invoke("measure", str(script), "--nproc", "1,2", "--steps", "10", "--json")
    assert done.exit_code == 0, done.output
    report = tmp_path / "measured.json"
    report.write_text(done.stdout)
    sizes = json.loads(done.stdout)["sizes"]
    assert [s["processes"] for s in sizes] == [1, 2] and sizes[0]["efficiency"]["median"] == 1
    assert 0 < sizes[1]["efficiency"]["low"] <= sizes[1]["efficiency"]["high"] <= 1
    assert invoke(*ASKED, "--measured", str(report)).exit_code == 0


def test_the_page_stands_alone(tmp_path: Path) -> None:
    page, table = tmp_path / "cost.html", tmp_path / "cost.md"
    assert invoke(*ASKED, "--html", str(page), "--markdown", str(table)).exit_code == 0
    text = page.read_text()
    assert "<script" not in text and "href=" not in text and "src=" not in text
    assert "prefers-color-scheme" in text and "width=device-width" in text and "$231.11" in text
    svg = text[text.index("<svg") : text.index("</svg>") + 6]
    assert len(xml.etree.ElementTree.fromstring(svg).findall("rect")) == 6
    assert "| 2 machines, 16 GPUs, 90% efficiency | 5.6 h | 88.9 | $231.11 | 11% | $5.20 |" in table.read_text()
