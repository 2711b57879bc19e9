"""Prices: the embedded rows, the order of their sources, catalogues, what is unknown."""

from __future__ import annotations

import json
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from scaffold.cost.prices import STALE, Price, embedded, read, write
from tests.cli.conftest import Scaffold

SKYPILOT = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice
cpu,,,4,16,0.2,eu-north1,,
gpu-1,H100,1,16,200,2.95,eu-north1,"{'Gpus': [{'Name': 'H100'}]}",1.25
gpu-8,H100,8,128,1600,22.40,us-east1,"{'Gpus': [{'Name': 'H100'}]}",10.80
gpu-free,L4,1,8,32,0,eu-north1,,
gpu-a,A100,8,1,1,10.32,us,,
gpu-b,A100-80GB,8,1,1,14.32,us,,
,T4,1,,,0.35,host-billed-apart,,
"""
GPUHUNT = """instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags
a,us,0.5,30,240,1,A10,24.0,False,,nvidia,
b,us,1.6,30,240,2,A100,80.0,False,,nvidia,
c,eu,0.9,30,240,1,A100,40.0,True,,nvidia,
d,eu,0.1,30,240,0,,,False,,,
"""


@pytest.fixture(autouse=True)
def no_settings(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "config"))
    return here / "config" / "scaffold"


def expected(scaffold: Scaffold, *words: str) -> str:
    done = scaffold("cost", "--hours", "1", "--gpus", "1", "--nodes", "1", "--gpu", "H100", *words, "--json")
    assert done.code == 0, done.err
    value: str = json.loads(done.out)["markets"][0]["price"]["expected"]
    return value


def test_every_embedded_row_has_a_price_a_provider_and_a_source() -> None:
    rows = embedded()
    assert len(rows) >= 20 and len({r.gpu for r in rows}) >= 10
    for row in rows:
        assert row.provider and row.source and (row.price or row.spot), row
        assert row.checked is None or date(2025, 1, 1) < row.checked <= date.today(), row
    nodus = next(r for r in rows if r.provider == "Nodus")
    assert (nodus.gpu, nodus.price, nodus.checked) == ("H100", Decimal("2.60"), date(2026, 10, 27))


def test_old_and_undated_rows_are_flagged() -> None:
    today = date(2026, 12, 1)
    fresh = Price("X", "P", Decimal(1), checked=today - timedelta(days=STALE))
    assert not fresh.stale(today) and fresh.stale(today + timedelta(days=1))
    assert Price("X", "P", Decimal(1)).stale(today)


def test_the_order_of_the_sources(scaffold: Scaffold, here: Path, no_settings: Path) -> None:
    assert expected(scaffold, "--provider", "nodus") == "2.6000"
    no_settings.mkdir(parents=True)
    (no_settings / "prices.csv").write_text("gpu,provider,usd_per_gpu_hour\nH100,imported,5\n")
    assert expected(scaffold) == "5.0000"
    (no_settings / "config.toml").write_text("price = {H100 = 4.10}\n")
    assert expected(scaffold) == "4.1000"
    (here / "pyproject.toml").write_text('[tool.scaffold.price]\nh100 = {usd = 3.3, provider = "ours", checked = 2026-11-30}\n')
    assert expected(scaffold) == "3.3000"
    (here / "file.csv").write_text("gpu,provider,usd_per_gpu_hour,checked\nNVIDIA H100,file,2.2,2026-11-01\n")
    assert expected(scaffold, "--prices", "file.csv") == "2.2000"
    assert expected(scaffold, "--prices", "file.csv", "--price", "1.1") == "1.1000"


def test_a_projects_file_of_prices(scaffold: Scaffold, here: Path) -> None:
    (here / "sky.csv").write_text(SKYPILOT)
    (here / "pyproject.toml").write_text('[tool.scaffold]\nprices = "sky.csv"\n')
    assert expected(scaffold) == "2.8000"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("[tool.scaffold]\nprice = 2\n", "price must be a table"),
        ("[tool.scaffold.price]\nH100 = 0\n", "must be dollars above 0"),
        ("[tool.scaffold.price]\nH100 = {usd = 1, day = 2}\n", "has no day"),
        ("[tool.scaffold\n", "is not valid TOML"),
        ('[tool.scaffold]\nprices = "nowhere.csv"\n', "nowhere.csv: cannot be read"),
    ],
)
def test_wrong_settings(scaffold: Scaffold, here: Path, settings: str, told: str) -> None:
    (here / "pyproject.toml").write_text(settings)
    done = scaffold("cost", "--hours", "1", "--gpu", "H100")
    assert done.code == 2 and told in done.err and done.err.count("\n") == 1


def test_skypilots_catalogue(here: Path) -> None:
    (here / "sky.csv").write_text(SKYPILOT)
    rows = {(r.gpu, r.price is None): r for r in read(here / "sky.csv", "Nebius", date(2026, 11, 1))}
    assert set(rows) == {("H100", False), ("H100", True), ("A100-40GB", False), ("A100-80GB", False)}
    steady, spot = rows["H100", False], rows["H100", True]
    assert (steady.price, steady.region, steady.provider, steady.checked) == (Decimal("2.8000"), "us-east1", "Nebius", date(2026, 11, 1))
    assert (spot.spot, spot.region) == (Decimal("1.2500"), "eu-north1")
    assert rows["A100-80GB", False].price == Decimal("1.7900")


def test_gpuhunts_catalogue(here: Path) -> None:
    (here / "verda.csv").write_text(GPUHUNT)
    rows = {r.gpu: r for r in read(here / "verda.csv")}
    assert {g: (r.price, r.spot) for g, r in rows.items()} == {
        "A10": (Decimal("0.5000"), None),
        "A100-80GB": (Decimal("0.8000"), None),
        "A100-40GB": (None, Decimal("0.9000")),
    }
    assert rows["A10"].provider == "verda"


def test_import_then_list(scaffold: Scaffold, here: Path, no_settings: Path) -> None:
    (here / "sky.csv").write_text(SKYPILOT)
    (here / "hunt.csv").write_text(GPUHUNT)
    assert scaffold("prices", "import", "sky.csv", "--provider", "Nebius", "--date", "2026-11-01").code == 0
    assert scaffold("prices", "import", "hunt.csv", "--provider", "Verda", "--date", "2026-11-01").code == 0
    again = scaffold("prices", "import", "sky.csv", "--provider", "nebius", "--date", "2026-11-02")
    assert again.code == 0 and "4 prices of nebius taken in" in again.out
    held = read(no_settings / "prices.csv")
    assert sorted({r.provider for r in held}) == ["Verda", "nebius"] and len(held) == 7
    assert write(held) == (no_settings / "prices.csv").read_text()
    listed = json.loads(scaffold("prices", "list", "--gpu", "H100", "--json").out)
    assert [r["provider"] for r in listed][:2] == ["nebius", "nebius"] and listed[0]["layer"].endswith("prices.csv")
    assert listed[1]["usd_per_gpu_hour"] is None
    text = scaffold("prices", "list").out
    assert "unknown" in text and "$0.00" not in text and "older than 60 days" in text


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "no prices; the first line must name"),
        ("a,b\n1,2\n", "no prices; the first line must name"),
        ("gpu,provider,usd_per_gpu_hour\nH100,X,0\n", "2: usd_per_gpu_hour is '0'"),
        ("gpu,provider,usd_per_gpu_hour\nH100,X,\n", "2: neither usd_per_gpu_hour nor"),
        ("gpu,provider,usd_per_gpu_hour\nH100,,2\n", "2: names no provider"),
        ("gpu,provider,usd_per_gpu_hour,checked\nH100,X,2,soon\n", "write a day as"),
        (SKYPILOT.splitlines()[0] + "\n" + "cpu,,,4,16,0.2,eu-north1,,\n", "holds no price of a GPU"),
        ("\xff\xfe", "cannot be read as prices"),
    ],
)
def test_wrong_catalogues(scaffold: Scaffold, here: Path, content: str, told: str) -> None:
    (here / "it.csv").write_bytes(content.encode("latin-1"))
    done = scaffold("prices", "import", "it.csv")
    assert done.code == 2 and told in done.err and done.err.count("\n") == 1


def test_import_tells_wrong_days(scaffold: Scaffold, here: Path) -> None:
    (here / "sky.csv").write_text(SKYPILOT)
    assert "write a day as" in scaffold("prices", "import", "sky.csv", "--date", "soon").err
    assert scaffold("prices", "list", "--gpu", "H1000").code == 2
