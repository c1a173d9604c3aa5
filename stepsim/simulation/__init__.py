"""Run programs: prepare, get an image, execute, collect."""

from __future__ import annotations

from stepsim.simulation.case import Case, make_case
from stepsim.simulation.image_run import ImageRun
from stepsim.simulation.limits import Limits, Progress
from stepsim.simulation.prepare import Prepared, prepare
from stepsim.simulation.simulate import simulate, simulate_network
from stepsim.simulation.totals import Totals
from stepsim.simulation.values import run_functional
from stepsim.simulation.warm_up import ensure_compiled, warm_up

__all__ = [
    "Case",
    "ImageRun",
    "Limits",
    "Prepared",
    "Progress",
    "Totals",
    "ensure_compiled",
    "make_case",
    "prepare",
    "run_functional",
    "simulate",
    "simulate_network",
    "warm_up",
]
