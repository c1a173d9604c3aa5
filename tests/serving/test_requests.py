"""Requests: their checks, arrivals, drawn lengths, and sources by name."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.errors import ArgError, TraceError
from stepsim.serving import (
    ArrivalsAtOnce,
    ClosedLoop,
    DrawnArrivals,
    FixedLengths,
    LognormalLengths,
    RampUpArrivals,
    RandomLengths,
    RecordedArrivals,
    Requests,
    ResampledLengths,
    SessionFile,
    TokenFile,
    TraceRequests,
    request_source,
    request_sources,
    requests_of,
)
from stepsim.trace_io import RequestTrace


def some(count: int, **fields: Any) -> Requests:
    return Requests.of(np.full(count, 10), np.full(count, 4), **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"arrival_ns": [3, 2]}, "request 1: arrival_ns is 2, expected ns from 0 on in the order"),
        ({"arrival_ns": [-1, 2]}, "request 0: arrival_ns is -1"),
        ({"after": [-1, 1]}, "request 1: after is 1, expected the index of an earlier request"),
        ({"think_ns": [0, -5]}, "request 1: think_ns is -5"),
        ({"priority": [1]}, "1 entries of priority, expected one for each of the 2 requests"),
    ],
)
def test_wrong_requests_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgError) as error:
        some(2, **fields)
    assert message in str(error.value)


def test_requests_without_a_prompt_or_an_output_are_named() -> None:
    with pytest.raises(ArgError, match="request 1: prompt_tokens is 0, expected from 1"):
        Requests.of([1, 0], [1, 1])
    with pytest.raises(ArgError, match="request 0: output_tokens is 0"):
        Requests.of([1], [0])
    with pytest.raises(ArgError, match="there are no requests"):
        Requests.of([], [])


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0, float("inf")])
def test_one_seed_gives_the_same_arrivals_at_any_rate(burstiness: float) -> None:
    slow = DrawnArrivals(2.0, burstiness, seed=5).arrive(some(100)).arrival_ns
    fast = DrawnArrivals(8.0, burstiness, seed=5).arrive(some(100)).arrival_ns
    assert np.abs(slow - 4 * fast).max() <= 4
    assert slow[-1] == 50_000_000_000
    if np.isfinite(burstiness):
        other = DrawnArrivals(2.0, burstiness, seed=6).arrive(some(100)).arrival_ns
        assert (other[:-1] != slow[:-1]).any()


def test_recorded_arrivals_are_scaled() -> None:
    given = some(3, arrival_ns=[1000, 2000, 5000])
    assert RecordedArrivals().arrive(given) is given
    assert RecordedArrivals(speedup=4).arrive(given).arrival_ns.tolist() == [250, 500, 1250]
    scaled = RecordedArrivals(rate=1000.0).arrive(given).arrival_ns
    assert scaled.tolist() == [500_000, 1_000_000, 2_500_000]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DrawnArrivals(0.0), "rate is 0.0, expected requests per second above 0"),
        (lambda: DrawnArrivals(float("inf")), "rate is inf"),
        (lambda: DrawnArrivals(1.0, 0.0), "burstiness is 0.0, expected a number above 0"),
        (lambda: DrawnArrivals(1.0, seed=-1), "seed must be an int from 0"),
        (lambda: RecordedArrivals(rate=0.0), "rate is 0.0"),
        (lambda: RecordedArrivals(speedup=-1.0), "speedup is -1.0, expected a factor above 0"),
        (lambda: RecordedArrivals(1.0, 1.0), "both rate and speedup are given"),
        (lambda: RampUpArrivals(0, 4), "first_rate must be an int from 1"),
        (lambda: RampUpArrivals(4, 3), "last_rate is 3, expected at least the first_rate of 4"),
        (lambda: ClosedLoop(0), "users must be an int from 1"),
        (lambda: ClosedLoop(1, -1.0), "think_seconds is -1.0"),
        (lambda: ClosedLoop(4).arrive(some(3)), "there are 4 users for 3 requests of array"),
        (lambda: RecordedArrivals().arrive(some(3)), "array: has no times of arrival"),
        (
            lambda: RecordedArrivals(rate=1.0).arrive(some(2, arrival_ns=[5, 5])),
            "all requests arrive at one time",
        ),
        (lambda: DrawnArrivals(1e-12).arrive(some(3)), "raise the rate"),
        (lambda: RandomLengths(input_len=0), "prompts may have no token"),
        (lambda: RandomLengths(input_range=1.0), "input_range is 1.0, expected the part"),
        (lambda: FixedLengths(3, 0, 1), "prompt_tokens must be an int from 1"),
        (lambda: LognormalLengths(3, 0.5, 1), "prompt_median is 0.5"),
        (lambda: ResampledLengths("t", 0), "count must be an int from 1"),
        (lambda: TraceRequests("t", first=0), "first must be an int from 1"),
        (lambda: request_source("fixd"), "there is no source 'fixd', expected one of trace,"),
    ],
)
def test_wrong_settings_are_named(make: Any, message: str) -> None:
    with pytest.raises(ArgError) as error:
        make()
    assert message in str(error.value)


def test_users_of_a_closed_loop_ask_in_turn() -> None:
    found = ClosedLoop(2, think_seconds=0.5).arrive(some(5))
    assert found.after.tolist() == [-1, -1, 0, 1, 2]
    assert found.think_ns.tolist() == [0, 0] + 3 * [500_000_000]
    assert not found.arrival_ns.any()


def test_users_of_a_closed_loop_hold_whole_sessions() -> None:
    given = some(6, after=[-1, 0, -1, -1, 3, 4], think_ns=[0, 7, 0, 0, 8, 9])
    found = ClosedLoop(1, think_seconds=1e-9).arrive(given)
    assert found.after.tolist() == [-1, 0, 1, 2, 3, 4]
    assert found.think_ns.tolist() == [0, 7, 1, 1, 8, 9]
    assert ClosedLoop(2).arrive(given).after.tolist() == [-1, 0, -1, 1, 3, 4]
    with pytest.raises(ArgError, match="4 users for 3 sessions"):
        ClosedLoop(4).arrive(given)


def test_turns_keep_behind_their_session() -> None:
    given = some(5, after=[-1, 0, -1, 2, -1], think_ns=[0, 7, 0, 7, 0])
    found = DrawnArrivals(1.0).arrive(given)
    first = DrawnArrivals(1.0).arrive(some(3)).arrival_ns
    assert found.arrival_ns.tolist() == first[[0, 0, 1, 1, 2]].tolist()
    assert found.after.tolist() == given.after.tolist()
    assert not ArrivalsAtOnce().arrive(found).arrival_ns.any()


def test_log_normal_lengths_keep_their_order() -> None:
    short = LognormalLengths(500, 100, 50, seed=3).requests()
    long = LognormalLengths(500, 1000, 50, seed=3).requests()
    assert np.median(short.prompt_tokens) == pytest.approx(100, rel=0.2)
    assert np.array_equal(short.output_tokens, long.output_tokens)
    ratio = long.prompt_tokens / short.prompt_tokens
    assert np.median(ratio) == pytest.approx(10, rel=0.02)
    assert LognormalLengths(9, 100, 50, 0.0, longest=60).requests().prompt_tokens.max() == 60
    assert LognormalLengths(9, 1e300, 1, 1e300, longest=60).requests().prompt_tokens.max() == 60


def trace(**fields: Any) -> RequestTrace:
    return RequestTrace(np.array([600, 1024, 1500]), np.array([3, 4, 5]), **fields)


def test_a_trace_becomes_requests() -> None:
    ids = tuple(np.array(one) for one in ([7, 8], [7, 9], [7, 9, 1]))
    given = trace(arrival_seconds=np.array([0.0, 1.5, 1.5]), prefix_hashes=ids)
    found = requests_of(given.window(2, 3), number=1)
    assert found.arrival_ns.tolist() == [0, 0]
    assert found.number.tolist() == [1, 2]
    assert found.prefix is not None
    offsets, labels = found.prefix.blocks(512)
    assert offsets.tolist() == [0, 2, 4]
    assert labels[0] == labels[2] != labels[1] == labels[3]


def test_a_trace_without_generated_tokens_needs_them() -> None:
    given = RequestTrace(np.array([5]), source="some.csv")
    with pytest.raises(TraceError, match=r"some\.csv: has no generated tokens"):
        requests_of(given)
    assert requests_of(given, output_tokens=9).output_tokens.tolist() == [9]
    assert not requests_of(given, output_tokens=9).timed


def test_lengths_are_resampled_in_pairs(tmp_path: Path) -> None:
    path = str(tmp_path / "trace.parquet")
    trace().to_parquet(path)
    found = ResampledLengths(path, 200, seed=1).requests()
    pairs = set(zip(found.prompt_tokens.tolist(), found.output_tokens.tolist(), strict=True))
    assert pairs == {(600, 3), (1024, 4), (1500, 5)}
    assert np.array_equal(found.number, ResampledLengths(path, 200, seed=1).requests().number)
    assert TraceRequests(path, first=2, count=1).requests().prompt_tokens.tolist() == [1024]
    with pytest.raises(ArgError, match="is not within the 3 requests"):
        TraceRequests(path, first=2, count=5).requests()


SESSIONS = """\
{"session": "b", "turn": 0, "new_tokens": 10, "output_tokens": 5, "arrival_seconds": 2}
{"session": "a", "turn": 0, "new_tokens": 20, "output_tokens": 6, "arrival_seconds": 1}
{"session": "a", "turn": 2, "new_tokens": 2, "output_tokens": 1, "think_seconds": 0.5}
{"session": "a", "turn": 1, "new_tokens": 8, "output_tokens": 4, "think_seconds": 3}
"""


def test_sessions_repeat_what_was_said(tmp_path: Path) -> None:
    path = tmp_path / "sessions.jsonl"
    path.write_text(SESSIONS)
    found = SessionFile(str(path)).requests()
    assert found.prompt_tokens.tolist() == [20, 34, 40, 10]
    assert found.output_tokens.tolist() == [6, 4, 1, 5]
    assert found.after.tolist() == [-1, 0, 1, -1]
    assert found.arrival_ns.tolist() == [10**9] * 3 + [2 * 10**9]
    assert found.think_ns.tolist() == [0, 3 * 10**9, 5 * 10**8, 0]
    assert found.number.tolist() == [1, 3, 2, 0]
    assert found.prefix is not None
    offsets, labels = found.prefix.blocks(8)
    own = [labels[a:b].tolist() for a, b in pairwise(offsets)]
    assert [len(one) for one in own] == [3, 4, 5, 1]
    assert own[1][:3] == own[0]
    assert own[2][:4] == own[1]
    assert not set(own[3]) & set(own[2])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"turn": 2', '"turn": 3', "session 'a' has 3 turns but no turn 2"),
        ('"turn": 2', '"turn": 1', "line 4: turn 1 of session 'a' occurs twice"),
        ('"new_tokens": 8', '"new_tokens": 0', "line 4: `new_tokens` is 0, expected a whole"),
        ('"turn": 2,', '"turn": 2, "thnk": 1,', "line 3: has a field `thnk`, expected only"),
        (', "think_seconds": 3', "", "line 4: has no field `think_seconds`"),
        (', "arrival_seconds": 1', "", "session 'a' has no `arrival_seconds`"),
        ('"think_seconds": 3', '"think_seconds": -3', "`think_seconds` is -3, expected seconds"),
        ('"arrival_seconds": 1', '"think_seconds": 1', "`think_seconds`, which only turns after"),
    ],
)
def test_wrong_sessions_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "sessions.jsonl"
    path.write_text(SESSIONS.replace(old, new))
    with pytest.raises(TraceError) as error:
        SessionFile(str(path)).requests()
    assert message in str(error.value)


def test_blocks_follow_from_token_ids(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    path.write_text(
        '{"prompt": [1, 2, 3, 4, 5], "output": [6, 7, 8]}\n'
        '{"prompt": [1, 2, 3, 4, 9, 7], "output_tokens": 4}\n'
        '{"prompt": [3, 4], "output_tokens": 1}\n'
    )
    found = TokenFile(str(path)).requests()
    assert found.prompt_tokens.tolist() == [5, 6, 2]
    assert found.output_tokens.tolist() == [3, 4, 1]
    assert not found.timed
    assert found.prefix is not None
    offsets, labels = found.prefix.blocks(2)
    assert offsets.tolist() == [0, 4, 7, 8]
    assert labels.tolist() == [0, 1, 2, 3, 0, 1, 4, 5]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": [1]}', "line 2: has neither `output` and `output_tokens`"),
        ('{"prompt": [1], "output": [2], "output_tokens": 1}', "has both `output` and"),
        ('{"prompt": [-1], "output": [2]}', "`prompt` is [-1], expected a list of token ids"),
        ('{"prompt": [1], "output": [2], "arrival_seconds": 1}', "only 1 of 2 requests have"),
    ],
)
def test_wrong_token_files_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "tokens.jsonl"
    path.write_text('{"prompt": [1, 2], "output": [3]}\n' + line + "\n")
    with pytest.raises(TraceError) as error:
        TokenFile(str(path)).requests()
    assert message in str(error.value)


def test_all_sources_have_names() -> None:
    assert list(request_sources())[:7] == [
        "trace", "tokens", "sessions", "random", "fixed", "lognormal", "resampled"
    ]  # fmt: skip
    assert len(request_source("fixed")(3, 4, 5).requests()) == 3


def test_files_of_the_page_are_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "serving-requests.md").read_text("utf-8")
    tokens, turns = (block.partition("```")[0] for block in page.split("```json\n")[1:])
    path = tmp_path / "file.jsonl"
    path.write_text(tokens)
    assert TokenFile(str(path)).requests().arrival_ns.tolist() == [250_000_000]
    path.write_text(turns)
    found = SessionFile(str(path)).requests()
    assert found.prompt_tokens.tolist() == [120, 215]
    assert found.think_ns.tolist() == [0, 4_000_000_000]


def test_sources_are_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "serving-requests.md").read_text("utf-8")
    for name, source in list(request_sources().items())[:7]:
        assert f"| `{name}` | `{source.__name__}` |" in page
