"""Limits and heartbeats."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.kernels.driver import execute
from stepsim.simulation import Limits, Progress, simulate_network
from stepsim.simulation.running.image_run import run_image
from tests.simulation.checks import check_accounts
from tests.simulation.programs import long_network, simulate_moe


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine returns to its caller every 50 firings."""
    module = sys.modules[run_image.__module__]
    monkeypatch.setattr(module, "execute", partial(execute, pause_steps=50))


def stopped(limits: Limits) -> st.Result:
    result = simulate_network(long_network(), limits=limits)
    whole = simulate_network(long_network())
    assert whole.status == "ok"
    assert result.status == "limit"
    assert result.diagnosis is not None
    (name,) = [n for n in Limits.__slots__ if getattr(limits, n) is not None]
    assert result.diagnosis.summary == f"stopped by the limit {name}: 0 of 3 units have ended"
    assert str(result.diagnosis) == result.diagnosis.summary
    assert 0 < result.engine_steps < whole.engine_steps
    assert 0 < result.cycles < whole.cycles
    assert 0 < result.offchip_bytes < whole.offchip_bytes
    assert result.units.num_rows == 3
    check_accounts(result)
    return result


def test_cycles() -> None:
    result = stopped(Limits(max_cycles=500))
    assert 400 < result.cycles < 600


def test_steps() -> None:
    assert stopped(Limits(max_steps=100)).engine_steps == 100


@pytest.mark.usefixtures("short_pauses")
def test_wall_time() -> None:
    stopped(Limits(max_wall_seconds=1e-12))


def test_limits_that_are_not_reached_change_nothing() -> None:
    whole = simulate_network(long_network())
    wide = Limits(max_cycles=whole.cycles, max_steps=whole.engine_steps + 1, max_wall_seconds=1e9)
    result = simulate_network(long_network(), limits=wide)
    assert result.status == "ok"
    assert result.units.equals(whole.units)
    assert result.fifos.equals(whole.fifos)


def test_at_a_limit_nobody_asks_who_waits_for_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of units wait then, and the diagnosis names none of them."""

    def waits(*args: object) -> None:
        raise AssertionError("waits of a unit")

    monkeypatch.setattr("stepsim.simulation.outcome.diagnose._State.waits", waits)
    stopped(Limits(max_steps=100))


def test_units_that_ended_before_the_limit_are_counted() -> None:
    whole = simulate_moe()
    result = simulate_moe(limits=Limits(max_steps=whole.engine_steps - 1))
    assert result.diagnosis is not None
    ended = sum(state == "done" for state in result.units["state"].to_pylist())
    count = result.units.num_rows
    assert 0 < ended < count
    assert f"{ended} of {count} units have ended" in result.diagnosis.summary


@pytest.mark.parametrize("name", ["max_cycles", "max_steps", "max_wall_seconds"])
@pytest.mark.parametrize("value", [0, -1])
def test_limits_are_positive(name: str, value: int) -> None:
    with pytest.raises(ArgError) as caught:
        Limits(**{name: value})
    kind = "finite" if name == "max_wall_seconds" else "whole"
    assert str(caught.value) == f"limit {name} is {value}; expected a positive {kind} number"


@pytest.mark.usefixtures("short_pauses")
def test_heartbeats_of_a_program() -> None:
    beats: list[Progress] = []
    result = simulate_moe(progress=beats.append)
    assert len(beats) >= 5
    steps = [beat.steps for beat in beats]
    assert steps == sorted(set(steps))
    assert steps[-1] <= result.engine_steps
    cycles = [beat.cycle for beat in beats]
    assert cycles == sorted(cycles)
    assert 0 < cycles[-1] <= result.cycles
    fractions = [beat.fraction for beat in beats if beat.fraction is not None]
    assert len(fractions) == len(beats)
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] < fractions[-1] <= 1
    assert all(beat.steps_per_second > 0 for beat in beats)
    assert beats[-1].eta_seconds is not None
    assert beats[-1].eta_seconds >= 0


@pytest.mark.usefixtures("short_pauses")
def test_heartbeats_of_a_network_have_no_yardstick() -> None:
    beats: list[Progress] = []
    simulate_network(long_network(), progress=beats.append)
    assert beats
    assert {(beat.fraction, beat.eta_seconds) for beat in beats} == {(None, None)}


def test_pauses_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = sys.modules[run_image.__module__]
    whole = simulate_moe("dynamic")
    for pause in (1, 7, 1000):
        monkeypatch.setattr(module, "execute", partial(execute, pause_steps=pause))
        paused = simulate_moe("dynamic")
        assert paused.units.equals(whole.units)
        assert paused.fifos.equals(whole.fifos)
        assert paused.engine_steps == whole.engine_steps


@pytest.mark.usefixtures("short_pauses")
def test_an_exception_of_the_callback_reaches_the_caller() -> None:
    def stop(beat: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_moe(progress=stop)
