"""Services whose results are known in closed form: queues, saturation, users, Little, caches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from stepsim.reproduce.serving.closed_forms import (
    STEPS,
    closed_forms,
    in_system_ns,
    known_forms,
    queue_arrivals,
    served,
    wave_ns,
)
from stepsim.reproduce.serving.recorded import recorded_runs
from stepsim.reproduce.serving.replay import replay
from stepsim.serving import (
    ArrivalsAtOnce,
    ClosedLoop,
    DrawnArrivals,
    FixedLengths,
    LinearSteps,
    Requests,
    Segments,
    TickingClock,
)
from tests.property_profile import profile
from tests.shared import SERVING_RUNS, TRACES, needs_traces, recorded

MOONCAKE = TRACES / "mooncake_conversation_trace.jsonl"


@needs_traces
@recorded(SERVING_RUNS)
def test_forms_of_the_page() -> None:
    """Queues of one server, saturation, users, and caches on Mooncake's trace."""
    forms = closed_forms(SERVING_RUNS, MOONCAKE)
    assert len(forms) == 13
    for form in forms:
        assert form.ours == form.expected, form.what


def starts_of(requests: Requests, service: NDArray[np.int64]) -> NDArray[np.int64]:
    """When a single server starts each request."""
    starts, end = [], 0
    for arrival, length in zip(requests.arrival_ns.tolist(), service.tolist(), strict=True):
        starts.append(max(arrival, end))
        end = starts[-1] + length
    return np.array(starts, dtype=np.int64)


def interval(waits_ns: NDArray[np.int64], batches: int = 20) -> tuple[float, float]:
    """Mean, and half of its 95 % interval, from the means of batches of consecutive requests."""
    means = waits_ns[: len(waits_ns) // batches * batches].reshape(batches, -1).mean(axis=1)
    return float(means.mean()), 2.093 * float(means.std(ddof=1)) / batches**0.5


@recorded(SERVING_RUNS)
@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("md1", LinearSteps(step_ns=10_000_000)),
        ("mg1", LinearSteps(step_ns=1_000_000, token_ns=10_000)),
    ],
)
def test_waits_of_one_server(name: str, steps: LinearSteps) -> None:
    """Every wait is that of the rule of a single server; by it the mean of all is the formula's."""
    form = known_forms(SERVING_RUNS)[name]
    requests, service = queue_arrivals(SERVING_RUNS, f"{name}.parquet", form["simulated"])
    found = served(requests, steps, max_num_seqs=1)
    starts = starts_of(requests, service)
    assert (found.outcomes.end_ns - service).tolist() == starts.tolist()
    assert len(found.rows) == int(requests.output_tokens.sum())

    requests, service = queue_arrivals(SERVING_RUNS, f"{name}.parquet")
    waits = starts_of(requests, service) - requests.arrival_ns
    assert int(waits.sum()) == form["sum_wait_ns"]
    mean, half = interval(waits)
    assert abs(mean - form["formula_mean_wait_ns"]) <= half


def test_waits_of_drawn_arrivals() -> None:
    """M/D/1 at three loads, from arrivals as the benchmark draws them."""
    step = 10_000_000
    for load in (0.3, 0.6, 0.8):
        given = FixedLengths(40_000, 16, 1).requests()
        drawn = DrawnArrivals(load / step * 1e9, seed=11).arrive(given)
        outcomes = served(drawn, LinearSteps(step_ns=step), max_num_seqs=1).outcomes
        mean, half = interval(outcomes.end_ns - drawn.arrival_ns - step)
        assert half < 0.2 * mean
        assert abs(mean - load * step / (2 * (1 - load))) <= half


def test_saturation() -> None:
    assert wave_ns(64, 16, 100) == 211_478_400
    requests = ArrivalsAtOnce().arrive(FixedLengths(1024, 16, 100).requests())
    found = served(requests, STEPS, clock=TickingClock(), max_num_seqs=64)
    assert found.clock_ns == 1 + 16 * wave_ns(64, 16, 100) == 3_383_654_401
    assert 1024 * 100 / (found.clock_ns / 1e9) == pytest.approx(30_263.137985, rel=1e-9)
    assert len(found.rows) == 16 * 100


@pytest.mark.parametrize(("users", "rounds"), [(1, 3), (7, 5), (64, 4)])
def test_closed_loop(users: int, rounds: int) -> None:
    requests = ClosedLoop(users).arrive(FixedLengths(users * rounds, 16, 100).requests())
    found = served(requests, STEPS, max_num_seqs=users)
    assert found.clock_ns == rounds * wave_ns(users, 16, 100)


