"""Run programs: prepare, get an image, execute, collect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.deferred import names_of
from stepsim.simulation.image_run import ImageRun
from stepsim.simulation.limits import Limits, Progress
from stepsim.simulation.prepare import prepare
from stepsim.simulation.prepared import Prepared
from stepsim.simulation.simulate import simulate, simulate_network
from stepsim.simulation.simulate_many import simulate_many
from stepsim.simulation.totals import Totals
from stepsim.simulation.variants import Variant
from stepsim.simulation.warm_up import (
    engine_in_use,
    ensure_compiled,
    warm_up,
    warm_up_recorded,
)

if TYPE_CHECKING:
    from stepsim.simulation.case import Case, make_case
    from stepsim.simulation.ensembles import ensemble
    from stepsim.simulation.spread import Ensemble
    from stepsim.simulation.values import run_functional

__all__ = [
    "Case",
    "Ensemble",
    "ImageRun",
    "Limits",
    "Prepared",
    "Progress",
    "Totals",
    "Variant",
    "engine_in_use",
    "ensemble",
    "ensure_compiled",
    "make_case",
    "prepare",
    "run_functional",
    "simulate",
    "simulate_many",
    "simulate_network",
    "warm_up",
    "warm_up_recorded",
]

__getattr__ = names_of(
    __name__,
    {
        "case": ("Case", "make_case"),
        "ensembles": ("ensemble",),
        "spread": ("Ensemble",),
        "values": ("run_functional",),
    },
)
