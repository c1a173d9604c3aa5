"""Continuous batching: against a rule-by-rule reference, and the accounts that must balance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError, TraceError
from stepsim.trace_io import RequestTrace, load_requests, replay, replay_rows, replay_schema
from tests.property_profile import profile


def reference(trace, batch, step_seconds):
    """The rule in words, one request at a time."""
    arrival = trace.arrival_seconds if step_seconds else [0.0] * len(trace)
    waiting = [i for i in range(len(trace)) if trace.generated_tokens[i] > 0]
    active: list[list[int]] = []  # [request, length, steps left]
    now, steps = 0.0, []
    while waiting or active:
        if not active and arrival[waiting[0]] > now:
            now = arrival[waiting[0]]
        while waiting and len(active) < batch and arrival[waiting[0]] <= now:
            i = waiting.pop(0)
            active.append([i, int(trace.context_tokens[i]), int(trace.generated_tokens[i])])
        steps.append((now, [entry[0] for entry in active], [entry[1] for entry in active]))
        now += step_seconds or 0.0
        active = [[i, length + 1, left - 1] for i, length, left in active if left > 1]
    return steps


def request_traces():
    request = st.tuples(st.integers(0, 50), st.integers(0, 6), st.sampled_from([0, 0.5, 1, 7]))
    return st.lists(request, min_size=1, max_size=15).map(
        lambda rows: RequestTrace(
            np.array([row[0] for row in rows]),
            np.array([row[1] for row in rows]),
            np.cumsum([row[2] for row in rows]),
        )
    )


@profile(75)
@given(request_traces(), st.integers(1, 5), st.sampled_from([None, 0.25, 1.0]))
def test_the_rule(trace, batch, step_seconds):
    found = list(replay(trace, batch, step_seconds=step_seconds))
    assert [
        (step.seconds, step.requests.tolist(), step.kv_lengths.tolist()) for step in found
    ] == reference(trace, batch, step_seconds)
    assert [step.step for step in found] == list(range(len(found)))


def test_by_hand():
    trace = RequestTrace(np.array([10, 20, 30]), np.array([3, 1, 2]), np.array([0, 0, 0.1]))
    steps = list(replay(trace, 2))
    assert [step.kv_lengths.tolist() for step in steps] == [[10, 20], [11, 30], [12, 31]]
    assert [step.requests.tolist() for step in steps] == [[0, 1], [0, 2], [0, 2]]
    late = list(replay(trace, 2, step_seconds=0.06))
    assert [step.kv_lengths.tolist() for step in late] == [[10, 20], [11], [12, 30], [31]]
    assert [round(step.seconds, 2) for step in late] == [0, 0.06, 0.12, 0.18]


def test_the_azure_trace_balances(recorded_traces: Path):
    trace = load_requests(recorded_traces / "AzureLLMInferenceTrace_conv.csv").window(1, 2000)
    tokens = growth = 0
    for step in replay(trace, 64, step_seconds=0.03):
        assert 1 <= len(step.requests) <= 64
        tokens += len(step.requests)
        growth += int(step.kv_lengths.sum())
    generated = trace.generated_tokens
    assert tokens == generated.sum()
    # Each request adds context, context + 1, ... over its steps.
    expected = trace.context_tokens * generated + generated * (generated - 1) // 2
    assert growth == expected.sum()


def test_steps_as_arrow_rows():
    trace = RequestTrace(np.array([10, 20]), np.array([2, 1]))
    table = replay_rows(list(replay(trace, 2)))
    table.validate(full=True)
    assert table.schema.equals(replay_schema(), check_metadata=True)
    assert table.to_pylist() == [
        {"step": 0, "seconds": 0.0, "requests": [0, 1], "kv_lengths": [10, 20]},
        {"step": 1, "seconds": 0.0, "requests": [0], "kv_lengths": [11]},
    ]
    assert table.schema.metadata[b"stepsim.schema"] == b"decode-steps"


def test_what_a_replay_needs():
    trace = RequestTrace(np.array([10]), np.array([2]))
    with pytest.raises(ArgError, match="batch is 0, expected at least 1 request"):
        replay(trace, 0)
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ArgError, match="expected seconds above 0"):
            replay(trace, 1, step_seconds=seconds)
    with pytest.raises(TraceError, match="array: has no `generated_tokens`, expected how long"):
        replay(RequestTrace(np.array([10])), 1)
    with pytest.raises(TraceError, match="array: has no `arrival_seconds`, expected times"):
        replay(trace, 1, step_seconds=0.1)
