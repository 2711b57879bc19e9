"""``scaffold cost``: the article's table, ranges, limits, failures, spot, wrong input."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Scaffold

ARTICLE = ["--hours", "10", "--gpus", "8", "--gpu", "H100", "--price", "2.60", "--nodes", "1,2", "--efficiency", "0.9,0.75"]


@pytest.fixture
def cost(scaffold: Scaffold, here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs ``scaffold cost --json`` in an empty folder, without the user's settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "config"))

    def run(*words: object, code: int = 0) -> Any:
        done = scaffold("cost", *words, "--json")
        assert done.code == code, done.err
        return json.loads(done.out)

    return run


def test_the_articles_table(scaffold: Scaffold, cost: Callable[..., Any]) -> None:
    done = scaffold("cost", *ARTICLE)
    table = [line.split("  ") for line in done.out.splitlines()[:4]]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in table]
    assert cells[0][:4] == ["Setup", "Wall-clock", "GPU-hours", "Cost at $2.60/GPU-hour"]
    assert cells[1] == ["1 machine, 8 GPUs", "10.0 h", "80.0", "$208.00"]
    assert cells[2] == ["2 machines, 16 GPUs, 90% efficiency", "5.6 h", "88.9", "$231.11", "$23.11 (11%)", "4.4 h", "$5.20"]
    assert cells[3] == ["2 machines, 16 GPUs, 75% efficiency", "6.7 h", "106.7", "$277.33", "$69.33 (33%)", "3.3 h", "$20.80"]
    text = " ".join(done.out.split())
    assert "1 machine is the cheaper answer at $208.00" in text and "(11% to 33%) more" in text


def test_the_articles_numbers_as_json(cost: Callable[..., Any]) -> None:
    one, better, worse = cost(*ARTICLE)["setups"]
    assert one["cost"] == {"low": "208.00", "expected": "208.00", "high": "208.00"}
    assert (better["cost"]["expected"], worse["cost"]["expected"]) == ("231.11", "277.33")
    assert (better["hours"]["expected"], worse["gpu_hours"]["expected"]) == ("5.5556", "106.6667")
    assert (better["extra"], better["extra_share"], better["hours_saved"], better["per_hour_saved"]) == ("23.11", "0.1111", "4.4444", "5.20")


def test_ranges_multiply(cost: Callable[..., Any]) -> None:
    two = cost("--hours", "8,10,12", "--price", "2,3", "--nodes", "2")["setups"][0]
    assert two["cost"]["low"] == f"{Decimal(8) / 2 / Decimal('0.95') * 16 * 2:.2f}"
    assert two["cost"]["expected"] == f"{Decimal(10) / 2 / Decimal('0.9') * 16 * Decimal('2.5'):.2f}"
    assert two["cost"]["high"] == f"{Decimal(12) / 2 / Decimal('0.75') * 16 * 3:.2f}"
    assert two["basis"] == "assumed"


def test_an_unknown_price_is_not_zero(scaffold: Scaffold, cost: Callable[..., Any]) -> None:
    study = cost("--hours", "10", "--efficiency", "0.9")
    assert [s["cost"] for s in study["setups"]] == [None, None] and "11% more GPU-hours" in study["verdict"]
    text = scaffold("cost", "--hours", "10").out
    assert "unknown" in text and "$0" not in text
    assert scaffold("cost", "--hours", "10", "--max-cost", "1000").code == 3


def test_limits(scaffold: Scaffold, cost: Callable[..., Any]) -> None:
    study = cost(*ARTICLE, "--max-cost", "250", "--deadline", "6h")
    assert [s["qualifies"] for s in study["setups"]] == [False, True, False]
    assert [s["breaks"] for s in study["setups"]] == [["deadline"], [], ["cost", "deadline"]]
    assert "take 2 machines, 16 GPUs, 90% efficiency: $231.11 in 5.6 h" in study["verdict"]
    none = cost(*ARTICLE, "--deadline", "5h", code=3)
    assert not none["qualifies"] and "the fastest, 2 machines, 16 GPUs, 90% efficiency, takes up to 5.6 h" in none["verdict"]
    assert cost(*ARTICLE, "--max-cost", "208.00")["qualifies"]
    assert not cost(*ARTICLE, "--max-cost", "207.99", code=3)["qualifies"]


def test_a_range_qualifies_by_its_high_end(cost: Callable[..., Any]) -> None:
    words = ["--hours", "9,10,12", "--price", "1", "--gpus", "1", "--nodes", "1"]
    assert cost(*words, "--max-cost", "12")["qualifies"]
    assert not cost(*words, "--max-cost", "11", code=3)["qualifies"]


def test_more_machines_that_do_not_pay(cost: Callable[..., Any]) -> None:
    study = cost("--hours", "10", "--price", "1", "--efficiency", "0.4")
    assert "not even finish sooner" in study["verdict"]
    assert study["setups"][1]["per_hour_saved"] is None


def test_failures_lengthen_the_run(cost: Callable[..., Any]) -> None:
    study = cost(*ARTICLE, "--mtbf", "100h", "--save", "60s", "--restart", "6min", "--checkpoint-every", "1h")
    one, two = study["setups"][:2]
    assert Decimal(one["hours"]["low"]) == Decimal("10.1667")
    assert Decimal("10.1667") < Decimal(one["hours"]["expected"]) < Decimal(one["hours"]["high"])
    # by hand: 1/100 failures an hour, each loses half of (1 h + 1 min) and 6 min
    by_hand = Decimal("10.1667") * (1 + (Decimal("0.5083") + Decimal("0.1")) / 100)
    assert abs(Decimal(one["hours"]["expected"]) - by_hand) < Decimal("0.01")
    assert Decimal(two["lost_hours"]) / Decimal("5.5556") > Decimal(one["lost_hours"]) / 10
    best = study["markets"][0]["failures"]["best_interval"]
    assert Decimal(best["1"]) > Decimal(best["2"]) > 1


def test_spot_against_on_demand(cost: Callable[..., Any]) -> None:
    study = cost(*ARTICLE, "--spot-mtbf", "12h", "--spot-price", "1.25")
    spot = [s for s in study["setups"] if s["market"] == "spot"]
    assert len(spot) == 3 and all(Decimal(s["lost_hours"]) > 0 for s in spot)
    assert "Spot on 1 machine saves $1" in study["verdict"]
    limit = study["markets"][1]["break_even"]
    exact = cost(*ARTICLE, "--spot-mtbf", f"{limit}h", "--spot-price", "1.25")["setups"][3]
    assert abs(Decimal(exact["cost"]["expected"]) - 208) < 1
    assert cost(*ARTICLE, "--spot-mtbf", "12h", "--spot-price", "2.60")["markets"][1]["break_even"] is None


WRONG = {
    "--hours -1": "--hours -1: must be above 0",
    "--hours 0": "--hours 0: must be above 0",
    "--hours ten": "--hours 'ten': is not a number",
    "--hours nan": "is not a number",
    "--hours 1e999": "is not a number",
    "--hours 3,2": "in this order",
    "--hours 1 --gpus 0": "a machine has at least 1 GPU",
    "--hours 1 --nodes 0": "--nodes 0: must be above 0",
    "--hours 1 --nodes 1.5": "whole numbers of machines",
    "--hours 1 --efficiency 90": "did you mean 0.9?",
    "--hours 1 --efficiency 0": "above 0 and at most 1",
    "--hours 1 --price 0": "--price 0: must be above 0",
    "--hours 1 --gpu H1000": "its price is unknown; known are H100",
    "--hours 1 --gpu H100 --provider Nobody": "there are those of",
    "--hours 1 --gpu A100": "is several GPUs: A100-40GB, A100-80GB",
    "--hours 1 --measured nowhere.json": "nowhere.json: cannot be read",
    "--hours 1 --prices nowhere.csv --gpu H100": "nowhere.csv: cannot be read",
    "--hours 1 --deadline soon": "is no time; write it as",
    "--hours 1 --save 30s": "count with --mtbf",
    "--hours 1 --spot-price 1": "give --spot-mtbf",
    "--hours 1 --spot-mtbf 5h": "the spot price is unknown",
    "--hours 9999 --mtbf 1s --checkpoint-every 5h": "hardly ever ends",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input(scaffold: Scaffold, here: Path, words: str) -> None:
    done = scaffold("cost", *words.split())
    line, end = done.err.split("\n")
    assert (done.code, done.out, end) == (2, "", "") and line.startswith("scaffold: ") and WRONG[words] in line
