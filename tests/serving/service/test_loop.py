"""The loop of a service, against times that are counted by hand."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from stepsim.errors import ServingError
from stepsim.serving.clock import JumpingClock
from stepsim.serving.requests.requests import Requests
from stepsim.serving.service.loop import Limits, run
from stepsim.serving.service.tables import requests_table, steps_of, steps_table, times_of
from tests.serving.service.doubles import OneByOne, PerToken, three

_run = partial(run, steps=PerToken(), clock=JumpingClock())


def test_times_of_three_requests() -> None:
    requests = three()
    ran = _run(requests, OneByOne(requests))
    # 0: 4 + 2 tokens; 160: one token of request 0; then idle until request 2 arrives.
    assert ran.steps.start_ns.tolist() == [0, 160, 500, 630, 740]
    assert ran.steps.length_ns.tolist() == [160, 110, 130, 110, 110]
    assert ran.steps.new_tokens.tolist() == [6, 1, 3, 1, 1]
    assert ran.steps.before_tokens.tolist() == [0, 4, 0, 3, 4]
    assert ran.requests.finish_ns.tolist() == [270, 160, 850]
    assert [ran.requests.tokens_ns[k].tolist() for k in range(3)] == [
        [160, 270], [160], [630, 740, 850]
    ]  # fmt: skip
    assert ran.requests.spans is not None
    assert [ran.requests.spans[k].tolist() for k in range(3)] == [[0, 1], [0, 0], [2, 4]]
    assert (ran.status, ran.end_ns) == ("ok", 850)


def test_time_of_the_host_is_between_steps() -> None:
    requests = three()
    ran = run(requests, OneByOne(requests), PerToken(), JumpingClock(7))
    assert ran.steps.start_ns.tolist() == [0, 167, 500, 637, 754]


def test_a_request_that_follows_another_arrives_after_it() -> None:
    requests = three(after=True)
    ran = _run(requests, OneByOne(requests))
    # Request 0 alone takes 140 and 110 ns; 50 ns later request 1 arrives.
    assert ran.requests.arrival_ns.tolist() == [0, 300, 500]
    assert ran.requests.finish_ns.tolist() == [250, 420, 850]


def test_limit_of_steps_leaves_requests() -> None:
    requests = three()
    ran = _run(requests, OneByOne(requests), limits=Limits(max_steps=2))
    assert ran.status == "limit"
    assert ran.requests.finish_ns.tolist() == [270, 160, -1]
    table = requests_table(requests, ran.requests)
    assert table["finish_ns"].to_pylist() == [270, 160, None]
    assert table["ttft_ns"].to_pylist() == [160, 160, None]


def test_stuck_service_names_the_request() -> None:
    requests = Requests.of([4, 30], [2, 1], source="two.csv")
    with pytest.raises(ServingError, match=r"request 1 of two\.csv, with 30 tokens"):
        _run(requests, OneByOne(requests, blocks=20))


def test_tables_have_the_latencies() -> None:
    requests = three()
    ran = _run(requests, OneByOne(requests))
    table = requests_table(requests, ran.requests)
    assert table["e2el_ns"].to_pylist() == [270, 160, 350]
    assert table["itl_ns"].to_pylist() == [[110], [], [110, 110]]
    assert table["tpot_ns"].to_pylist() == [110.0, None, 110.0]
    assert table["computed_steps"].to_pylist() == [[0, 1], [0, 0], [2, 4]]
    times = times_of(table)
    np.testing.assert_allclose(times.latency_s, [270e-9, 160e-9, 350e-9])


def test_steps_are_read_back() -> None:
    requests = three()
    rows = _run(requests, OneByOne(requests)).steps
    again = steps_of(steps_table([rows]))
    assert again.bound == rows.bound
    assert all(again.time(k) == rows.time(k) for k in range(len(rows)))
