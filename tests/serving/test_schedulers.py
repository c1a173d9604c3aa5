"""The compiled schedulers against plain ones, step by step, and laws that hold in every run."""

from __future__ import annotations

import random
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.kernels import ServiceStatus
from stepsim.serving import CompiledScheduler, Decisions, Engine
from tests.oracle.service import Case, random_case, served
from tests.property_profile import profile
from tests.serving.random_services import engine_of, requests_of, rules_of, time_of

_MOST = 400
_STATUS = {"done": ServiceStatus.DONE, "stuck": ServiceStatus.STUCK, "limit": ServiceStatus.FULL}


def _case(scheduler: str, seed: int) -> Case:
    return random_case(random.Random(seed), scheduler)


@pytest.mark.parametrize("scheduler", ["vllm", "static", "orca", "sarathi"])
@given(seed=st.integers(0, 1 << 40))
@profile(75)
def test_every_step_is_that_of_the_plain_scheduler(scheduler: str, seed: int) -> None:
    case = _case(scheduler, seed)
    engine = engine_of(case, time_of(case).compiled())
    _compare(case, engine, engine.run(most_steps=_MOST))


@given(seed=st.integers(0, 1 << 40))
@profile(30)
def test_times_from_outside_give_the_same(seed: int) -> None:
    case = _case("vllm", seed)
    time, engine = time_of(case), engine_of(case, None)
    while (status := engine.run(most_steps=_MOST)) == ServiceStatus.NEEDS_TIME:
        engine.go_on(time.time(engine.steps, engine.batch).ns)
    _compare(case, engine, status)


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 40), data=st.data())
@profile(30)
def test_pauses_change_nothing(seed: int, data: st.DataObject) -> None:
    case = _case("vllm", seed)
    engine = engine_of(case, time_of(case).compiled())
    until = 0
    for _ in range(50):
        until += data.draw(st.integers(1, 500))
        if engine.run(until, most_steps=_MOST) == ServiceStatus.FULL:
            break
        assert not engine.steps or engine.take_rows()["start"].max(initial=0) < until
    _compare(case, engine, engine.run(most_steps=_MOST))


def _compare(case: Case, engine: Engine, status: ServiceStatus) -> None:
    expected = served(case, _MOST)
    log = engine.take_log()
    if expected == "stuck":
        log = log[:-1]  # the step in which nothing could run
    assert log == [Decisions(**asdict(step)) for step in case.steps]
    assert status == _STATUS[expected]
    outcomes = engine.outcomes
    begin = outcomes.token_begin
    for r, request in enumerate(case.requests):
        times = outcomes.token_ns[begin[r] : begin[r] + outcomes.generated[r]].tolist()
        assert times == request.times
        assert outcomes.end_ns[r] == (-1 if request.end is None else request.end)
        assert outcomes.first_token_ns[r] == (request.times[0] if request.times else -1)
        assert outcomes.preemptions[r] == request.preemptions
        assert outcomes.cached_tokens[r] == (request.cached or [0])[0]
        assert outcomes.all_cached_tokens[r] == sum(request.cached)


@pytest.mark.parametrize("scheduler", ["vllm", "static", "orca", "sarathi"])
@given(seed=st.integers(0, 1 << 40))
@profile(30)
def test_tokens_blocks_and_time_are_conserved(scheduler: str, seed: int) -> None:
    case = _case(scheduler, seed)
    engine = engine_of(case, time_of(case).compiled())
    if engine.run(most_steps=_MOST) != ServiceStatus.DONE:
        return
    outcomes, rows = engine.outcomes, engine.take_rows()
    requests, rules = outcomes.requests, outcomes.rules
    # Every block is free again, each once.
    first = rules.num_blocks - rules.usable_blocks
    assert sorted(engine.free_order) == list(range(first, rules.num_blocks))
    # Without preemption every token is computed once, or found.
    if not outcomes.preemptions.any():
        lengths = requests.prompt_tokens + outcomes.generated - 1
        assert rows["new"].sum() == lengths.sum() - outcomes.cached_tokens.sum()
    assert rows["emitted"].sum() == outcomes.generated.sum()
    # Little's law: what steps and the time between them see of requests is what these see of time.
    assert (np.diff(rows["start"]) >= rows["length"][:-1]).all()
    end, arrival = outcomes.end_ns, outcomes.arrival_ns
    instants = np.unique(np.concatenate([arrival, end]))
    inside = (arrival[:, None] <= instants[:-1]) & (end[:, None] > instants[:-1])
    assert (inside.sum(axis=0) * np.diff(instants)).sum() == (end - arrival).sum()


@given(seed=st.integers(0, 1 << 40))
@profile(30)
def test_the_interface_gives_the_same_steps(seed: int) -> None:
    """A loop in Python over the interface decides what the compiled loop does."""
    case = _case("vllm", seed)
    case.host, case.tick = 0, 1
    time = time_of(case)
    compiled = engine_of(case, time.compiled())
    if compiled.run(most_steps=_MOST) != ServiceStatus.DONE:
        return
    log = [step for step in compiled.take_log() if step.granted]
    requests = requests_of(case)
    coming = [(r.arrival, r.number) for r in case.requests if r.after < 0]
    scheduler = CompiledScheduler(requests, rules_of(case.rules))
    now, found = coming[0][0], []
    while coming or scheduler.running or scheduler.waiting:
        for one in sorted(coming):
            if one[0] <= now:
                coming.remove(one)
                scheduler.arrive(one[1])
        batch = scheduler.schedule(now)
        if not len(batch.request):
            now = min(coming)[0]
            continue
        entries = list(zip(batch.request.tolist(), batch.new.tolist(), strict=True))
        start, now = now, now + time.time(len(found), batch).ns
        finished = scheduler.complete(now).tolist()
        for r in case.requests:
            if r.after in finished:
                coming.append((max(r.arrival, now + r.think), r.number))
        found.append((start, entries, finished, scheduler.free_blocks))
    expected = [(s.start, s.granted, s.finished, s.free_blocks_after) for s in log]
    assert found == expected
