"""Arguments that name one thing in several places, and what a run cannot hold."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError, LoweringError, MachineError
from stepsim.graph import fn
from stepsim.kernels import driver
from stepsim.kernels.layout import SLOT
from stepsim.simulation import prepare


def small(depth: int | None = 2) -> st.Program:
    with st.Program("small", compute_bw=8, fifo_depth=depth) as program:
        st.linear_store(st.linear_load(st.spec(16, 8), (4, 8)).map(fn.silu))
    return program


@pytest.mark.parametrize(
    ("call", "machine", "program", "expected"),
    [
        (3, 64, 2, (3, "call")), (None, 64, 2, (64, "machine")), (None, None, 2, (2, "program")),
        (None, None, None, (1024, "default")), (None, 64, None, (64, "machine")),
    ],
)  # fmt: skip
def test_the_first_who_states_a_depth_decides(
    call: int | None, machine: int | None, program: int | None, expected: tuple[int, str]
) -> None:
    target = st.load_machine("sda-1024", {"fifo.depth": machine})
    result = st.simulate(small(program), machine=target, fifo_depth=call)
    found = result.provenance
    assert (found["fifo_depth"], found["fifo_depth_from"]) == expected
    assert set(result.fifos["depth"].to_pylist()) == {expected[0]}


def test_the_depth_of_a_stream_comes_first() -> None:
    with st.Program(compute_bw=8) as program:
        st.linear_store(st.linear_load(st.spec(16, 8), (4, 8)).with_depth(5))
    machine = st.load_machine("sda-1024", {"fifo.depth": 64})
    result = st.simulate(program, machine=machine, fifo_depth=3)
    assert result.fifos["depth"].to_pylist() == [5]


@pytest.mark.slow
def test_a_given_depth_of_a_workload_is_not_that_of_the_machine() -> None:
    data = st.workloads.Data.of(routing=[list(range(8))] * 4)
    machine = st.load_machine("sda-1024", {"fifo.depth": 64})
    common: dict[str, Any] = {"model": "qwen3-30b-a3b", "tile": 4, "machine": machine}
    given = st.simulation.make_case("moe", data, fifo_depth=3, **common)
    assert stated(given, data) == (3, "call")
    assert stated(st.simulation.make_case("moe", data, **common), data) == (64, "machine")
    common["machine"] = "sda-1024"
    assert stated(st.simulation.make_case("moe", data, **common), data) == (2, "program")
    given = st.simulation.make_case("moe", data, fifo_depth=2, **common)
    assert stated(given, data) == (2, "call")


def stated(case: Any, data: st.workloads.Data) -> tuple[int, str]:
    """The depth of a run, and who stated it."""
    found = case.result(data, limits=st.Limits(max_steps=1)).provenance
    return found["fifo_depth"], found["fifo_depth_from"]


@pytest.mark.parametrize("interval", [2, 3, 1000, 1_000_000])
@pytest.mark.parametrize("channels", [1, 32])
def test_no_run_uses_more_than_the_memory_has(interval: int, channels: int) -> None:
    machine = st.load_machine(
        "sda-1024", {"hbm.interval": interval, "hbm.channels": channels, "hbm.latency": 0}
    )
    with st.Program(par_dispatch=64) as program:
        st.linear_load(st.spec(64, 512), (64, 512)).consume()
    used = st.simulate(program, machine=machine).bandwidth_utilization
    assert used is not None
    assert 0 < used <= 1


def test_a_long_run_uses_the_mean_bandwidth() -> None:
    result = st.simulate(small())
    assert result.bandwidth_utilization == pytest.approx(
        result.offchip_bytes / result.cycles / result.peak_bandwidth, rel=2 / result.cycles
    )


def test_memories_of_their_own_have_no_peak() -> None:
    machine = st.load_machine("sda-1024", {"hbm.model": "uncontended"})
    assert st.simulate(small(), machine=machine).bandwidth_utilization is None


@pytest.mark.parametrize("counting", ["executed", "published", "paper"])
def test_a_case_on_memories_of_their_own_has_no_peak(counting: str) -> None:
    data = st.workloads.Data.of(kv_lengths=[3])
    machine = st.load_machine("sda-1024", {"hbm.model": "uncontended", "hbm.interval": 100_000})
    case = st.simulation.make_case(
        "attention", data, model="qwen3-30b-a3b-step", machine=machine, counting=counting
    )
    found = case.measures(case.run(data), data)
    assert found["bandwidth_utilization"] is None
    assert 0 < found["compute_utilization"] <= 1


@pytest.mark.parametrize("name", ["max_cycles", "max_steps", "max_wall_seconds"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0, -1, True, "1", [1]])
def test_limits_that_limit_nothing(name: str, value: Any) -> None:
    with pytest.raises(ArgError, match=f"limit {name} is "):
        st.Limits(**{name: value})


@pytest.mark.parametrize("seconds", [10**400, Fraction(1, 10**400)], ids=["large", "small"])
def test_seconds_that_are_no_float(seconds: Any) -> None:
    with pytest.raises(ArgError, match=r"limit max_wall_seconds is .*positive finite number"):
        st.Limits(max_wall_seconds=seconds)


def test_overrides_are_a_mapping_of_texts() -> None:
    with pytest.raises(MachineError, match="expected a mapping such as"):
        st.load_machine("sda-1024", [("fifo.depth", 4)])  # type: ignore[arg-type]
    with pytest.raises(MachineError, match=r"a key is a text such as .*found 3"):
        st.load_machine("sda-1024", {3: 4})  # type: ignore[dict-item]


def test_a_routing_that_nobody_reads_needs_no_indices() -> None:
    with st.Program() as program:
        st.routing(st.spec(4, 2), 8)
        st.linear_load(st.spec(4, 8), (4, 8)).consume()
    result = st.simulate(program)
    assert result.status == "ok"
    assert result.provenance["bindings"] == {}


def test_tokens_that_do_not_fit_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "free_bytes", lambda: 1e6)
    said = r"program 'buffers': the tokens .*do not fit the memory.*Buffer fewer tiles"
    with pytest.raises(LoweringError, match=said) as caught:
        st.simulate(buffers(100_000))
    found = re.search(r"GiB for ([\d,]+) tokens, 0.0 GiB are free", str(caught.value))
    assert found is not None
    # What was needed and not there, not what would have been convenient.
    assert 1e6 / SLOT.itemsize < int(found[1].replace(",", "")) < 2e6 / SLOT.itemsize


def test_tokens_that_just_fit_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    program = prepare(buffers(1_000))
    done = program.execute()
    used = int(done.execution.globals.arena_top)
    monkeypatch.setattr(driver, "free_bytes", lambda: used * SLOT.itemsize)
    assert program.run().cycles == done.totals.cycles
    monkeypatch.setattr(driver, "free_bytes", lambda: used * SLOT.itemsize - 1)
    with pytest.raises(LoweringError, match=f"GiB for {used:,} tokens"):
        program.run()


def buffers(tiles: int) -> st.Program:
    with st.Program("buffers", fifo_depth=None) as program:
        one = st.linear_load(st.spec(4, 8), (4, 8)).repeat(tiles)
        one.bufferize(1).streamify().consume()
    return program
