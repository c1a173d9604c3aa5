"""A bound of the requests of a port that are under way, ``hbm.port.outstanding``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import LoweringError, MachineError
from stepsim.kernels import CAN_BE_BOUNDED, MEMORY_MODELS
from stepsim.kernels.memory import dispatch
from stepsim.kernels.memory.declaration import MemoryModel, MemoryTable
from stepsim.lowering import TimingParams, build_image, timing_of
from tests.engine_backend import run_engine
from tests.kernels.test_memory import Traffic, ports_only
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import interpret

MODELS = pytest.mark.parametrize("model", CAN_BE_BOUNDED)


def machine(model: str, outstanding: int | None, **others: int) -> st.Machine:
    keys = {"hbm.model": model, "hbm.port.outstanding": outstanding}
    return st.load_machine("sda-1024", keys | {f"hbm.{k}": v for k, v in others.items()})


def loads(par_dispatch: int = 8) -> st.Program:
    """Four loads, each of four tiles of 64 requests."""
    with st.Program("loads", compute_bw=1 << 20, par_dispatch=par_dispatch) as program:
        for number in range(4):
            x = st.linear_load(st.spec(64, 64, dtype="f32"), tile=(16, 64), label=f"load {number}")
            x.map(st.fn.silu).consume()
    return program


def one_access(requests: int, par_dispatch: int) -> st.Program:
    with st.Program("one", par_dispatch=par_dispatch) as program:
        st.linear_load(st.spec(requests, 16, dtype="f32"), tile=(requests, 16)).consume()
    return program


@pytest.mark.slow
@MODELS
def test_one_request_at_a_time_takes_the_whole_way(model: str) -> None:
    """The next one is accepted in the cycle after the response: a start, the delay, and a cycle."""
    program, n = one_access(10, 4), 10
    each = 1 + 16 + 1
    first = st.simulate(program, machine(model, 1)).cycles
    assert first - st.simulate(one_access(1, 4), machine(model, 1)).cycles == (n - 1) * each


@pytest.mark.slow
@MODELS
def test_a_bound_gives_turns(model: str) -> None:
    """Of 5 requests at 2 per cycle: 2, 2 and 1; then what came back first makes room for 2."""
    cycles = [st.simulate(one_access(n, 2), machine(model, 5)).cycles for n in range(1, 12)]
    turn = 18
    accepted = [0, 0, 1, 1, 2, turn, turn, turn + 1, turn + 1, turn + 2, 2 * turn]
    assert [c - cycles[0] for c in cycles] == accepted


@pytest.mark.slow
@MODELS
def test_the_bound_holds(model: str) -> None:
    """Accesses of a port follow each other, so that it moves 8 requests in a turn."""
    cycles = st.simulate(loads(), machine(model, 8)).cycles
    assert cycles >= 4 * (64 // 8 * 18) > st.simulate(loads(), machine(model, None)).cycles


@pytest.mark.slow
@MODELS
def test_requests_alone_are_not_queued(model: str) -> None:
    """What an access waits for under the bound is its own: the timeline counts none as queued."""
    run = st.simulate(one_access(200, 8), machine(model, 8), record=True)
    assert run.timeline(1)["queued_requests"].to_pylist() == [pytest.approx(0)]


@pytest.mark.slow
def test_why_names_the_bound() -> None:
    """Twice the requests under way are what gains most, and no suggestion without a bound."""
    found = st.why(loads(), machine("interleaved", 4))
    assert found.verdict.kind == "hbm_latency"
    first = found.suggestions[0]
    assert first.change.apply == "--set hbm.port.outstanding=8"
    assert first.cycles == st.simulate(loads(), machine("interleaved", 8)).cycles
    unbounded = st.what_if(loads(), machine("interleaved", None))
    assert not [name for name in unbounded.table["change"].to_pylist() if "outstanding" in name]


@pytest.mark.slow
@MODELS
def test_a_bound_that_is_never_reached_changes_nothing(model: str) -> None:
    for program in (loads(), loads(1)):
        free = st.simulate(program, machine(model, None))
        wide = st.simulate(program, machine(model, 4096))
        assert wide.cycles == free.cycles
        assert wide.units.equals(free.units)


@pytest.mark.slow
@MODELS
def test_more_requests_under_way_never_take_longer_alone(model: str) -> None:
    program = one_access(200, 3)
    cycles = [st.simulate(program, machine(model, n)).cycles for n in (1, 2, 3, 5, 8, 40, 99, None)]
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[-2] == cycles[-1]


@pytest.mark.slow
@MODELS
def test_many_requests_as_in_the_interpreter(model: str) -> None:
    """Ports of different bundles that begin at once, with few channels."""
    traffic = [Traffic(0, 1 + 3 * i, (1,)) for i in range(6)]
    timing = TimingParams(hbm_channels=5, hbm_interval=3, memory_model=model)
    plain = ports_only(timing, traffic)
    units = tuple(
        unit._replace(params={**unit.params, "tile": [97, 4], "view": [3]})
        if unit.op == "OffChipLoad" else unit
        for unit in plain.units
    )  # fmt: skip
    found = []
    for outstanding in (1, 3, 4, 50, None):
        network = replace(plain, units=units, timing=replace(timing, outstanding=outstanding))
        ran = run_engine(network)
        assert_same(ran, interpret(network))
        found.append(ran.cycles)
    # With contention, fewer requests under way may end sooner; not so few as one.
    assert found[0] > found[-1]


@pytest.mark.slow
def test_batches_and_other_machines() -> None:
    prepared = st.prepare(loads(), machine("interleaved", 8))
    alone = [st.simulate(loads(), machine("interleaved", n)).cycles for n in (8, 16, None)]
    changed = [prepared.changed(machine=machine("interleaved", n)) for n in (8, 16, None)]
    assert [one.execute().totals.cycles for one in changed] == alone
    assert len(set(alone)) == 3


def test_images_with_other_bounds_differ() -> None:
    network = ports_only(TimingParams(), [Traffic(0, 1, (1,))])
    digests = {
        build_image(replace(network, timing=replace(TimingParams(), outstanding=n))).digest()
        for n in (None, 1, 2)
    }
    assert len(digests) == 3


def test_models_of_packages_get_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their engine is their own, and the table says how many requests may be under way."""
    of_plugin = MemoryModel("of-a-plugin", "", kernels=MEMORY_MODELS["uncontended"].kernels)
    of_plugin.bounded_table(
        lambda channels, bundles, outstanding: MemoryTable(
            np.array([channels, *bundles, outstanding], np.int64)
        )
    )
    monkeypatch.setitem(dispatch.MEMORY_MODELS, "of-a-plugin", of_plugin)  # type: ignore[arg-type]
    timing = timing_of(machine("of-a-plugin", 8, channels=4))
    assert (timing.engine_model, timing.window) == ("of-a-plugin", None)
    network = ports_only(timing, [Traffic(0, 3, (1,))])
    assert build_image(network).memory_table.tolist() == [4, 3, 8]
    free = ports_only(timing_of(machine("of-a-plugin", None)), [Traffic(0, 3, (1,))])
    assert build_image(free).memory_table.tolist() == [0]


def test_models_that_take_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    of_plugin = MemoryModel("of-a-plugin", "", kernels=MEMORY_MODELS["uncontended"].kernels)
    monkeypatch.setitem(dispatch.MEMORY_MODELS, "of-a-plugin", of_plugin)  # type: ignore[arg-type]
    with pytest.raises(MachineError) as refused:
        st.simulate(loads(), machine("of-a-plugin", 8))
    assert str(refused.value) == (
        "machine 'sda-1024': hbm.port.outstanding is 8, but hbm.model 'of-a-plugin' takes no "
        "bound; interleaved, published, uncontended and dram do. Remove it, or set one of these "
        "models"
    )
    timing = TimingParams(memory_model="of-a-plugin", outstanding=8)
    with pytest.raises(LoweringError, match=r"takes no bound of the requests under way"):
        build_image(ports_only(timing, [Traffic(0, 1, (1,))]))


def test_it_is_no_model_of_machines() -> None:
    with pytest.raises(MachineError, match=r"hbm\.model is 'bounded', expected one of"):
        st.simulate(loads(), machine("bounded", None))
