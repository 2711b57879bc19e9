"""The checks. Each is a question about the conversion, asked of what the processes did."""

from __future__ import annotations

from collections.abc import Iterator

from scaffold.verify.case import Case
from scaffold.verify.checks import data, ending, files, output, texts, training
from scaffold.verify.result import Check


def all_checks(case: Case) -> Iterator[Check]:
    """Every check, in the order of the report."""
    yield from ending.ending(case)
    yield from ending.collectives(case)
    yield from data.samples(case)
    yield from training.between_ranks(case)
    yield from training.against_original(case)
    yield from training.schedule(case)
    yield from output.printed(case)
    yield from files.files(case)
    yield texts.texts(case)
