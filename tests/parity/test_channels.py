"""More channels make no published workload slower when its memory is interleaved."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from stepsim.lowering import Network, TimingParams
from stepsim.machine import load_machine
from stepsim.reproduce.figures import FIGURES, points_of
from stepsim.reproduce.inputs import Inputs
from stepsim.reproduce.points import Run
from stepsim.reproduce.runs import make
from tests.engine_backend import run_engine
from tests.oracle.build import NetBuilder
from tests.property_profile import THOROUGH
from tests.shared import TRACES, needs_traces

CHANNELS = (16, 20, 31, 32, 33, 34, 36, 48, 63, 64)
FEW = ("f8_step_16_16", "f8_step_32_32", "f9_mixtral_dyn", "f12_static_32", "f14_4185_dynamic",
       "f21_b16_1063_dynamic")  # fmt: skip
PAGE = Path(__file__).parents[2] / "docs" / "machines.md"


STEP = 1 if THOROUGH else 3
"""Of the other points, every third is run; thoroughly, all of them."""


def published_runs() -> dict[str, Run]:
    """Of memories that have channels to change: a DRAM and the hardware level have their own."""
    found: dict[Run, str] = {}
    for figure in FIGURES:
        for point in points_of(figure):
            if point.run.level == "tile" and load_machine(point.run.machine).hbm.dram is None:
                found.setdefault(point.run, point.point_id)
    return {name: run for run, name in found.items()}


RUNS = published_runs()
OTHERS = sorted(set(RUNS) - set(FEW))[::STEP]


def cycles(run: Run, channels: int, model: str = "interleaved") -> int:
    changes = {**run.changes, "hbm.channels": channels, "hbm.model": model}
    outcome = make(replace(run, changes=changes), Inputs(TRACES.parent))
    assert outcome.status == "ok"
    return outcome.cycles


def assert_no_step_costs(steps: list[int]) -> None:
    """No number of channels costs more than 1 % over the one before."""
    for before, after in pairwise(steps):
        assert after <= 1.01 * before, dict(zip(CHANNELS, steps, strict=True))


@needs_traces
@pytest.mark.parametrize("name", FEW)
def test_no_step_costs_more_than_one_percent(name: str) -> None:
    assert_no_step_costs([cycles(RUNS[name], channels) for channels in CHANNELS])


@needs_traces
@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("name", OTHERS)
def test_no_step_costs_more_than_one_percent_anywhere(name: str) -> None:
    assert_no_step_costs([cycles(RUNS[name], channels) for channels in CHANNELS])


@needs_traces
def test_the_example_of_the_page_on_machines() -> None:
    (stated,) = re.findall(
        r"layer\s+of\s+figure\s+9\s+with\s+dynamic\s+tiles\s+takes\s+(.*?`interleaved`)",
        PAGE.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    by_model = [
        [cycles(RUNS["f9_qwen_dyn"], channels, model) for channels in (32, 33)]
        for model in ("published", "interleaved")
    ]
    (a, b), (c, d) = by_model
    assert " ".join(stated.split()) == (
        f"{a:,} cycles at 32 channels and {b:,} at 33 with `published`, {c:,} and {d:,} with "
        "`interleaved`"
    )


def loads(count: int, channels: int, model: str) -> Network:
    """Loads of 16 tiles of 512 requests each that start together."""
    b = NetBuilder(TimingParams(hbm_channels=channels, memory_model=model))
    for i in range(count):
        b.unit(
            f"load{i}", "OffChipLoad", [], [f"c{i}"], tile=[256, 64], bpe=2, view=[16], par=1
        )  # fmt: skip
        b.unit(f"end{i}", "Consumer", [f"c{i}"], [])
    return b.network()


@pytest.mark.parametrize("count", [4, 16, 40])
def test_equal_loads_that_start_together(count: int) -> None:
    assert_no_step_costs([run_engine(loads(count, c, "interleaved")).cycles for c in CHANNELS])


def test_the_published_walk_clusters() -> None:
    by_channels = {c: run_engine(loads(16, c, "published")).cycles for c in (32, 34)}
    assert by_channels[34] > 2 * by_channels[32]
