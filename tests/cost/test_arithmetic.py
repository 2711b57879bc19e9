"""What holds for every run: the cost's formula, the best checkpoint interval, the model's bounds."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scaffold.cost.calculator import BASE, Job, Market, Scaling, against, setup
from scaffold.cost.failures import Failures, break_even
from scaffold.cost.model import efficiency
from scaffold.cost.numbers import Range
from scaffold.errors import ScaffoldError


def numbers(low: str, high: str) -> st.SearchStrategy[Decimal]:
    return st.decimals(Decimal(low), Decimal(high), places=3)


@given(numbers("0.01", "5000"), st.integers(1, 16), numbers("0.01", "50"), st.integers(2, 64), numbers("0.05", "1"))
def test_what_more_machines_cost(hours: Decimal, gpus: int, price: Decimal, nodes: int, share: Decimal) -> None:
    job, market = Job(Range.exactly(hours), gpus), Market("on demand", Range.exactly(price))
    one, more = setup(job, BASE, market), setup(job, Scaling(nodes, Range.exactly(share), "given"), market)
    assert one.cost and more.cost
    assert one.cost.expected == hours * gpus * price
    assert more.cost.expected == pytest.approx(one.cost.expected / share)
    found = against(more, one)
    assert found.share is not None and found.share == pytest.approx(1 / share - 1, abs=Decimal("1e-20"))
    assert (found.saved > 0) == (nodes * share > 1)


@given(numbers("1", "1000"), numbers("0.001", "0.2"), numbers("0.001", "1"), st.integers(1, 16), numbers("1.3", "4"))
def test_no_interval_is_better_than_the_best(mean: Decimal, save: Decimal, restart: Decimal, nodes: int, factor: Decimal) -> None:
    failures = Failures(mean, save, restart)
    best = failures.best(nodes)
    assume(save * 5 < failures.of(nodes))
    work = best * 1000
    least = failures.total(work, nodes)
    assert least <= replace(failures, interval=best * factor).total(work, nodes)
    assert least <= replace(failures, interval=best / factor).total(work, nodes)


def test_intervals_by_hand() -> None:
    failures = Failures(Decimal(100), Decimal("0.5"), Decimal(1))
    assert failures.young(1) == 10 and failures.young(4) == 5
    # 10 x (1 + 0.05/3 + 0.0025/9) - 0.5
    assert failures.best(1) == pytest.approx(Decimal("9.669444444"), rel=Decimal("1e-8"))
    assert Failures(Decimal(1), Decimal(3), Decimal(1)).best(1) == 1


@given(numbers("1", "500"), numbers("1", "500"), st.integers(1, 8))
def test_failures_only_add(mean: Decimal, hours: Decimal, nodes: int) -> None:
    failures = Failures(mean, Decimal("0.01"), Decimal("0.1"))
    found = failures.hours(Range.exactly(hours), nodes)
    assert hours < found.low < found.expected < found.high


@given(numbers("1.05", "3"), st.integers(1, 4))
def test_spot_breaks_even_where_it_says(factor: Decimal, nodes: int) -> None:
    failures = Failures(Decimal(1), Decimal("0.01"), Decimal("0.1"))
    work = Decimal(20)
    mean = break_even(failures, work, nodes, work * factor)
    assert mean is not None
    assert replace(failures, mean_time=mean).total(work, nodes) == pytest.approx(work * factor, rel=Decimal("1e-6"))


def test_a_run_that_never_ends() -> None:
    with pytest.raises(ScaffoldError, match="hardly ever ends"):
        Failures(Decimal("0.01"), Decimal("0.1"), Decimal("0.1"), Decimal(5)).total(Decimal(100), 1)


@given(numbers("0.001", "10"), st.integers(0, 10**11), st.integers(2, 64), numbers("1", "3200"), numbers("1", "10"))
def test_the_models_range(step: Decimal, size: int, nodes: int, gbit: Decimal, wider: Decimal) -> None:
    found = efficiency(step, Decimal(size), nodes, Range(gbit, gbit * wider, gbit * wider * wider))
    assert 0 < found.low <= found.expected <= found.high <= 1