def test_users_who_think_leave_the_service_idle() -> None:
    requests = ClosedLoop(3, think_seconds=2.0).arrive(FixedLengths(9, 16, 10).requests())
    found = served(requests, STEPS)
    assert found.clock_ns == 3 * wave_ns(3, 16, 10) + 2 * 2_000_000_000
    outcomes = found.outcomes
    assert outcomes.arrival_ns[3:].tolist() == (outcomes.end_ns[:-3] + 2_000_000_000).tolist()


@recorded(SERVING_RUNS)
@pytest.mark.parametrize("name", ["bench_rtxpro6000_llama8b", "bench_rtx4090_llama8b"])
def test_identities_of_recorded_runs(name: str) -> None:
    (case,) = (one for one in recorded_runs(SERVING_RUNS) if one.name == name)
    form = known_forms(SERVING_RUNS)[f"identities_{name}"]
    found = replay(case)
    outcomes, rows = found.outcomes, found.rows
    latency = outcomes.end_ns - outcomes.arrival_ns
    assert int(latency.sum()) == form["sum_latency_ns"] == in_system_ns(outcomes)
    assert int(rows["length"].sum()) == form["busy_ns"]
    assert form["busy_ns"] == found.clock_ns - int(outcomes.arrival_ns[0])
    assert int(rows["new"].sum()) == form["scheduled_tokens"]
    first = outcomes.requests.prompt_tokens - outcomes.cached_tokens
    assert int(first.sum()) == form["first_admission_tokens"]
    assert int(outcomes.recomputed_tokens.sum()) == form["recomputed_tokens"]
    assert int(outcomes.generated.sum()) - len(outcomes) == form["decode_tokens"]


REQUESTS = st.lists(
    st.tuples(st.integers(0, 3_000), st.integers(1, 60), st.integers(1, 20), st.integers(0, 3)),
    min_size=1,
    max_size=25,
)


# The longest request needs 20 blocks, and one of the pool of vLLM is reserved.
@profile(100)
@given(REQUESTS, st.sampled_from(["vllm", "recorded"]), st.booleans(), st.integers(21, 40))
def test_tokens_blocks_and_time_are_conserved(
    drawn: list[tuple[int, int, int, int]], pool: str, caching: bool, blocks: int
) -> None:
    drawn.sort()
    arrival, prompt, output, text = (np.array(column) for column in zip(*drawn, strict=True))
    count = len(drawn)
    # Prompts of one of four texts; outputs differ.
    segments = np.stack([text, 4 + np.arange(count)], axis=1).ravel()
    tokens = np.stack([prompt, output], axis=1).ravel()
    requests = Requests.of(
        prompt, output, arrival_ns=arrival * 1_000_000,
        prefix=Segments(2 * np.arange(count + 1), segments, tokens),
    )  # fmt: skip
    found = served(
        requests, STEPS, block_size=4, num_blocks=blocks, max_num_batched_tokens=64,
        max_num_seqs=8, pool=pool, enable_prefix_caching=caching,
    )  # fmt: skip
    outcomes, rows, end = found.outcomes, found.rows, found.clock_ns
    latency = outcomes.end_ns - outcomes.arrival_ns
    assert in_system_ns(outcomes) == int(latency.sum())
    # Tokens: every one is computed once, but for those found and those computed again.
    assert outcomes.generated.tolist() == output.tolist()
    assert int(rows["emitted"].sum()) == int(output.sum())
    assert int(rows["cached"].sum()) == int(outcomes.all_cached_tokens.sum())
    if not outcomes.preemptions.any():
        computed = prompt - outcomes.cached_tokens + output - 1
        assert int(rows["new"].sum()) == int(computed.sum())
    assert caching or not outcomes.all_cached_tokens.any()
    # Blocks: all of them are free in the end.
    assert int(rows["free_blocks"].min()) >= 0
    # Time: steps do not overlap, and idle time ends with an arrival.
    start, length = rows["start"], rows["length"]
    idle = start[1:] - (start[:-1] + length[:-1])
    assert (idle >= 0).all()
    assert np.isin(start[1:][idle > 0], requests.arrival_ns).all()
    assert end == int(start[-1] + length[-1]) == int(outcomes.end_ns.max())
    assert int(rows["finished"].sum()) == int(rows["admitted"].sum()) - int(rows["preempted"].sum())
    # Order: no token before the first one, none before the arrival.
    stamps, begin = outcomes.token_ns, outcomes.token_begin
    for r in range(count):
        own = stamps[begin[r] : begin[r + 1]]
        assert (np.diff(own) > 0).all()
        assert own[0] == outcomes.first_token_ns[r] > outcomes.scheduled_ns[r]
        assert outcomes.scheduled_ns[r] >= outcomes.arrival_ns[r]
        assert own[-1] == outcomes.end_ns[r]
