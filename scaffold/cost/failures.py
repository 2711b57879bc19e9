"""What failures and checkpoints add to a run.

Failures come at random at a constant rate (a Poisson process), one lost machine ends all ranks, and the run goes
on from the last checkpoint. J. W. Young, A first order approximation to the optimum checkpoint interval (1974);
J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps (2006), equations 20 and 37.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from scaffold.cost.numbers import ONE, Range
from scaffold.errors import ScaffoldError

TWO = Decimal(2)
_HOPELESS = Decimal(50)  # mean times between failures in one segment, beyond which a run does not end
BISECTIONS = 60


@dataclass(frozen=True)
class Failures:
    """How often one machine fails and what is lost; all in hours.

    ``mean_time`` is the mean time between failures of one machine, ``interval`` the work between two checkpoints
    (``None``: the best one is taken), ``save`` the time that training stands still for a checkpoint, ``restart``
    the time from a failure until training goes on.
    """

    mean_time: Decimal
    save: Decimal
    restart: Decimal
    interval: Decimal | None = None

    def of(self, nodes: int) -> Decimal:
        """The mean time between failures of a run on so many machines: any of them ends it."""
        return self.mean_time / nodes

    def young(self, nodes: int) -> Decimal:
        """Young's interval, sqrt(2 save M)."""
        return (TWO * self.save * self.of(nodes)).sqrt()

    def best(self, nodes: int) -> Decimal:
        """Daly's interval: Young's with the terms of higher order; M itself where saving takes longer than 2 M."""
        mean = self.of(nodes)
        if self.save >= TWO * mean:
            return mean
        part = self.save / (TWO * mean)
        return self.young(nodes) * (ONE + part.sqrt() / 3 + part / 9) - self.save

    def used(self, nodes: int) -> Decimal:
        """The interval that counts: the given one, or the best."""
        return self.interval if self.interval is not None else self.best(nodes)

    def total(self, work: Decimal, nodes: int) -> Decimal:
        """Expected hours for ``work`` hours of training: M exp(R/M) (exp((i + save)/M) - 1) work/i.

        Raises:
            ScaffoldError: the run would practically never end.
        """
        mean = self.of(nodes)
        interval = min(self.used(nodes), work)
        segment = (interval + self.save) / mean
        if max(segment, self.restart / mean) > _HOPELESS:
            raise ScaffoldError(
                f"a failure every {mean:.3g} h with a checkpoint every {interval:.3g} h: such a run hardly ever ends; "
                "save more often (--checkpoint-every)"
            )
        return mean * (self.restart / mean).exp() * (segment.exp() - ONE) * work / interval

    def undisturbed(self, work: Decimal, nodes: int) -> Decimal:
        """The same without a failure: the checkpoints alone."""
        return work * (ONE + self.save / min(self.used(nodes), work))

    def hours(self, work: Range, nodes: int) -> Range:
        """Low: no failure happens. Expected: as above. High: failures come twice as often, at the same interval."""
        worse = replace(self, mean_time=self.mean_time / 2, interval=self.used(nodes))
        return Range(
            self.undisturbed(work.low, nodes), self.total(work.expected, nodes), worse.total(work.high, nodes)
        )


def break_even(failures: Failures, work: Decimal, nodes: int, limit: Decimal) -> Decimal | None:
    """The mean time between failures of a machine, in hours, from which the run takes ``limit`` hours or less.

    The best interval is taken at each. ``None``: not even without failures.
    """
    if limit <= work:
        return None
    low, high = work * nodes / 10**6, work * nodes * 10**6
    for _ in range(BISECTIONS):
        middle = (low * high).sqrt()
        tried = replace(failures, mean_time=middle, interval=None)
        try:
            short = tried.total(work, nodes) <= limit
        except ScaffoldError:
            short = False
        low, high = (low, middle) if short else (middle, high)
    return high if high < work * nodes * 10**5 else None
