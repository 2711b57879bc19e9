"""A conversion's change is explained; what was changed besides, left out or broken is told apart."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scaffold.cli import main
from scaffold.convert import convert
from scaffold.plan import Options

ORIGINAL = '''\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
net = build()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = (net(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} done")
torch.save(net.state_dict(), "net.pt")
'''


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the original, committed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(ORIGINAL)
    _git("init", "-q")
    _commit("base")
    return tmp_path


def _git(*args: str) -> str:
    settings = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *settings, *args], check=True, capture_output=True, text=True).stdout


def _commit(message: str) -> None:
    _git("add", "-A")
    _git("commit", "-q", "-m", message)


def _converted(repository: Path) -> str:
    conversion = convert(repository / "train.py", Options())
    assert not conversion.errors
    assert conversion.changed
    return conversion.files[0].text


def _review(*args: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["review", *args], input=given)


def test_a_conversion_is_explained(repository: Path) -> None:
    (repository / "train.py").write_text(_converted(repository))
    _commit("convert")
    result = _review("HEAD~1..HEAD", "--json")
    data = json.loads(result.stdout)
    assert result.exit_code == 0, result.output
    assert all(h["as_converted"] for h in data["hunks"])
    assert {"SC101", "SC201", "SC203", "SC301"} <= {r for h in data["hunks"] for r in h["rules"]}
    assert not data["missing"]
    assert not data["hazards"]


def test_a_changed_rate_is_for_a_human(repository: Path) -> None:
    (repository / "train.py").write_text(_converted(repository).replace("lr=0.1", "lr=0.4"))
    _commit("convert")
    result = _review("HEAD~1...HEAD", "--json")
    open_hunks = [h for h in json.loads(result.stdout)["hunks"] if h["open"]]
    assert result.exit_code == 1
    assert len(open_hunks) == 1
    assert open_hunks[0]["setting"]
    assert any("lr=0.4" in x["text"] for x in open_hunks[0]["open"])


def test_what_is_left_out_is_missing_and_a_hazard(repository: Path) -> None:
    lines = [x for x in _converted(repository).splitlines(keepends=True) if ".set_epoch(" not in x]
    (repository / "train.py").write_text("".join(lines))
    _commit("convert")
    result = _review("HEAD~1..HEAD", "--json")
    data = json.loads(result.stdout)
    assert result.exit_code == 1
    assert any("SC203" in m["rules"] for m in data["missing"])
    assert any(h["rule"] == "SC203" for h in data["hazards"])


def test_a_conversion_by_hand_is_recognised(repository: Path) -> None:
    text = ORIGINAL.replace("import torch\n", "import torch\nimport torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel\nfrom torch.utils.data.distributed import DistributedSampler\n", 1)
    text = text.replace("torch.manual_seed(0)", 'dist.init_process_group("gloo")\nmain_process = dist.get_rank() == 0\ntorch.manual_seed(0)')
    text = text.replace("loader = DataLoader(data, batch_size=8, shuffle=True)", "share = DistributedSampler(data)\nloader = DataLoader(data, batch_size=8, sampler=share)")
    text = text.replace("optimizer = torch", "wrapped = DistributedDataParallel(net)\noptimizer = torch").replace("loss = (net(x)", "loss = (wrapped(x)")
    text = text.replace("    for x, y in loader", "    share.set_epoch(epoch)\n    for x, y in loader")
    text = text.replace("    print(", "    if main_process:\n        print(").replace("torch.save(", "if main_process:\n    torch.save(") + "dist.destroy_process_group()\n"
    (repository / "train.py").write_text(text)
    _commit("by hand")
    result = _review("HEAD~1..HEAD", "--json")
    data = json.loads(result.stdout)
    assert not data["missing"], data["missing"]
    assert not data["hazards"], data["hazards"]
    assert not [x["text"] for h in data["hunks"] for x in h["open"]]
    assert result.exit_code == 0


def test_a_setting_changed_on_the_way_is_seen(repository: Path) -> None:
    text = _converted(repository).replace("batch_size=8, sampler", "batch_size=16, sampler")
    assert "batch_size=16" in text
    (repository / "train.py").write_text(text)
    _commit("convert")
    open_lines = [x["text"] for h in json.loads(_review("HEAD~1..HEAD", "--json").stdout)["hunks"] for x in h["open"]]
    assert any("batch_size=16" in x for x in open_lines)


def test_two_files_and_a_patch_say_the_same(repository: Path, tmp_path: Path) -> None:
    converted = _converted(repository)
    (repository / "other.py").write_text(converted)
    of_files = json.loads(_review("train.py", "other.py", "--json").stdout)
    (repository / "other.py").unlink()
    (repository / "train.py").write_text(converted)
    patch = _git("diff")
    applied = json.loads(_review("-", "--json", given=patch).stdout)
    _git("checkout", "train.py")
    pending = json.loads(_review("-", "--json", given=patch).stdout)
    assert of_files["hunks"] == applied["hunks"] == pending["hunks"]
    assert pending["hunks"][0]["as_converted"]


def test_other_formats(repository: Path) -> None:
    (repository / "train.py").write_text(_converted(repository).replace("lr=0.1", "lr=0.4").replace("dist.destroy_process_group()\n", ""))
    _commit("convert")
    markdown = _review("HEAD~1..HEAD", "--format", "markdown").stdout
    assert markdown.count("<details>") == markdown.count("</details>") >= 1
    assert "lr=0.4" in markdown
    html = _review("HEAD~1..HEAD", "--format", "html").stdout
    assert "<script" not in html
    assert "http" not in html.split("<body>")[0]
    assert "lr=0.4" in html
    run = json.loads(_review("HEAD~1..HEAD", "--format", "sarif").stdout)["runs"][0]
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    assert {r["ruleId"] for r in run["results"]} == set(rules)
    assert all(rules[r["ruleIndex"]] == r["ruleId"] and r["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1 for r in run["results"])
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in _review("HEAD~1..HEAD", "--format", "github").stdout.splitlines())


def test_a_comment_keeps_to_the_limit(repository: Path) -> None:
    blocks = "".join(f"value_{n} = [{n}] * 3  # `{n}` <b>\n" if n % 8 else f"kept_{n} = {n}\n" * 9 for n in range(1000))
    (repository / "train.py").write_text(ORIGINAL + "".join(x for x in blocks.splitlines(keepends=True) if x.startswith("kept")))
    _commit("before")
    (repository / "train.py").write_text(_converted(repository) + blocks)
    assert (repository / "train.py").read_text().count("\n") > 2000
    _commit("long")
    comment = _review("HEAD~1..HEAD", "--format", "markdown").stdout
    assert len(comment) < 65_536
    assert comment.count("<details>") == comment.count("</details>")
    assert comment.count("```") % 2 == 0


def test_the_summary_of_verify(repository: Path) -> None:
    (repository / "train.py").write_text(_converted(repository))
    _commit("convert")
    checks = [{"id": "data.disjoint", "title": "", "verdict": "fails", "evidence": "ranks share 3 samples"}, {"id": "run.group", "title": "", "verdict": "holds", "evidence": ""}]
    (repository / "verify.json").write_text(json.dumps({"checks": checks}))
    result = _review("HEAD~1..HEAD", "--verify", "verify.json")
    assert result.exit_code == 1
    assert "1 hold, 1 fail" in result.stdout
    assert "ranks share 3 samples" in result.stdout


@pytest.mark.parametrize("args", [("nothing..here",), ("one.py",), ("a.py", "b.py"), ("HEAD..HEAD", "--verify", "none.json")])
def test_bad_input_is_one_line(repository: Path, args: tuple[str, ...]) -> None:
    result = _review(*args)
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1


def test_no_patch(repository: Path) -> None:
    result = _review("-", given="no patch")
    assert result.exit_code == 2
    assert "no patch" in result.stderr


def test_it_reads_commits_from_a_subfolder(repository: Path) -> None:
    (repository / "train.py").write_text(_converted(repository))
    _commit("convert")
    (repository / "sub").mkdir()
    os.chdir(repository / "sub")
    assert _review("HEAD~1..HEAD").exit_code == 0
