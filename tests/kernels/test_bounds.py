"""No kernel asks for an entry that an array of the run does not have.

Compiled code would find other memory there, and numpy the end of the array; so kernels run as plain
Python here, on arrays that refuse. The networks are those of the tests of what kernels compute.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from stepsim.kernels import driver
from stepsim.kernels.calendar import pop_unit
from stepsim.kernels.catalog import KINDS
from stepsim.kernels.driver import state_of
from stepsim.kernels.layout import State
from stepsim.kernels.memory import dispatch, published, table
from stepsim.kernels.recording import recorded
from stepsim.kernels.recording.recorded import Journal
from stepsim.lowering import Network, TimingParams, build_image
from tests.engine_backend import run_engine
from tests.kernels import memory_harness
from tests.kernels.test_cases import CASES, EXAMPLES
from tests.kernels.test_memory import (
    Traffic,
    on_kernel,
    per_cycle,
    ports,
    ports_only,
    small_rooms,
    timings,
)
from tests.kernels.test_records import FUSED, joined
from tests.kernels.watched_arrays import OutsideError, WatchedEntry, spread, watched
from tests.oracle.build import NetBuilder
from tests.oracle.cases import load_case
from tests.oracle.compare import assert_same
from tests.oracle.example import Example, tile_tokens
from tests.oracle.interpreter import interpret
from tests.oracle.random_chips import chip_networks, on_chips
from tests.oracle.random_networks import (
    faulty_function_networks,
    faulty_networks,
    function_networks,
    random_networks,
    routed_networks,
    scan_networks,
)
from tests.oracle.random_places import placed, placed_networks
from tests.property_profile import profile
from tests.samples import sampled


@pytest.fixture(autouse=True, scope="module")
def kernels_on_watched_arrays() -> Iterator[None]:
    def memory_state(image: Any, arena: int) -> State:
        state = state_of(image, arena)
        is_published = state.globals[0].memory_model == dispatch.code_of("published")
        made: State = watched(spread(state) if is_published else state)
        return made

    with pytest.MonkeyPatch.context() as patch:
        engine_of = driver.engine_of
        patch.setattr(driver, "engine_of", lambda *what: WatchedEntry(engine_of(*what)))
        patch.setattr(memory_harness, "state_of", memory_state)
        patch.setattr(memory_harness, "_advance", dispatch.advance)
        patch.setattr(memory_harness, "_issue", dispatch.issue)
        patch.setattr(memory_harness, "_pop", pop_unit)
        yield


@pytest.mark.parametrize("path", sampled(CASES, *CASES[::3]), ids=lambda path: path.stem)
def test_random_cases(path: Any) -> None:
    case = load_case(path)
    assert run_engine(case.network).final_clock == case.final_clock


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_worked_example(example: Example) -> None:
    example.check(run_engine)


MAP_OF_THREE = joined(
    "NaryMap", 3, [16, 32, 2, 1], [0, 1, 0, 2], fn=deepcopy(FUSED), bw=64, wb=True
)


BETWEEN = on_chips(
    EXAMPLES[0].network, range(len(EXAMPLES[0].network.units)), topology="ring", chips=64,
    latency=20.0, rate=3.5,
)  # fmt: skip
CARRIED = placed(EXAMPLES[0].network, range(len(EXAMPLES[0].network.units)), rows=4, cols=4)


def _spread() -> Network:
    b = NetBuilder()
    b.unit("source", "Gen", [], ["x"], tokens=tile_tokens([4, 16, 2, 0], [0, 0, 1]))
    b.unit("broadcast", "Broadcast", ["x"], ["a", "b"])
    for name in "ab":
        b.unit(f"sink {name}", "Consumer", [name], [])
    return placed(b.network(), [0, 0, 2, 8], rows=3, cols=3, spread=True)


SPREAD = _spread()


@pytest.mark.parametrize(
    "network",
    [MAP_OF_THREE, CARRIED, SPREAD, BETWEEN],
    ids=["map of three", "carried", "spread", "between chips"],
)
def test_other_units(network: Network) -> None:
    assert run_engine(network).status == "ok"


def test_units_of_every_kind_are_in_examples() -> None:
    networks = [example.network for example in EXAMPLES]
    networks += [load_case(path).network for path in CASES]
    networks += [MAP_OF_THREE, CARRIED, SPREAD, BETWEEN]
    images = [build_image(network) for network in networks]
    found = {int(kind) for image in images for kind in image.units["kind"]}
    assert [kind.name for code, kind in enumerate(KINDS) if code not in found] == []


@pytest.mark.slow
@profile(30, thorough=1500)
@given(
    st.one_of(
        random_networks(max_slack=1), routed_networks(), function_networks(), scan_networks(),
        scan_networks(faulty=True), faulty_function_networks(), faulty_networks(),
        placed_networks(random_networks(max_slack=1)), chip_networks(random_networks(max_slack=1)),
    )
)  # fmt: skip
def test_random_networks(network: Network) -> None:
    assert_same(
        run_engine(network), interpret(network), accounts=True, names=("engine", "interpreter")
    )


@pytest.mark.slow
@profile(20, thorough=500)
@given(st.one_of(random_networks(max_slack=1), routed_networks(), scan_networks()), st.booleans())
def test_recorded_networks(network: Network, paces: bool) -> None:
    """In small pieces of memory, none of which is filled beyond its end."""
    image = build_image(network)
    usual = driver.execute(image)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "engine", WatchedEntry(Journal.engine))
        patch.setattr(recorded, "run_recorded", Journal.engine)
        run = driver.execute(image, journal=Journal(paces=paces, piece=2))
    assert (run.units["clk"] == usual.units["clk"]).all()
    assert run.journal is not None
    assert run.journal.has_paces == paces


@pytest.mark.slow
@profile(15, thorough=500)
@given(st.one_of(random_networks(max_slack=1), routed_networks(), function_networks()))
def test_slots_used_again(network: Network) -> None:
    """Rings and blocks of the arena go round when no token is kept."""
    kept = run_engine(network)
    image = build_image(network)
    reused = driver.execute(image, pause_steps=7)
    assert kept.final_clock == dict(
        zip(image.unit_names, reused.units["clk"].tolist(), strict=True)
    )


@profile(30)
@given(timings(), st.lists(ports, min_size=1, max_size=6), st.integers(0, 2**32), st.booleans())
def test_memory(timing: TimingParams, traffic: list[Traffic], seed: int, small: bool) -> None:
    chance = random.Random(seed)
    with small_rooms(chance) if small else nullcontext():
        found, _ = on_kernel(timing, traffic, lambda now: now + chance.choice([0, 1, 7, 60, 500]))
    assert found == per_cycle(timing, traffic)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["published", "interleaved", "uncontended"])
@pytest.mark.parametrize("channels", [1, 5, 8192])
def test_ports_that_do_not_issue(model: str, channels: int) -> None:
    timing = TimingParams(hbm_channels=channels, memory_model=model)
    silent = memory_harness.MemoryHarness(ports_only(timing, [Traffic(0, 1, (1,))] * 3))
    assert list(silent.completions()) == []
    for requests in (1, 40 * channels):
        harness = memory_harness.MemoryHarness(ports_only(timing, [Traffic(0, 64, (1,))] * 3))
        harness.issue(1, 4, requests)
        ((now, ended),) = harness.completions()
        assert ended == [1]
        assert now >= 4 + requests // 64


def test_late_clocks_do_not_overflow() -> None:
    late = 1 << 60
    for model in ("published", "interleaved"):
        timing = TimingParams(hbm_channels=7, hbm_interval=3, memory_model=model)
        ends = {}
        for start in (0, late):
            traffic = [Traffic(start + 5 * i, 3, (400, 3, 90)) for i in range(4)]
            found, _ = on_kernel(timing, traffic)
            ends[start] = [[clock - start for clock in port] for port in found]
        assert ends[0] == ends[late]


def test_entries_that_are_not_there_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the ends of arrays, of parts of the memory's table, and by what is no number."""
    image = build_image(ports_only(TimingParams(), [Traffic(0, 1, (1,))]))
    state = watched(spread(state_of(image, len(image.slots))))
    words, units = state.memory_table, state.units
    assert units[0].port == 0
    for array, index in [
        (units, -1), (units, len(units)), (units, 0.0), (state.free_at, 32),
        (units, slice(0, len(units) + 1)), (units, slice(-1, 1)), (units, slice(0, 1, 1)),
        (words, words[table.TREE] - 1), (words, words[table.WALK] + words[table.TREE_PORTS] + 1),
        (words, len(words) - 1),
    ]:  # fmt: skip
        with pytest.raises(OutsideError):
            array[index]
        with pytest.raises(OutsideError):
            array[index] = 0
    real = published.segment_of
    monkeypatch.setattr(published, "segment_of", lambda state, s: real(state, 0) - 16 * (s > 0))
    with pytest.raises(OutsideError):
        on_kernel(TimingParams(), [Traffic(0, 1, (300, 5)), Traffic(7, 1, (200, 5))])
