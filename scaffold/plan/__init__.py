"""Decisions that several rules share, taken once from the facts: names, where set-up goes, how each model is synchronised."""

from scaffold.plan.options import Options
from scaffold.plan.plan import Plan

__all__ = ["Options", "Plan"]
