"""Run programs: lower, execute, collect."""

from __future__ import annotations

from stepsim.simulation.limits import Limits, Progress
from stepsim.simulation.simulate import simulate, simulate_network, warm_up

__all__ = ["Limits", "Progress", "simulate", "simulate_network", "warm_up"]
