"""The models of the hardware of figure 8, and what others found of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepsim import hardware
from stepsim.errors import ArgError
from stepsim.machine import list_machines
from stepsim.reproduce import points_of
from stepsim.reproduce.choice import _check
from stepsim.reproduce.figures.hardware import MODELS, TILINGS
from stepsim.reproduce.hardware_errors import errors_of, models, noise
from stepsim.reproduce.inputs import Inputs
from stepsim.reproduce.published import published, run_key
from stepsim.reproduce.runs import machine_of, make
from tests.reproduce.conftest import invented


def test_every_point_says_its_level_and_only_the_published_ones_are_published() -> None:
    points = points_of("8")
    assert [p.run.level for p in points] == ["tile"] * 30 + ["hardware"] * 15
    for point in points:
        found = published().plotted("8", point.run)
        assert (found is not None) <= point.point_id.startswith("f8_step_")
    assert [p.point_id for p in points[:15]] == [f"f8_step_{a}_{b}" for a, b in TILINGS]


def test_models_can_be_run_and_name_their_sources() -> None:
    ladder = [model for model in models() if model.step]
    assert [model.step for model in ladder] == ["S0", "S0'", "S1", "S2", "S3", "S4", "E"]
    assert {model.machine for model in models()} <= {*list_machines(), *hardware.list_machines()}
    assert {m.machine for m in MODELS} <= {model.machine for model in ladder}
    for model in models():
        machine_of(model.run((64, 16)))
        assert model.source.startswith("independent models of the hardware of the STeP paper, Fig")


def test_errors_by_hand() -> None:
    measured = published().hardware
    first = models()[0]
    off = {(16, 16): 1.1, (64, 256): 0.95}
    outcomes = {}
    for model in models():
        for tiling, row in measured.items():
            outcome = invented(model.run(tiling))
            cycles = round(row.cycles * (off.get(tiling, 1) if model is first else 1.02))
            outcomes[model.run(tiling)] = replace(
                outcome, measures={**outcome.measures, "cycles": cycles}
            )
    found = errors_of(first, measured, outcomes)
    assert found == pytest.approx((1.5, 10, 0.5), abs=0.01)
    assert noise(measured, outcomes) == pytest.approx((2, 2, 2), abs=0.01)


def test_a_run_at_the_hardware_level_is_one_of_the_hdl() -> None:
    point = points_of("8")[-1]
    outcome = make(point.run, Inputs())
    assert outcome.cycles == 8805
    assert outcome.settings["machine"] == "hdl"
    assert outcome.measures["allocated_flops_per_cycle"] == 3 * 8192
    assert outcome.measures["bus_bytes"] == 512 * outcome.measures["memory_requests"]
    assert point.run.with_slack(1) is point.run
    assert run_key(point.run).machine == "hdl"


def test_an_unknown_level_is_refused() -> None:
    point = points_of("8")[0]
    wrong = replace(point, run=replace(point.run, level="gate"))
    with pytest.raises(ArgError, match="level: expected tile or hardware, found 'gate'"):
        _check(wrong)
