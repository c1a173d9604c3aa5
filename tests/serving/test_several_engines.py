"""Several engines on the same requests: replicas, and prompts apart from the rest."""

from __future__ import annotations

import heapq
import random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError
from stepsim.kernels import ServiceStatus
from stepsim.serving import Engine, LinearSteps, Outcomes, Requests, SchedulerSettings
from tests.property_profile import profile

_TIME = LinearSteps(step_ns=10, token_ns=1)
_NOBODY = np.zeros(0, np.int64)


def _outcomes(requests: Requests, **settings: int) -> Outcomes:
    defaults = {"num_blocks": 200, "block_size": 4, "max_num_batched_tokens": 64, "max_num_seqs": 8}
    return Outcomes(requests, SchedulerSettings(**defaults | settings).completed())


def _engine(outcomes: Outcomes, **more: bool) -> Engine:
    return Engine(outcomes, time=_TIME.compiled(), due=_NOBODY, **more)


def _random_requests(seed: int) -> Requests:
    rng = random.Random(seed)
    count = rng.randint(1, 30)
    return Requests.of(
        [rng.randint(1, 40) for _ in range(count)], [rng.randint(1, 20) for _ in range(count)],
        arrival_ns=sorted(rng.randrange(600) for _ in range(count)),
    )  # fmt: skip


@given(seed=st.integers(0, 1 << 40))
@profile(30)
def test_a_router_may_decide_at_every_arrival(seed: int) -> None:
    """Replicas that go on from arrival to arrival end as those that know all from the start."""
    requests = _random_requests(seed)
    routed, known = _outcomes(requests), _outcomes(requests)
    engines = [_engine(routed) for _ in range(3)]
    for r, arrival in enumerate(requests.arrival_ns.tolist()):
        for engine in engines:
            assert engine.run(arrival) == ServiceStatus.UNTIL
        engines[r % 3].push(r)
    for number, engine in enumerate(engines):
        assert engine.run() == ServiceStatus.DONE
        due = np.arange(number, len(requests), 3)
        Engine(known, time=_TIME.compiled(), due=due).run()
    assert np.array_equal(routed.token_ns, known.token_ns)
    assert np.array_equal(routed.end_ns, known.end_ns)


@given(seed=st.integers(0, 1 << 40))
@profile(30)
def test_prompts_may_be_computed_elsewhere(seed: int) -> None:
    """Tokens after the first come from another engine, which never computes a prompt."""
    requests, link = _random_requests(seed), 25
    outcomes = _outcomes(requests)
    outcomes.hold_back(1)
    prefill = Engine(outcomes, time=_TIME.compiled(), stops_at_finish=True)
    decode = _engine(outcomes)
    coming: list[tuple[int, int]] = []
    while prefill.run() == ServiceStatus.FINISHED:
        for r in prefill.finished.tolist():
            if requests.output_tokens[r] > 1:
                heapq.heappush(coming, (int(outcomes.end_ns[r]) + link, r))
    while coming:
        arrival, r = heapq.heappop(coming)
        outcomes.hand_over(r, arrival)
        decode.push(r)
    assert decode.run() == ServiceStatus.DONE
    assert np.array_equal(outcomes.generated, requests.output_tokens)
    assert prefill.take_rows()["emitted"].sum() == len(requests)
    rows = decode.take_rows()
    assert rows["new"].sum() == rows["emitted"].sum() == (requests.output_tokens - 1).sum()
    second = outcomes.token_begin[:-1] + 1
    more = requests.output_tokens > 1
    waits = outcomes.token_ns[second[more]] - outcomes.first_token_ns[more]
    assert (waits >= link + 11).all()


def test_what_came_with_a_request_is_lost_with_its_blocks() -> None:
    # Two requests of 8 tokens that grow to 16 each, and only 6 blocks of 4.
    requests = Requests.of([8, 8], [8, 8])
    outcomes = _outcomes(requests, num_blocks=7)
    outcomes.hold_back(1)
    Engine(outcomes, time=_TIME.compiled()).run()
    for r in range(2):
        outcomes.hand_over(r, 1000)
    decode = Engine(outcomes, time=_TIME.compiled(), due=np.arange(2))
    assert decode.run() == ServiceStatus.DONE
    assert outcomes.preemptions.tolist() == [0, 1]
    lost = int(outcomes.recomputed_tokens[1])
    assert lost > 8
    assert decode.take_rows()["new"].sum() == 14 + lost - 1


def test_a_request_is_handed_over_once() -> None:
    outcomes = _outcomes(Requests.of([8], [8]))
    outcomes.hold_back(1)
    with pytest.raises(ArgError, match="hand_over: request 0"):
        outcomes.hand_over(0, 5)
    Engine(outcomes, time=_TIME.compiled()).run()
    outcomes.hand_over(0, 5)
    with pytest.raises(ArgError, match="hand_over: request 0"):
        outcomes.hand_over(0, 5)
