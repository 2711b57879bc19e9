"""Scripts that misbehave get a verdict, in time, and leave nothing behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, indent

import pytest

from scaffold.verify import Report, compare
from scaffold.verify.comparison import Comparison

ORIGINAL = """\
import os, subprocess, sys, time
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step, (x, y) in enumerate(DataLoader(data, batch_size=16, shuffle=True)):
    optimizer.zero_grad()
    F.mse_loss(net(x), y).backward()
    optimizer.step()
{fault}
print("done")
"""

CONVERTED = """\
import os, signal, subprocess, sys, time
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
net = torch.nn.Linear(4, 1)
ddp = DDP(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step, (x, y) in enumerate(DataLoader(data, batch_size=16, sampler=DistributedSampler(data))):
    optimizer.zero_grad()
    F.mse_loss(ddp(x), y).backward()
    optimizer.step()
{fault}
if rank == 0:
    print("done")
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparison]:
    """The comparison with an original that has no fault: it runs once."""
    script = tmp_path_factory.mktemp("original") / "train.py"
    script.write_text(ORIGINAL.format(fault=""))
    with Comparison(script, timeout=15) as comparison:
        yield comparison


def against(right: Comparison, fault: str) -> Report:
    """The report on a converted script with lines that run after every step."""
    script = right.path.with_name("converted.py")
    script.write_text(CONVERTED.format(fault=indent(dedent(fault), "    ")))
    return right.against(script, resumes=False)


def with_original(tmp_path: Path, fault: str, timeout: float) -> Report:
    """The report on an original with lines that run after every step."""
    (tmp_path / "train.py").write_text(ORIGINAL.format(fault=indent(dedent(fault), "    ")))
    (tmp_path / "converted.py").write_text(CONVERTED.format(fault=""))
    return compare(tmp_path / "train.py", tmp_path / "converted.py", timeout=timeout, resumes=False)


def failed(report: Report) -> dict[str, str]:
    return {check.id: check.evidence for check in report.failures}


def test_without_a_fault_nothing_fails(right: Comparison) -> None:
    assert failed(against(right, "")) == {}


@pytest.mark.parametrize(
    ("fault", "check", "says"),
    [
        ("if rank == 1: raise ValueError('no such class')", "run.converted", "rank 1: ValueError: no such class at converted.py:"),
        ("if rank == 1 and step == 2: os._exit(7)", "run.converted", "rank 1: exit code 7"),
        ("if rank == 1 and step == 2: os.kill(os.getpid(), signal.SIGKILL)", "run.converted", "signal 9"),
        ("if rank == 1 and step == 2: os.kill(os.getpid(), signal.SIGSEGV)", "run.converted", "signal 11"),
        ("if step == 2: sys.exit('enough')", "run.converted", "exit code 1"),
        ("while True: sys.stdout.write('x' * 1_000_000)", "run.converted", "it printed more than 64 MB"),
        ("open('/var/scaffold-outside', 'w')", "run.converted", "outside the copy of the project"),
    ],
    ids=["raises", "os._exit", "killed", "crashes", "sys.exit", "prints", "writes outside"],
)
def test_a_converted_script_that_misbehaves(fault: str, check: str, says: str, right: Comparison) -> None:
    found = failed(against(right, fault))
    assert says in found[check]
    assert not Path("/var/scaffold-outside").exists()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero at train.py:14"),
        ("os._exit(3)", "exit code 3"),
        ("os.abort()", "signal 6"),
        ("while True: sys.stdout.write('x' * 1_000_000)", "it printed more than 64 MB"),
    ],
)
def test_an_original_that_misbehaves(fault: str, says: str, tmp_path: Path) -> None:
    assert says in failed(with_original(tmp_path, fault, 15))["run.original"]


def test_an_original_without_end_is_stopped(tmp_path: Path) -> None:
    began = time.monotonic()
    found = failed(with_original(tmp_path, "while True: time.sleep(1)", 2))
    assert "stopped: timeout" in found["run.original"]
    assert time.monotonic() - began < 40


def test_a_hang_is_told_with_the_stack_of_every_rank(right: Comparison) -> None:
    began = time.monotonic()
    report = against(right, "if step == 1 and rank == 0: dist.barrier()")
    assert "the ranks wait for each other" in failed(report)["run.hang"]
    assert "rank 0 waits in barrier at converted.py:19" in failed(report)["run.hang"]
    assert len(report.stacks) == 2
    assert all("converted.py" in stack for stack in report.stacks)
    assert time.monotonic() - began < 60


def test_a_rank_that_loops_is_told_at_the_timeout(right: Comparison) -> None:
    report = against(right, "while rank == 1: pass")
    assert "no end after" in failed(report)["run.hang"]
    assert "converted.py\", line 19" in report.stacks[1]


def test_no_process_outlives_the_run(right: Comparison, tmp_path: Path) -> None:
    log = tmp_path / "pids"
    fault = f"""
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    os.write(os.open({str(log)!r}, os.O_CREAT | os.O_APPEND | os.O_WRONLY), b"%d\\n" % child.pid)
    """
    against(right, fault)
    started = [int(line) for line in log.read_text().splitlines()]
    assert len(started) == 8  # four steps on each of two ranks
    time.sleep(0.2)
    assert [pid for pid in started if _alive(pid)] == []


def test_a_fork_is_not_taken_for_its_parent(right: Comparison) -> None:
    fault = """
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    """
    assert failed(against(right, fault)) == {}


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
