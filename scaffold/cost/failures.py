"""What failures cost: lost work and restarts, and how often to save.

A run of ``hours`` on ``nodes`` machines fails about ``hours x nodes x rate`` times; each failure loses half an interval of work and the
restart. Saving costs time too: the best interval is about ``sqrt(2 x save x MTBF)`` (Young, CACM 17(9), 1974; Daly, FGCS 22, 2006).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from scaffold.errors import ScaffoldError


@dataclass(frozen=True)
class Failures:
    """Hours in all: what is lost to failures, to restarts and to saving at ``interval`` hours, and how many failures are expected."""

    expected: Decimal
    interval: Decimal
    lost: Decimal
    restarting: Decimal
    saving: Decimal

    @property
    def hours(self) -> Decimal:
        """Hours beyond the run's own."""
        return self.lost + self.restarting + self.saving


def failures(hours: Decimal, nodes: int, per_machine_day: Decimal, save: Decimal, restart: Decimal, interval: Decimal | None = None) -> Failures:
    """Expected loss of a run. ``per_machine_day``: failures of one machine a day; ``save`` and ``restart`` in hours.

    Without ``interval`` the best one is taken. Raises ``ScaffoldError`` for values below zero.
    """
    if min(per_machine_day, save, restart) < 0 or (interval is not None and interval <= 0):
        raise ScaffoldError("failure rate, times to save and restart cannot be below zero, and the interval must be above it")
    if per_machine_day == 0:
        step = interval or hours
        return Failures(Decimal(0), step, Decimal(0), Decimal(0), save * (hours / step) if interval else Decimal(0))
    between = Decimal(24) / (per_machine_day * nodes)
    best = min((2 * save * between).sqrt(), hours) if save else hours / 1000
    step = interval or best
    expected = hours / between
    return Failures(expected, step, expected * min(step, hours) / 2, expected * restart, save * hours / step)
