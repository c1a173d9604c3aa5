"""Metrics of a served load beyond the recorded cases: ns, SLOs and their texts."""

from __future__ import annotations

import numpy as np
import pytest

from stepsim.errors import ArgError
from stepsim.serving import RequestTimes, Slo, benchmark_metrics, read_slo


def times_of(gaps: list[list[int]], *, start: list[int], ttft: list[int]) -> RequestTimes:
    """Requests of one prompt token, whose gaps are in ns."""
    return RequestTimes.from_ns(
        start_ns=start,
        ttft_ns=ttft,
        gap_ns=[gap for one in gaps for gap in one],
        gaps_from=np.cumsum([0, *map(len, gaps)]),
        prompt_tokens=[1] * len(gaps),
        output_tokens=[len(one) + 1 for one in gaps],
    )


def test_percentiles_are_interpolated() -> None:
    """The example of the definitions: p50 and p99 of 1, 2, 4, 8."""
    millisecond = 1_000_000
    times = times_of([[]] * 4, start=[0] * 4, ttft=[n * millisecond for n in (8, 1, 4, 2)])
    ttft = benchmark_metrics(times, 1.0, percentiles=[50, 99]).ttft
    assert ttft.median_ms == pytest.approx(3)
    assert ttft.percentiles_ms == pytest.approx({50: 3, 99: 7.88})
    assert ttft.std_ms == pytest.approx(np.std([1, 2, 4, 8]))


def test_requests_of_one_token_have_no_time_per_output_token_and_meet_its_limit() -> None:
    times = times_of([[], [3_000_000, 5_000_000]], start=[0, 0], ttft=[10, 10])
    found = benchmark_metrics(times, 2.0, slo=Slo(tpot_ms=4))
    assert found.tpot.mean_ms == pytest.approx(4)
    assert found.goodput == pytest.approx(1)
    assert found.good_share == 1
    assert benchmark_metrics(times, 2.0, slo=Slo(tpot_ms=3.9)).good_share == 0.5


def test_failed_requests_lower_the_good_share() -> None:
    times = RequestTimes.from_ns(
        start_ns=[0, 0],
        ttft_ns=[10, 10],
        gap_ns=[],
        gaps_from=[0, 0, 0],
        prompt_tokens=[1, 1],
        output_tokens=[1, 1],
        success=[True, False],
    )
    found = benchmark_metrics(times, 1.0, slo=Slo(ttft_ms=1))
    assert (found.completed, found.failed, found.good_share) == (1, 1, 0.5)


@pytest.mark.parametrize("long", [True, False])
def test_chunks_are_added_up_request_by_request(long: bool) -> None:
    """Both ways to add give the same, to the last bit."""
    rng = np.random.default_rng(7)
    counts = np.array([40, 1, 0] if long else [3, 0, 2, 5, 1, 1, 4, 2])
    starts, ttfts = rng.random(len(counts)), rng.random(len(counts))
    gaps = rng.random(counts.sum())
    times = RequestTimes(
        start_s=starts,
        ttft_s=ttfts,
        latency_s=ttfts,
        gap_s=gaps,
        gaps_from=np.concatenate([[0], np.cumsum(counts)]),
        prompt_tokens=counts + 1,
        output_tokens=counts + 1,
        success=np.ones(len(counts), bool),
    )
    expected, left = [], iter(gaps.tolist())
    for start, ttft, count in zip(starts.tolist(), ttfts.tolist(), counts.tolist(), strict=True):
        now = start + ttft
        expected.append(now)
        for _ in range(count):
            now += next(left)
            expected.append(now)
    assert times.chunk_s().tolist() == expected


def test_without_requests_all_is_zero() -> None:
    found = benchmark_metrics(times_of([], start=[], ttft=[]), 1.0, slo=Slo(ttft_ms=1))
    assert found.e2el.percentiles_ms == dict.fromkeys((50.0, 90.0, 95.0, 99.0), 0.0)
    assert (found.peak_output_tokens_per_s, found.peak_concurrency, found.goodput) == (0, 0, 0)


def test_an_slo_is_read() -> None:
    assert read_slo("ttft=1s, tpot=50ms,share=0.95") == Slo(1000.0, 50.0, share=0.95)
    assert read_slo("e2el=.5s") == Slo(e2el_ms=500.0)
    assert read_slo(str(Slo(0.25, e2el_ms=1e6))) == Slo(0.25, e2el_ms=1e6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ttft=1,tpot=50ms", "ttft=1 has no unit; write ttft=1s for 1000 ms, or ttft=1ms"),
        ("tpot=0.05", "write tpot=0.05s for 50 ms, or tpot=0.05ms"),
        ("ttft=1min", "ttft=1min is in 'min', expected ms or s"),
        ("ttf=1s", "'ttf' is not known, expected ttft, tpot, e2el or share"),
        ("ttft=1s,ttft=2s", "ttft occurs twice"),
        ("ttft", "'ttft' is not a name and a number"),
        ("ttft=-1s", "is not a name and a number"),
        ("ttft=0s", "ttft is 0.0 ms, expected a limit above 0"),
        ("share=0.9", "there is no limit"),
        ("ttft=1s,share=2", "share is 2.0, expected the part of requests"),
        ("ttft=1s,share=99%", "share is '99%', expected a number without a unit"),
    ],
)
def test_a_wrong_slo_is_named(text: str, message: str) -> None:
    with pytest.raises(ArgError) as error:
        read_slo(text)
    assert message in str(error.value)


def test_a_duration_and_percentiles_are_checked() -> None:
    times = times_of([[]], start=[0], ttft=[1])
    with pytest.raises(ArgError, match="duration_s is 0"):
        benchmark_metrics(times, 0.0)
    with pytest.raises(ArgError, match="percentiles has 101"):
        benchmark_metrics(times, 1.0, percentiles=[101])
