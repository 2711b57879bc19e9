"""How many wrong conversions ``scaffold verify`` refutes, and by which check.

Every example is converted; from each conversion wrong versions are made, one for each fault that its text has a place for.
The right conversion must pass, each wrong one must be refuted by a check that is there for it.

    python -m benchmarks.mutants [--only char_gpt] [--json FILE]

A mutant takes about as long as two runs of its example: all of them half an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from examples.pairs import SETTINGS, convert_example
from scaffold.verify.comparison import Comparison

HANG = "run.hang run.converted run.collectives"
SET_EPOCH = r"^.*\.set_epoch\(.*\n"
RANK = r"(?:rank|dist\.get_rank\(\)|torch\.distributed\.get_rank\(\))"


@dataclass(frozen=True)
class Fault:
    """A text to find, what takes its place, and the checks of which one must fail. ``last``: the last place, not the first.
    ``everywhere``: all places. ``also_without``: what goes with it, everywhere."""

    name: str
    refuted_by: str
    pattern: str
    by: str
    last: bool = False
    everywhere: bool = False
    also_without: str = ""

    def applied(self, text: str) -> str | None:
        """The text with the fault, or nothing where it has no place for it."""
        places = list(re.finditer(self.pattern, text, re.M))
        if not places:
            return None
        if self.everywhere:
            return re.sub(self.pattern, self.by, text, flags=re.M)
        match = places[-1 if self.last else 0]
        wrong = text[: match.start()] + match.expand(self.by) + text[match.end() :]
        return re.sub(self.also_without, "", wrong, flags=re.M) if self.also_without else wrong


FAULTS = [
    Fault("no sampler", "data.disjoint", r"sampler=DistributedSampler\((\w+)[^()]*\)", "shuffle=True", also_without=SET_EPOCH),
    Fault("every rank draws alike", "data.disjoint data.draws", r"(?<!class )\bRankSampler\((\w+)\)", r"\1", also_without=SET_EPOCH),
    Fault("the stream is not divided", "data.disjoint", r"(?<!class )\bRankShard\((\w+)\)", r"\1", also_without=SET_EPOCH),
    Fault("batches not divided", "data.disjoint data.draws original.gradients original.steps", r"\[rank::world_size\]", "[:batch_size]"),
    Fault("columns not divided", "data.disjoint original.gradients", r"\[:, rank \* args", "[:, 0 * args"),
    Fault("no set_epoch", "data.order", SET_EPOCH, ""),
    Fault("not shuffled", "data.order", r"DistributedSampler\((\w+)\)", r"DistributedSampler(\1, shuffle=False)"),
    Fault("one rank's share for all", "data.disjoint", r"DistributedSampler\((\w+)", r"DistributedSampler(\1, num_replicas=2, rank=0"),
    Fault("evaluation counted twice", "output.equal files.content ranks.decisions", r", sampler=range\(rank, len\(\w+\), world_size\)", ""),
    Fault("not wrapped", "ranks.gradients run.converted", r"([\w.]+) = DDP\(([\w.]+)[^()]*\)", r"\1 = \2"),
    Fault("gradients not averaged", "ranks.gradients", r"^ *average_gradients\(\w+\)\n", ""),
    Fault("loss through the inner module", "ranks.gradients", r"\b(ddp_\w+)\((?=\w)", r"\1.module(", everywhere=True),
    Fault("loss divided by the ranks", "original.gradients", r"\bloss\.backward\(\)", "(loss / 2).backward()"),
    Fault("summed loss not scaled", "original.gradients", r"\((\w+) \* world_size\)\.backward", r"\1.backward"),
    Fault("never synchronised", "ranks.gradients", r"nullcontext\(\) if .* else (\w+\.no_sync\(\))", r"\1"),
    Fault("other weights on each rank", "ranks.parameters ranks.gradients original.gradients original.parameters run.converted",
          r"^( *)([\w.]+) = DDP\(([\w.]+)[^()]*\)", r"\1[p.data.mul_(1 + 0.1 * rank) for p in \3.parameters()]\n\1\2 = \3"),
    Fault("in-batch pairs of one rank", "original.gradients", r"all_gather\((ddp_\w+\(\w+\))\)", r"\1", everywhere=True),
    Fault("metrics not reduced", "output.equal files.content ranks.decisions", r"= all_reduce_(?:sum|mean)\((?!.*return)(.*)\)$", r"= \1", last=True),
    Fault("shown before it is reduced", "output.equal", r"^( *)mean_(\w+) = all_reduce_mean\((.*)\)$", r"\1mean_\2 = \3"),
    Fault("sum taken for mean", "output.equal files.content ranks.decisions", r"= all_reduce_sum\((\w+)\)$", r"= all_reduce_mean(\1)"),
    Fault("reduced on one rank", HANG, r"^( *)(\w+) = all_reduce_(\w+)\((.*)\)$", r"\1\2 = all_reduce_\3(\4) if rank == 0 else \4"),
    Fault("printed by all", "output.once", rf"if {RANK} == 0:(?=\n *print)", "if True:", everywhere=True),
    Fault("saved by all", "files.once", rf"if {RANK} == 0(?: and [\w.]+)?:(?=\n *(?:torch|th)\.save)", "if True:"),
    Fault("wrapper's keys saved", "files.content", r"\b(?:torch|th)\.save\((.*?)(\w+)\.state_dict\(\)", r"torch.save(\1ddp_\2.state_dict()"),
    Fault("process group left", "run.group", r"^.*destroy_process_group\(\)\n", ""),
    Fault("barrier on one rank", HANG, rf"if {RANK} == 0:\n( *)(?=print)", r"if dist.get_rank() == 0:\n\1dist.barrier()\n\1", last=True),
    Fault("learning rate scaled", "original.rates", r"\blr=((?:args|opt|cfg|self|config)[.\w]*)", r"lr=\1 * 2"),
    Fault("a rank leaves", "run.converted run.hang", r"^( *)(.*)\.set_epoch\(.*\n", r"\g<0>\1if dist.get_rank() == 1:\n\1    os._exit(3)\n"),
]  # fmt: skip


@dataclass(frozen=True)
class Result:
    """One verdict: the example, the fault, whether a check that is there for it failed, and all that failed."""

    example: str
    fault: str
    caught: bool
    right_check: bool
    failed: tuple[str, ...]


def mutants(folder: Path, entry: str) -> Iterator[tuple[Fault, dict[str, str]]]:
    """Each fault that the conversion has a place for, with the texts of the files it changes."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"), key=lambda path: path.name != entry)}
    for fault in FAULTS:
        for name, text in texts.items():
            wrong = fault.applied(text)
            if wrong is None or not _fits(fault, wrong):
                continue
            others = {n: re.sub(fault.also_without, "", t, flags=re.M) for n, t in texts.items() if n != name and fault.also_without}
            changed = {n: t for n, t in {**others, name: wrong}.items() if t != texts[n]}
            if all(_compiles(t) for t in changed.values()):
                yield fault, changed
                break


