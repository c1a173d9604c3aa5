"""The memory model alone: known checksums, and skipping against one loop iteration per cycle."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, strategies as st

from stepsim.kernels.layout import INFINITY
from stepsim.kernels.memory import table
from stepsim.lowering import Network, TimingParams
from tests.engine_backend import run_engine
from tests.kernels.memory_harness import MemoryHarness, run_scenario
from tests.oracle import memory_scenarios
from tests.oracle.build import NetBuilder
from tests.oracle.memory_scenarios import SCENARIOS, Scenario
from tests.property_profile import profile


@pytest.mark.slow  # compiles memory models within this process
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_checksums(scenario: Scenario) -> None:
    scenario.check(*run_scenario(scenario))


@pytest.mark.slow
@pytest.mark.parametrize("channels", [None, 7, 33])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_interleaved_as_in_the_interpreter(scenario: Scenario, channels: int | None) -> None:
    timing = replace(scenario.timing, memory_model="interleaved")
    if channels is not None:
        timing = replace(timing, hbm_channels=channels)
    changed = replace(scenario, timing=timing)
    assert run_scenario(changed) == memory_scenarios.run_scenario(changed)


@dataclass(frozen=True)
class Traffic:
    """A port: clock of its first access, bundle size, requests of each access, pause between."""

    start: int
    bundle: int
    requests: tuple[int, ...]
    gap: int = 0


def ports_only(timing: TimingParams, traffic: list[Traffic]) -> Network:
    b = NetBuilder(timing)
    for i, port in enumerate(traffic):
        b.unit(f"r{i}", "OffChipLoad", [], [f"c{i}"], tile=[1, 1], bpe=2, view=[1], par=port.bundle)
        b.unit(f"end{i}", "Consumer", [f"c{i}"], [])
    return b.network()


def on_kernel(
    timing: TimingParams,
    traffic: list[Traffic],
    cut: Callable[[int], int] = lambda now: INFINITY,
    used: MemoryHarness | None = None,
) -> tuple[list[list[int]], MemoryHarness]:
    """Finish clocks per port, by the engine's kernel; ``used`` is as in :class:`MemoryHarness`."""
    harness = MemoryHarness(ports_only(timing, traffic), used)
    finishes: list[list[int]] = [[] for _ in traffic]
    for i, port in enumerate(traffic):
        harness.issue(i, port.start, port.requests[0])
    for now, ended in harness.completions(cut):
        for i in ended:
            finishes[i].append(now)
            if len(finishes[i]) < len(traffic[i].requests):
                harness.issue(i, now + traffic[i].gap, traffic[i].requests[len(finishes[i])])
    return finishes, harness


