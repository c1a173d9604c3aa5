"""The critical path: its segments account for every cycle, and each of them is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as hs

import stepsim.graph as st
from stepsim.explain.path import CriticalPath, critical_path, path_of
from stepsim.explain.walk import CAUSES
from stepsim.graph import Program
from stepsim.lowering import Network, TimingParams, build_image
from stepsim.simulation import ImageRun, Limits, prepare
from stepsim.simulation.running.image_run import run_image
from stepsim.simulation.running.lone_access import lone_access
from tests.kernels.test_cases import CASES, EXAMPLES
from tests.oracle.build import NetBuilder
from tests.oracle.cases import load_case
from tests.oracle.example import Example
from tests.oracle.random_networks import (
    faulty_networks,
    function_networks,
    random_networks,
    routed_networks,
    scan_networks,
)
from tests.property_profile import profile
from tests.simulation.drawn_programs import drawn_programs

NETWORKS = hs.one_of(
    random_networks(max_slack=1), random_networks(max_slack=4), routed_networks(),
    function_networks(), scan_networks(), faulty_networks(),
)  # fmt: skip

MEMORY = ("hbm latency", "hbm transfer", "hbm queue")


def rows_of(path: CriticalPath) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = path.segments.to_pylist()
    return rows


def assert_whole(path: CriticalPath) -> None:
    """The segments follow each other from 0 to the last cycle."""
    time = 0
    for row in rows_of(path):
        assert row["begin"] == time
        assert row["cycles"] == row["end"] - row["begin"] > 0
        assert row["cause"] in CAUSES
        time = row["end"]
    assert time == path.cycles
    for by in (("operator", "cause"), ("cause",), ("op",)):
        assert (pc.sum(path.totals(by)["cycles"]).as_py() or 0) == path.cycles


def assert_true(run: ImageRun, path: CriticalPath, slack: int) -> None:
    """What a segment says of a token or a slot is what the run kept of it."""
    image, units, channels = run.image, run.execution.units, run.execution.channels
    fifos = {name: c for c, name in enumerate(image.channel_names)}
    numbers = {name: u for u, name in enumerate(image.unit_names)}
    works: dict[int, int] = {}
    for row in rows_of(path):
        unit = numbers[row["operator"]]
        assert row["op"] == image.unit_ops[unit]
        if row["cause"] == "work":
            works[unit] = works.get(unit, 0) + row["cycles"]
        if row["fifo"] is None:
            continue
        fifo = fifos[row["fifo"]]
        tokens = run.tokens(fifo)
        taken = tokens[: channels["removed"][fifo]]
        match row["cause"]:
            case "fifo hop":
                assert unit == channels["producer"][fifo]
                if slack < 2:
                    assert row["end"] in tokens["stamp"] or row["end"] in tokens["pub"]
            case "order":
                assert unit == channels["producer"][fifo]
                # The head was published, or the clock came to where its producer had parked.
                assert row["end"] in tokens["pub"] or row["end"] in tokens["stamp"]
            case "emission":
                assert unit == channels["producer"][fifo]
                assert row["end"] in tokens["stamp"]
                assert row["cycles"] > 1
            case "slot hop":
                assert unit == channels["consumer"][fifo]
                if slack < 2:
                    assert row["end"] in taken["rel"] or row["end"] in taken["hrel"]
            case "closure":
                assert unit == channels["producer"][fifo]
                assert channels["closed"][fifo]
            case "network" | "link wait":
                assert image.unit_ops[unit] in ("ReceivePacket", "ReceiveMessage")
                assert unit == channels["producer"][fifo]
                assert (row["link"] is None) == (row["cause"] == "network")
            case cause:
                raise AssertionError(f"{cause} has a FIFO")
    for unit, cycles in works.items():
        assert cycles <= units["busy"][unit]


def recorded(network: Network, **limits: int) -> ImageRun:
    image = build_image(network)
    return run_image(image, network.timing, limits=Limits(**limits), keep=True, record="paces")


def check(network: Network) -> CriticalPath:
    run = recorded(network)
    path = path_of(run, network.timing)
    assert path.cycles == run.totals.cycles
    assert path.status == run.totals.status
    assert_whole(path)
    assert_true(run, path, network.timing.closure_slack)
    return path


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_random_cases(path: Any) -> None:
    check(load_case(path).network)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_worked_examples(example: Example) -> None:
    check(example.network)


@pytest.mark.slow
@profile(100)
@given(NETWORKS)
def test_segments_add_up_in_random_networks(network: Network) -> None:
    check(network)


def check_program(program: Program) -> None:
    prepared = prepare(program)
    run = prepared.execute(keep_tokens=True, record="paces")
    path = path_of(run, prepared.timing)
    assert path.cycles == run.totals.cycles
    assert_whole(path)
    assert_true(run, path, 0)


@profile(50)
@given(drawn_programs())
def test_segments_add_up_in_random_programs(program: Program) -> None:
    check_program(program)


@profile(40)
@given(NETWORKS, hs.integers(1, 200))
def test_runs_that_end_at_a_limit(network: Network, most: int) -> None:
    run = recorded(network, max_cycles=most)
    path = path_of(run, network.timing)
    assert path.cycles == run.totals.cycles
    assert_whole(path)


def test_the_lone_access_is_that_of_the_specification() -> None:
    """timing-memory.md, E1: finishes 26, 50, 20 and 19, and of 8 channels 27."""
    published = TimingParams()
    assert lone_access(published, 32, 4) == 26
    assert lone_access(published, 32, 1) == 50
    assert lone_access(published, 5, 4) == 20
    assert lone_access(published, 1, 1) == 19
    assert lone_access(TimingParams(hbm_channels=8), 32, 4) == 27


def test_two_readers_share_the_memory() -> None:
    """E3: two readers of two tiles end at 54, where one alone ends at 52."""
    b = NetBuilder(capacity=4)
    for name in ("a", "b"):
        b.unit(name, "OffChipLoad", [], [f"{name}.out"], tile=[16, 64], view=[2], par=4, bpe=2)
        b.unit(f"{name}.end", "Consumer", [f"{name}.out"], [])
    path = check(b.network())
    assert path.cycles == 57
    causes = {row["cause"]: row["cycles"] for row in path.totals("cause").to_pylist()}
    assert causes == {"hbm latency": 38, "hbm transfer": 14, "hbm queue": 2, "memory tail": 3}
    assert {row["op"] for row in rows_of(path)} == {"OffChipLoad"}


def test_a_slow_consumer_is_the_path() -> None:
    b = NetBuilder(capacity=1)
    tile = {"tile": [1, 1, 2, 0, 1], "level": 0}
    b.unit("source", "Gen", [], ["x"], tokens=[tile] * 10)
    b.unit("end", "Hold", ["x"], [], n=7)
    path = check(b.network())
    assert rows_of(path)[0]["operator"] == "source"
    end = [row for row in path.totals().to_pylist() if row["operator"] == "end"]
    assert sum(row["cycles"] for row in end if row["cause"] == "work") == 70


def test_no_operator_is_no_path() -> None:
    path = check(Network((), ()))
    assert path.cycles == 0
    assert path.segments.num_rows == 0
    assert path.totals().num_rows == 0
    assert path.folded().startswith("critical path of 0 cycles, 0 segments")


def looped(depth: int) -> Program:
    with st.Program(fifo_depth=depth) as program:
        x = st.linear_load(np.ones((64, 16), np.float32), (16, 16))
        st.linear_store(st.map(st.fn.silu, x, compute_bw=16))
    return program


def test_of_a_prepared_program() -> None:
    prepared = prepare(looped(2))
    path = critical_path(prepared)
    assert path.cycles == prepared.run().cycles
    assert_whole(path)
    assert "hbm" in str(path)
    stopped = critical_path(prepared, limits=Limits(max_cycles=100))
    assert stopped.status == "limit"
    assert "the run ended with limit" in stopped.folded()


def test_a_run_without_paces_is_refused() -> None:
    prepared = prepare(looped(2))
    for record in (False, True):
        with pytest.raises(ValueError, match="record='paces'"):
            path_of(prepared.execute(record=record), prepared.timing)


def test_a_long_path_is_a_loop() -> None:
    with Program("long", compute_bw=8) as program:
        x = st.linear_load(st.spec(4, 4), (4, 4)).flatten(0, 1)
        x.repeat(2**14).flatten(0, 1).consume()
    found = critical_path(program)
    assert found.segments.num_rows > 2**14
    assert f"{2**13 - 2} x (" in found.folded()