def _fits(fault: Fault, wrong: str) -> bool:
    """Whether all names that a fault brings in are there."""
    names = {"os._exit": "import os", "dist.barrier": "import torch.distributed as dist", "all_reduce_mean(": "def all_reduce_mean", "all_reduce_sum(": "def all_reduce_sum"}
    if fault.name == "learning rate scaled" and "OneCycleLR(" in wrong:
        return False  # which sets the rates itself
    return all(needed in wrong for used, needed in names.items() if used in wrong) and (fault.name != "wrapper's keys saved" or _wrapped(wrong))


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _wrapped(text: str) -> bool:
    """Whether the wrapper whose keys are saved is made in the function that saves."""
    saved = re.search(r"save\(.*?(ddp_\w+)\.state_dict", text)
    return saved is not None and text.rfind(f"{saved[1]} = DDP(", 0, saved.start()) > text.rfind("def ", 0, saved.start())


def judge(name: str, work: Path) -> Iterator[Result]:
    """Convert an example, and judge its right and its wrong versions."""
    pair = convert_example(name, work)
    right = pair.converted.parent
    with Comparison(pair.original, original_args=pair.args, timeout=20) as comparison:

        def failed(script: Path) -> tuple[str, ...]:
            return tuple(check.id for check in comparison.against(script, pair.rank_args, resumes=False).failures)

        ours = failed(pair.converted)
        yield Result(name, "(none)", bool(ours), not ours, ours)
        for number, (fault, texts) in enumerate(mutants(right, pair.converted.name)):
            wrong = shutil.copytree(right, work / f"wrong{number}")
            for file, text in texts.items():
                (wrong / file).write_text(text)
            found = tuple(id for id in failed(wrong / pair.converted.name) if id not in ours)
            yield Result(name, fault.name, bool(found), bool({*fault.refuted_by.split()} & {*found}), found)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(SETTINGS), action="append", help="these examples alone")
    parser.add_argument("--json", type=Path, help="write the results here too")
    options = parser.parse_args()
    results = []
    for name in options.only or SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            for result in judge(name, Path(folder)):
                results.append(result)
                right = result.fault == "(none)"
                told = ("passes" if not result.failed else "WRONGLY REFUTED") if right else (
                    "refuted" if result.right_check else "refuted by others" if result.caught else "MISSED")
                print(f"{name:20} {result.fault:32} {told:18} {', '.join(result.failed[:4])}", flush=True)
    wrong = [r for r in results if r.fault != "(none)"]
    rights = [r for r in results if r.fault == "(none)"]
    caught = Counter((r.caught, r.right_check) for r in wrong)
    print(f"\n{len(wrong)} wrong conversions: {caught[True, True]} refuted by a check that is there for it, {caught[True, False]} by another, "
          f"{caught[False, False]} missed; {len(rights)} right ones: {sum(not r.failed for r in rights)} pass")
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in results], indent=1))


if __name__ == "__main__":
    main()