def per_cycle(timing: TimingParams, traffic: list[Traffic]) -> list[list[int]]:
    """The same by the definition: one iteration per cycle, one step per request."""
    channels, delay = timing.hbm_channels, max(1, timing.hbm_startup + timing.hbm_latency)
    free = [0] * channels
    begins = [port.start + 1 for port in traffic]
    left = [port.requests[0] for port in traffic]
    last = [0] * len(traffic)
    finishes: list[list[int]] = [[] for _ in traffic]
    interleaved = timing.memory_model == "interleaved"
    position = [p * 2654435769 % 2**32 * channels // 2**32 for p in range(len(traffic))]
    offset = t = 0
    while any(len(f) < len(p.requests) for f, p in zip(finishes, traffic, strict=True)):
        sent = 0
        for i, port in enumerate(traffic):
            if left[i] == 0 or begins[i] > t:
                continue
            for _ in range(min(port.bundle, left[i])):
                walk = position[i] if interleaved else offset + sent * (sent + 1) // 2
                channel = walk % channels
                position[i] += 1
                start = max(free[channel], t + 1)
                free[channel] = start + timing.hbm_interval
                last[i] = max(last[i], start + delay)
                left[i] -= 1
                sent += 1
            if left[i] == 0:
                finishes[i].append(last[i] + 1)
                if len(finishes[i]) < len(port.requests):
                    left[i] = port.requests[len(finishes[i])]
                    begins[i] = last[i] + 1 + port.gap + 1
                    last[i] = 0
        offset = (offset + sent * (sent + 1) // 2) % channels
        t += 1
    return finishes


MODELS = ("published", "interleaved")


@st.composite
def timings(draw: st.DrawFn) -> TimingParams:
    return TimingParams(
        hbm_channels=draw(st.sampled_from([1, 2, 3, 5, 7, 8, 12, 31, 32, 33, 127, 128])),
        hbm_interval=draw(st.integers(1, 5)),
        hbm_latency=draw(st.integers(0, 9)),
        hbm_startup=draw(st.sampled_from([0, 14])),
        memory_model=draw(st.sampled_from(MODELS)),
    )


ports = st.builds(
    Traffic,
    start=st.one_of(st.just(0), st.integers(0, 600)),
    bundle=st.one_of(st.integers(1, 7), st.integers(8, 64)),
    requests=st.lists(
        st.one_of(st.integers(1, 40), st.integers(200, 1500)), min_size=1, max_size=3
    ).map(tuple),
    gap=st.one_of(st.just(0), st.integers(0, 80)),
)


@pytest.mark.slow
@profile(60)
@given(timings(), st.lists(ports, min_size=1, max_size=6), st.integers(0, 2**32), st.booleans())
def test_skipping_periods_changes_nothing(
    timing: TimingParams, traffic: list[Traffic], seed: int, cuts: bool
) -> None:
    chance = random.Random(seed)
    found, _ = on_kernel(
        timing, traffic, (lambda now: now + chance.choice([0, 1, 7, 60, 500])) if cuts else no_cut
    )
    assert found == per_cycle(timing, traffic)


@contextmanager
def small_rooms(chance: random.Random) -> Iterator[None]:
    """Memories that remember little, so that everything in them goes round soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "_SEGMENTS", chance.choice([4, 8, 64]))
        patch.setattr(table, "_LEAST_SLOTS", 4)
        patch.setattr(table, "_CLOCK_WORDS", chance.choice([1, 1 << 16]))
        patch.setattr(table, "_STARTS", chance.choice([1, 1 << 17]))
        patch.setattr(table, "_MAP_WORDS", chance.choice([1, 1 << 14]))
        yield


@profile(30)
@given(timings(), st.lists(ports, min_size=1, max_size=6), st.integers(0, 2**32))
def test_small_rooms_change_nothing(
    timing: TimingParams, traffic: list[Traffic], seed: int
) -> None:
    """Few segments are remembered, and few maps are kept."""
    chance = random.Random(seed)
    with small_rooms(chance):
        found, _ = on_kernel(timing, traffic, lambda now: now + chance.choice([0, 1, 7, 60]))
    assert found == per_cycle(timing, traffic)


@profile(30)
@given(timings(), st.lists(ports, min_size=1, max_size=6), st.integers(0, 2**32), st.booleans())
def test_what_an_earlier_run_left_in_the_cache_changes_nothing(
    timing: TimingParams, traffic: list[Traffic], seed: int, small: bool
) -> None:
    chance = random.Random(seed)
    before = [
        replace(port, start=chance.randint(0, 300), requests=(chance.randint(1, 1500), 30))
        for port in traffic
    ]
    with small_rooms(chance) if small else nullcontext():
        _, used = on_kernel(timing, before)
        found, _ = on_kernel(timing, traffic, used=used)
    assert found == per_cycle(timing, traffic)


def no_cut(now: int) -> int:
    return INFINITY


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("channels", [3, 12, 32])
@pytest.mark.parametrize("interval", [1, 2, 5])
@pytest.mark.parametrize("ports", [1, 4, 9])
def test_long_accesses_are_skipped_over(
    model: str, channels: int, interval: int, ports: int
) -> None:
    timing = TimingParams(hbm_channels=channels, hbm_interval=interval, memory_model=model)
    traffic = [Traffic(17 * i, 1 + i % 3, (2000 + 7 * i, 3001)) for i in range(ports)]
    found, harness = on_kernel(timing, traffic)
    assert found == per_cycle(timing, traffic)
    total = sum(sum(port.requests) for port in traffic)
    assert harness.g.memory_requests == total
    assert harness.g.memory_steps < total / 2


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("interval", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("channels", [2, 3, 5])
def test_a_backlog_that_drains_or_grows(model: str, channels: int, interval: int) -> None:
    """A burst of every size, before or behind one long access: when channels begin to idle."""
    timing = TimingParams(hbm_channels=channels, hbm_interval=interval, memory_model=model)
    for burst in range(1, 24):
        for start, bundle in [(0, 1), (4, 2), (9, 4)]:
            long = Traffic(start, bundle, (11 * channels + burst % 5, 7 * channels))
            traffic = [long, Traffic(3, 6, (burst,)), Traffic(3, 7, (2 * burst, 5))]
            found, _ = on_kernel(timing, traffic)
            assert found == per_cycle(timing, traffic), (burst, long)


@pytest.mark.parametrize("model", MODELS)
def test_how_many_requests_of_short_accesses_are_looked_at(model: str) -> None:
    timing = TimingParams(memory_model=model)
    traffic = [Traffic(0, 1, (20, 20, 20)), Traffic(5, 2, (20, 20))]
    found, harness = on_kernel(timing, traffic)
    assert found == per_cycle(timing, traffic)
    assert harness.g.memory_requests == 100
    if model == "interleaved":
        assert harness.g.memory_steps == 100
    else:  # at least the last request of each of five accesses, and far from all of them
        assert 5 <= harness.g.memory_steps < 50


def test_how_many_requests_of_a_long_access_are_looked_at() -> None:
    """On 32 channels: its last 32, and one and a half rounds until the clocks repeat."""
    timing = TimingParams(memory_model="interleaved")
    for bundle in (1, 2):
        found, harness = on_kernel(timing, [Traffic(0, bundle, (400,))])
        assert found == per_cycle(timing, [Traffic(0, bundle, (400,))])
        assert harness.g.memory_steps == 80


@pytest.mark.parametrize(
    ("interval", "traffic"),
    [
        (1, [Traffic(19, 7, (11, 11, 33)), Traffic(7, 1, (35,)), Traffic(17, 4, (33, 23))]),
        (5, [Traffic(17, 6, (39, 2))]),
    ],
)
def test_requests_wait_for_their_channel(interval: int, traffic: list[Traffic]) -> None:
    """Where requests are looked at one by one, their channel may still be busy."""
    timing = TimingParams(memory_model="published", hbm_interval=interval)
    assert on_kernel(timing, traffic)[0] == per_cycle(timing, traffic)


def lone_load(model: str, rows: int, par: int, tiles: int) -> Network:
    b = NetBuilder(TimingParams(memory_model=model))
    b.unit("load", "OffChipLoad", [], ["x"], tile=[rows, 32], bpe=2, view=[tiles], par=par)
    b.unit("end", "Consumer", ["x"], [])
    return b.network()


@pytest.mark.parametrize("model", ["uncontended", *MODELS])
@pytest.mark.parametrize("par", range(1, 7))
@pytest.mark.parametrize("rows", [1, 5, 32, 100, 1000])
def test_a_lone_port_follows_the_closed_form(model: str, par: int, rows: int) -> None:
    tiles = 3
    result = run_engine(lone_load(model, rows, par, tiles))
    assert result.final_clock["load"] == tiles * (-(-rows // par) + 14 + 2 + 2)


def test_the_uncontended_model_knows_no_neighbours() -> None:
    def crowd(model: str) -> dict[str, int]:
        b = NetBuilder(TimingParams(memory_model=model))
        for i in range(40):
            b.unit(f"load{i}", "OffChipLoad", [], [f"c{i}"], tile=[32, 32], bpe=2, view=[1], par=1)
            b.unit(f"end{i}", "Consumer", [f"c{i}"], [])
        result = run_engine(b.network())
        return {name: clock for name, clock in result.final_clock.items() if "load" in name}

    assert set(crowd("uncontended").values()) == {32 + 18}
    contended = crowd("published")
    assert {contended[f"load{i}"] for i in range(24)} == {97}  # 40 requests per cycle, 16 served
    assert {contended[f"load{i}"] for i in range(24, 32)} == {95}
