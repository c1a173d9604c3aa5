"""Prompts and outputs on engines of their own: every step is that of a plain program, and laws."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError, StepSimError
from stepsim.serving import (
    JumpingClock,
    Requests,
    ServeResult,
    TickingClock,
    serve,
    why_served,
)
from stepsim.serving.service.apart import Apart
from stepsim.serving.service.split import Split
from tests.oracle.service import random_case
from tests.oracle.split import Join, served_split
from tests.property_profile import profile
from tests.serving.random_services import requests_of, rules_of, time_of

_KV_BYTES = 7
_ROUTERS = ("round-robin", "least-outstanding", "prefix-aware")


class _Asked:
    """Linear steps of which every one is asked for."""

    def __init__(self, linear: Any) -> None:
        self.time = linear.time


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["vllm", "static", "orca", "sarathi"])
@given(seed=st.integers(0, 1 << 40))
@profile(60)
def test_every_step_is_that_of_a_plain_program(scheduler: str, seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng, scheduler)
    bandwidth = rng.choice((None, 10**9, 3 * 10**8, 5 * 10**7))
    latency = rng.choice((0, 1, 40))
    split = Split(rng.randint(1, 3), rng.randint(1, 3), latency, bandwidth)  # type: ignore[arg-type]
    join = Join(
        split.prefill, split.decode, latency,
        Fraction(0) if bandwidth is None else Fraction(_KV_BYTES * 10**9, bandwidth),
        rng.choice(_ROUTERS),
    )  # fmt: skip
    clock = JumpingClock(case.host) if case.tick == 1 else TickingClock(case.tick)
    steps: list[Any] = [
        time_of(case) if rng.random() < 0.5 else _Asked(time_of(case)) for _ in range(split.engines)
    ]
    requests = requests_of(case)
    rules = rules_of(case.rules)
    given: Any = requests, rules, steps, clock, split, _KV_BYTES, join.router
    if (
        rules.blocks_of(requests.prompt_tokens, requests.output_tokens) > rules.usable_blocks
    ).any():
        with pytest.raises(ArgError):
            Apart(*given)
        return
    if rules.max_model_len is not None and (
        rules.usable_blocks * rules.block_size < rules.max_model_len
    ):
        with pytest.raises(ArgError, match="max_model_len"):
            Apart(*given)
        return
    ran = Apart(*given).run()
    expected = served_split(case, join)
    engines = [*expected.prompts.engines, *expected.outputs.engines]
    for rows, one in zip(ran.steps, engines, strict=True):
        columns = (
            rows.start_ns, rows.length_ns, rows.new_tokens, rows.running, rows.waiting,
            rows.free_blocks,
        )  # fmt: skip
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == one.rows
        assert len(one.scheduler.pool.free) == rules_of(case.rules).usable_blocks
    assert ran.sent is not None
    for r in range(len(requests)):
        rest = expected.rest.get(r)
        done = expected.prompt[r] if rest is None else rest
        assert ran.requests.tokens_ns[r].tolist() == done.times
        assert ran.requests.preemptions[r] == done.preemptions
        assert ran.requests.arrival_ns[r] == expected.prompt[r].arrival
        first = expected.prompts.of[r]
        assert ran.engine[r] == (first if rest is None else split.prefill + expected.outputs.of[r])
        sent = (ran.sent.engine[r], ran.sent.wait_ns[r], ran.sent.link_ns[r])
        assert sent == (
            (-1, -1, -1) if rest is None else (first, expected.waits[r], expected.links[r])
        )


_DRAWN: dict[str, Any] = {
    "source": "random:count=40,input_len=45,output_len=10,input_range=0.9,output_range=0.9",
    "rate": 2e5,
}


def _serve(**more: Any) -> ServeResult:
    usual: dict[str, Any] = {
        "num_blocks": 100, "max_num_seqs": 4, "max_num_batched_tokens": 64,
        "steps": "linear:1000,10,1", "model": "tinyllama-1.1b",
        "split": "prefill=2,decode=2,latency=300ns,bandwidth=500GB/s",
    }  # fmt: skip
    return serve(**({} if "trace" in more else _DRAWN) | usual | more)


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 30))
@profile(6)
def test_laws_of_a_split(seed: int) -> None:
    made = _serve(seed=seed, router=_ROUTERS[seed % 3])
    assert not made.metrics["served_preemptions"]
    of = {name: made.requests[name].to_numpy(zero_copy_only=False) for name in (
        "arrival_ns", "finish_ns", "first_token_ns", "e2el_ns", "link_wait_ns", "link_ns",
        "kv_sent_bytes", "replica", "prompt_tokens", "output_tokens", "cached_tokens",
    )}  # fmt: skip
    steps = {name: made.steps[name].to_numpy() for name in ("replica", "new_tokens", "length_ns")}
    sent = of["output_tokens"] > 1
    # Tokens: prompts on engines of prompts, the others on those of outputs.
    on_prompt = steps["replica"] < 2
    computed = of["prompt_tokens"] - of["cached_tokens"]
    assert steps["new_tokens"][on_prompt].sum() == computed.sum()
    assert steps["new_tokens"][~on_prompt].sum() == (of["output_tokens"] - 1).sum()
    assert set(made.requests["prefill_replica"].drop_null().to_pylist()) == {0, 1}
    assert (of["replica"][sent] >= 2).all()
    # The link has one transfer at a time, in the order of first tokens.
    order = np.lexsort((np.arange(len(sent)), of["first_token_ns"]))
    order = order[sent[order]]
    begin = of["first_token_ns"][order] + of["link_wait_ns"][order]
    leave = begin + of["link_ns"][order] - 300
    assert (begin[1:] >= leave[:-1]).all()
    assert (begin[1:] == np.maximum(of["first_token_ns"][order][1:], leave[:-1])).all()
    assert (leave - begin == np.ceil(of["kv_sent_bytes"][order] / 500)).all()
    # Little: the integral of the number in the system is the sum of latencies.
    times = np.concatenate((of["arrival_ns"], of["finish_ns"]))
    change = np.repeat((1, -1), len(sent))
    at = np.argsort(times, kind="stable")
    inside = np.cumsum(change[at])[:-1]
    assert (inside * np.diff(times[at])).sum() == of["e2el_ns"].sum()
    for time in why_served(made).times:
        assert sum(part.ns for part in time.parts) == pytest.approx(time.ns, abs=1e-3)


def test_queues_in_a_row_have_a_closed_form() -> None:
    # One request at a time everywhere: each place is free when the one before has left it.
    draw = np.random.default_rng(3)
    lengths = draw.integers(1, 90, 40), draw.integers(1, 20, 40)
    requests = Requests.of(*lengths, arrival_ns=np.cumsum(draw.integers(0, 9000, 40)))
    made = _serve(
        trace=requests, max_num_seqs=1, num_blocks=20, max_num_batched_tokens=128,
        split={"prefill": 1, "decode": 1, "link": {"latency": "2us", "bandwidth": "5GB/s"}},
    )  # fmt: skip
    kv_bytes, first, link, last = 22 * 4 * 64 * 2 * 2, 0, 0, 0
    for r in range(len(requests)):
        prompt, output = int(requests.prompt_tokens[r]), int(requests.output_tokens[r])
        first = max(first, int(requests.arrival_ns[r])) + 1000 + 10 * prompt
        assert made.requests["first_token_ns"][r].as_py() == first
        if output > 1:
            link = max(link, first) + -(-prompt * kv_bytes // 5)
            context = sum(range(prompt, prompt + output - 1))
            last = max(last, link + 2000) + 1010 * (output - 1) + context
            assert made.requests["finish_ns"][r].as_py() == last


def test_a_link_without_limits_costs_nothing() -> None:
    # Two engines, of which each has the other's work done for it: as one with both at once.
    requests = Requests.of([10, 20], [5, 5], arrival_ns=[0, 100_000])
    made = _serve(trace=requests, split="prefill=1,decode=1,latency=0s,bandwidth=inf")
    alone = _serve(trace=requests, split=None, model=None)
    assert made.requests["finish_ns"].equals(alone.requests["finish_ns"])
    assert made.metrics["link_mean_ms"] == made.metrics["link_wait_mean_ms"] == 0


def test_metrics_and_why_tell_of_the_link(tmp_path: Path) -> None:
    made = _serve(out=tmp_path / "out")
    read = ServeResult.read(tmp_path / "out")
    assert read.metrics == made.metrics
    sent = made.requests["kv_sent_bytes"].drop_null().to_pylist()
    assert made.metrics["served_sent_bytes"] == sum(sent) > 0
    stages = {part.stage for part in why_served(read).times[1].parts}
    assert stages >= {"waiting for the link", "on the link", "prefill", "decode"}
    assert _serve(out=tmp_path / "out", resume=True).metrics == made.metrics


def test_the_text_of_a_split_is_the_split() -> None:
    split = Split.parse(
        {"prefill": 2, "decode": 3, "link": {"latency": "5us", "bandwidth": "1GiB/s"}}
    )
    assert Split.parse(str(split)) == split == Split(2, 3, 5000, 1 << 30)  # type: ignore[arg-type]
    endless = Split.parse("prefill=1, decode=1, latency=0s, bandwidth=inf")
    assert Split.parse(str(endless)) == endless
    assert endless.busy_ns(10**12) == 0


_GOOD: dict[str, Any] = {"prefill": 1, "decode": 1, "latency": "5us", "bandwidth": "1GB/s"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"split": _GOOD | {"prefill": 0}}, "split: prefill must be an int from 1"),
        ({"split": _GOOD | {"decode": 2.5}}, "split: decode must be an int from 1"),
        ({"split": _GOOD | {"bandwidth": "0GB/s"}}, "bandwidth: expected a number above 0"),
        (
            {"split": _GOOD | {"bandwidth": 5}},
            "bandwidth: expected bytes per second with",
        ),
        ({"split": _GOOD | {"bandwidth": "5GB"}}, "bandwidth: expected bytes per second with"),
        ({"split": _GOOD | {"bandwidth": "-5GB/s"}}, "bandwidth: expected bytes per second with"),
        ({"split": _GOOD | {"latency": 5}}, "latency: expected a time .* without a unit"),
        ({"split": _GOOD | {"latenzy": "5us"}}, "unknown key 'latenzy'; did you mean 'latency'"),
        ({"split": {"prefill": 1, "decode": 1}}, "latency is missing"),
        ({"split": _GOOD | {"link": {"latency": "1us"}}}, "latency is given twice"),
        ({"split": _GOOD | {"link": 3}}, "link: expected its latency and bandwidth"),
        ({"split": "prefill=1,prefill=1"}, "each once"),
        ({"split": 4}, "expected engines and their link"),
        ({"replicas": 2}, "replicas: has no effect with split"),
        ({"split": _GOOD, "router": "round-robin"}, "router: has no effect with one replica"),
        ({"max_steps": 5}, "max_steps: has no effect with several"),
        ({"model": None}, "model: missing; split sends keys and values"),
    ],
)
def test_splits_that_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(StepSimError, match=message):
        _serve(trace=Requests.of([1], [1]), **wrong)
