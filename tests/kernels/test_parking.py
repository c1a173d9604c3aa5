"""Producers that park at full FIFOs: what is kept for them, and where it may be left out."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from stepsim.errors import LoweringError
from stepsim.kernels import Parks, RunState
from stepsim.kernels.batch.driver import execute_batch
from stepsim.kernels.driver import execute
from stepsim.lowering import Network, TimingParams, build_image
from tests.engine_backend import run_engine, to_result
from tests.kernels.test_cases import CASES
from tests.kernels.test_many_inputs import merging, reassembling
from tests.oracle.build import NetBuilder
from tests.oracle.cases import load_case
from tests.oracle.compare import assert_same
from tests.oracle.example import tile_tokens
from tests.oracle.interpreter import interpret
from tests.oracle.random_networks import straight_networks
from tests.oracle.worked_examples import freed_by_a_failure, parked_producer
from tests.property_profile import profile


def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often runs begin again for want of changes of pace."""
    from stepsim.kernels import driver

    made, times = driver.working, []

    def counted(*arguments: Any, **options: Any) -> Any:
        times.append(options.get("asked", 0))
        return made(*arguments, **options)

    monkeypatch.setattr(driver, "working", counted)
    return times


@pytest.fixture
def few_paces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs remember one change of the pace of a unit, so that they ask for more."""
    monkeypatch.setattr("stepsim.kernels.driver._PACES", 1)
    monkeypatch.setattr("stepsim.kernels.driver._MORE_PACES", 2)


@pytest.mark.usefixtures("few_paces")
def test_cases_that_keep_few_changes_of_pace_are_the_same() -> None:
    for path in CASES:
        case = load_case(path)
        result = run_engine(case.network)
        assert result.cycles == case.cycles, path.stem
        assert result.final_pace == case.final_pace, path.stem
        assert result.final_clock == case.final_clock, path.stem


ASKING = [reassembling(3, 561), merging(6, 578), reassembling(5, 745), merging(8, 594)]


@pytest.mark.parametrize("network", ASKING)
@pytest.mark.usefixtures("few_paces")
def test_runs_that_ask_twice_agree_with_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, network: Network
) -> None:
    times = asked(monkeypatch)
    result = run_engine(network)
    assert [one.paces for one in times] == [0, 1, 2]
    assert_same(result, interpret(network), names=("engine", "interpreter"))


@pytest.mark.parametrize("network", ASKING)
@pytest.mark.usefixtures("few_paces")
def test_batches_that_ask_twice_agree_with_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, network: Network
) -> None:
    from stepsim.kernels.batch import driver

    keep, times = driver.keep_more_paces, []

    def keep_more(units: Any, channels: Any, g: Any, asked: int) -> Any:
        times.append(asked)
        return keep(units, channels, g, asked)

    monkeypatch.setattr(driver, "keep_more_paces", keep_more)
    totals = execute_batch(
        build_image(network), np.zeros(0, np.int64), np.zeros((3, 0), np.int64),
        on_stop=lambda run, execution: None,  # a unit of one of the networks fails
        on_error=lambda run, error: pytest.fail(f"run {run}: {error}"),
    )  # fmt: skip
    assert totals.totals["cycles"].tolist() == [interpret(network).cycles] * 3
    assert times == [1, 2]  # runs after the first keep what that one asked for


def test_a_run_without_room_leaves_the_others_of_its_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from stepsim.kernels import driver

    monkeypatch.setattr(driver, "_PACES", 1)
    monkeypatch.setattr(driver, "free_bytes", lambda: 64)
    errors: list[tuple[int, Exception]] = []
    totals = execute_batch(
        build_image(ASKING[0]), np.zeros(0, np.int64), np.zeros((3, 0), np.int64),
        on_stop=lambda run, execution: pytest.fail(f"run {run} stopped"),
        on_error=lambda run, error: errors.append((run, error)),
    )  # fmt: skip
    assert [run for run, _ in errors] == [0, 1, 2]
    assert all(isinstance(error, LoweringError) for _, error in errors)
    assert totals.totals["cycles"].tolist() == [0] * 3


@pytest.mark.usefixtures("few_paces")
def test_a_limit_of_time_at_a_restart_keeps_what_was_simulated() -> None:
    done = execute(build_image(ASKING[1]), max_wall_seconds=0.0, pause_steps=10**9)
    assert done.timed_out
    assert done.units["clk"].max() > 0


def test_what_a_returned_consumer_freed_does_not_depend_on_host_order() -> None:
    # `append` fails at a clock beyond that of `added`, which is parked at it.
    network = freed_by_a_failure()
    expected = interpret(network)
    for number in range(40):
        units = list(network.units)
        random.Random(number).shuffle(units)
        shuffled = replace(network, units=tuple(units))
        assert_same(interpret(shuffled), expected, names=("shuffled", "interpreter"))
    assert_same(run_engine(network), expected, names=("engine", "interpreter"))


_REREADS: dict[str, tuple[dict[str, Any], list[int], list[int], int]] = {
    "RepeatStatic": ({"f": 2}, [3, 13, 19], [], 5),
    "Streamify": ({"rank": 1, "repeat": [2]}, [3, 13, 19], [], 5),
    "StaticStreamify": ({"rank": 1, "repeat": [2]}, [3, 13, 19], [], 5),
    "DynStreamify": ({"rank": 1, "rr": 0}, [2, 6, 19], [6, 9, 13, 18, 19, 19, 21, 29, 30], 2),
}
"""Parameters, times of the data and of the references, cycles that a copy is held for."""


@pytest.mark.parametrize("op", _REREADS)
def test_the_work_of_a_unit_that_is_stepped_again_is_seen_when_its_next_primitive_ends(
    op: str,
) -> None:
    given, times, references, held = _REREADS[op]
    b = NetBuilder(TimingParams(model="step-2026") if op == "RepeatStatic" else None, 2)
    b.channel("copies", 3 if references else 1)
    level = {"RepeatStatic": 0, "DynStreamify": 2}.get(op, 1)
    tokens = tile_tokens([1, 1, 2, 0], [level] * len(times))
    b.unit("source", "At", [], ["data"], tokens=tokens, times=times, tail=0)
    inputs = ["data"]
    if op != "RepeatStatic":
        b.unit("buffer", "Bufferize", ["data"], ["buffers"], rank=1)
        inputs = ["buffers"]
    if references:
        tokens = tile_tokens([1, 1, 2, 0], [0, 0, 1] * len(times))
        b.unit("reference", "At", [], ["reference"], tokens=tokens, times=references, tail=0)
        inputs.append("reference")
    b.unit("copy", op, inputs, ["copies"], **given)
    b.unit("sink", "Hold", ["copies"], [], n=held)
    network = b.network()
    expected = interpret(network)
    assert expected.status == "ok"
    assert_same(run_engine(network), expected, names=("engine", "interpreter"))


def test_room_for_changes_of_pace_is_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from stepsim.kernels import driver

    monkeypatch.setattr(driver, "_PACES", 1)
    monkeypatch.setattr(driver, "free_bytes", lambda: 64)
    with pytest.raises(LoweringError, match=r"changes of pace .* do not fit .* free memory"):
        run_engine(ASKING[0])


@profile(150)
@given(straight_networks())
def test_clocks_are_the_same_where_no_producer_parks(network: Network) -> None:
    image, exact = build_image(network), build_image(network, always_park=True)
    assert not image.channels["parks"].any()
    usual, parked = execute(image, history=True), execute(exact, history=True)
    one, other = to_result(image, usual), to_result(exact, parked)
    for result in (one, other):  # paces may differ, and decide nothing
        result.final_pace.clear()
        for tokens in result.tokens.values():
            tokens[:] = [token[:3] for token in tokens]  # type: ignore[misc]
    assert_same(one, other, accounts=True, names=("as needed", "always"))


def test_programs_without_arrivals_and_early_ends_do_not_park() -> None:
    b = NetBuilder()
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens([16, 16, 2, 0], [0, 0, 1]))
    b.unit("map", "UnaryMap", ["a"], ["b"], fn="Silu", bw=1, wb=False)
    b.unit("sink", "Consumer", ["b"], [])
    image = build_image(b.network())
    assert not image.channels["parks"].any()
    assert (
        build_image(b.network(), always_park=True).channels["parks"].tolist() == [Parks.TAKES] * 2
    )


def test_a_run_that_fails_begins_again_with_producers_that_park(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    b = NetBuilder(capacity=1)
    first = tile_tokens([16, 16, 2, 0], [0, 0, 1])
    b.unit("one", "Gen", [], ["a"], tokens=first)
    b.unit("two", "Gen", [], ["b"], tokens=tile_tokens([16, 16, 2, 0], [0, 1, 1]))
    b.unit("pair", "Zip", ["a", "b"], ["c"])
    b.unit("sink", "Consumer", ["c"], [])
    image = build_image(b.network())
    assert not image.channels["parks"].any()
    times = asked(monkeypatch)
    done = execute(image)
    assert [one.paces for one in times] == [0, 1]
    assert done.state is RunState.FINISHED
    assert done.channels["parks"].all()


def test_an_accumulation_that_ends_within_a_group_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    b = NetBuilder()
    tokens = tile_tokens([1, 1, 2, 0], [1, 0, 0, 1, 0, 0, 1])
    b.channel("a", 6)
    b.channel("b", 4)
    b.unit("source", "Gen", [], ["a"], tokens=tokens)
    b.unit("last", "Promote", ["a"], ["b"], p=0)
    rule = {"fn": "SignalReqAllRead", "bw": 0, "wb": False, "init": [1, 1], "bpe": 8}
    b.unit("all", "Accum", ["b"], ["c"], rank=2, **rule)
    b.unit("more", "Accum", ["c"], ["d"], rank=1, **rule)
    b.unit("sink", "Consumer", ["d"], [])
    image = build_image(b.network())
    assert not image.channels["parks"].any()
    times = asked(monkeypatch)
    found = to_result(image, execute(image, history=True))
    assert [one.paces for one in times] == [0, 1]
    assert_same(found, interpret(b.network()), names=("engine", "interpreter"))


def test_what_probes_a_fifo_is_in_its_record() -> None:
    network = parked_producer().network
    parks = build_image(network).channels["parks"].tolist()
    names = [channel.name for channel in network.channels]
    probed = [name for name, park in zip(names, parks, strict=True) if park == Parks.PROBES]
    assert sorted(probed) == ["x", "z"]
