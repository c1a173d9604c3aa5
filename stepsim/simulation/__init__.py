"""Run programs: lower, execute, collect."""

from __future__ import annotations

from stepsim.simulation.decisions import record_decisions
from stepsim.simulation.limits import Limits, Progress
from stepsim.simulation.prepare import Prepared, prepare
from stepsim.simulation.simulate import (
    ensure_compiled,
    simulate,
    simulate_network,
    warm_up,
)
from stepsim.simulation.totals import Totals
from stepsim.simulation.values import run_functional

__all__ = [
    "Limits",
    "Prepared",
    "Progress",
    "Totals",
    "ensure_compiled",
    "prepare",
    "record_decisions",
    "run_functional",
    "simulate",
    "simulate_network",
    "warm_up",
]
