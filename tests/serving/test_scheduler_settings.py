"""Settings of schedulers: defaults, what has no effect, and what does not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stepsim.dtypes import DType
from stepsim.errors import ArgError
from stepsim.serving import (
    CompiledScheduler,
    Engine,
    LinearSteps,
    Outcomes,
    Requests,
    SchedulerSettings,
    scheduler,
    schedulers,
)
from stepsim.serving.scheduling.capacity import blocks_in, kv_bytes_per_token
from stepsim.workloads import LatentHeads, Model
from stepsim.workloads.models.model import GroupedHeads

_GIB = 1 << 30


@pytest.mark.parametrize(
    ("gib", "more", "budget", "seqs"),
    [
        (192, {}, 16384, 1024),
        (80, {}, 8192, 1024),
        (80, {"offline": True}, 16384, 1024),
        (80, {"is_a100": True}, 2048, 256),
        (24, {}, 2048, 256),
        (24, {"offline": True}, 8192, 256),
        (24, {"throughput": True}, 4096, 512),
    ],
)
def test_limits_of_a_step_follow_the_memory(
    gib: int, more: dict[str, bool], budget: int, seqs: int
) -> None:
    rules = SchedulerSettings().completed(1000, gib * _GIB, **more)
    assert (rules.max_num_batched_tokens, rules.max_num_seqs) == (budget, seqs)


def test_limits_fit_what_is_given() -> None:
    def limits(**settings: Any) -> tuple[int | None, int]:
        rules = SchedulerSettings(num_blocks=1000, **settings).completed()
        return rules.max_num_batched_tokens, rules.max_num_seqs

    assert limits(max_num_seqs=4, max_model_len=100) == (400, 4)
    assert limits(max_num_batched_tokens=100) == (100, 100)
    assert limits(enable_chunked_prefill=False, max_model_len=9000) == (9000, 256)


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        (
            "vllm",
            {"max_num_seqs": 9, "max_num_batched_tokens": 8},
            "max_num_seqs: expected at most",
        ),
        ("vllm", {"max_num_active_seqs": 9, "max_num_seqs": 8}, "max_num_active_seqs: expected"),
        (
            "vllm",
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 8, "max_model_len": 9},
            "max_num_batched_tokens: expected at least max_model_len",
        ),
        ("vllm", {"watermark": 1.5}, "watermark"),
        ("vllm", {"threshold_alone": True}, "threshold_alone: has no effect without"),
        ("vllm", {"gpu_memory_utilization": 0.5}, "gpu_memory_utilization: has no effect"),
        ("vllm", {"max_num_seqs": 0}, "max_num_seqs"),
        ("orca", {"max_num_batched_tokens": 8}, "max_num_batched_tokens: has no effect"),
        ("static", {"policy": "priority"}, "policy: has no effect with scheduler static"),
        ("sarathi", {"enable_prefix_caching": True}, "enable_prefix_caching: has no effect"),
    ],
)
def test_wrong_settings_are_named(name: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgError, match=said):
        SchedulerSettings(scheduler=name, num_blocks=100, **settings)


def test_blocks_must_be_known() -> None:
    with pytest.raises(ArgError, match="num_blocks: missing"):
        SchedulerSettings().completed()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_blocks": 4}, "request 1 of 60 \\+ 9 tokens needs 5 blocks .* at most 3"),
        ({"num_blocks": 9, "max_model_len": 60}, "request 1 has a prompt of 60 tokens"),
        ({"num_blocks": 5, "max_model_len": 100}, "max_model_len is 100, expected at most the 64"),
    ],
)
def test_requests_that_never_fit_are_named(settings: dict[str, Any], said: str) -> None:
    requests = Requests.of([3, 60], [9, 9])
    rules = SchedulerSettings(max_num_seqs=4, **settings).completed()
    with pytest.raises(ArgError, match=said):
        Outcomes(requests, rules)


def test_schedulers_have_names() -> None:
    assert list(schedulers()) == ["vllm", "static", "orca", "sarathi"]
    requests = Requests.of([3], [2])
    rules = SchedulerSettings(scheduler="orca", num_blocks=10).completed()
    made = scheduler("orca", requests, rules)
    made.arrive(0)
    batch = made.schedule(0)
    assert (batch.request.tolist(), batch.new.tolist(), batch.emits.tolist()) == ([0], [3], [True])
    assert made.complete(5).tolist() == []
    assert made.running == 1
    with pytest.raises(ArgError, match="unknown scheduler 'orka'; did you mean 'orca'"):
        scheduler("orka", requests, rules)
    with pytest.raises(ArgError, match="the rules are of scheduler 'orca', expected 'vllm'"):
        scheduler("vllm", requests, rules)


def test_steps_end_before_others_begin() -> None:
    requests = Requests.of([3], [2])
    made = CompiledScheduler(requests, SchedulerSettings(num_blocks=10).completed())
    with pytest.raises(ArgError, match="complete: no step was scheduled"):
        made.complete(5)
    made.arrive(0)
    made.schedule(4)
    with pytest.raises(ArgError, match="schedule: the step before is not complete"):
        made.schedule(5)
    with pytest.raises(ArgError, match="complete: the step ends before it began"):
        made.complete(3)


def test_times_are_those_of_tokens() -> None:
    requests = Requests.of([4, 2], [3, 1], arrival_ns=[0, 5])
    outcomes = Outcomes(requests, SchedulerSettings(num_blocks=10).completed())
    engine = Engine(outcomes, time=LinearSteps(step_ns=10).compiled())
    engine.run()
    times = outcomes.times()
    assert (times.ttft_s * 1e9).round().tolist() == [10, 15]
    assert (times.gap_s * 1e9).round().tolist() == [10, 10]
    assert times.gaps_from.tolist() == [0, 2, 2]
    assert times.output_tokens.tolist() == [3, 1]
    with pytest.raises(ArgError, match="keeps_tokens"):
        Outcomes(requests, outcomes.rules, keeps_tokens=False).times()


def test_a_linear_step_takes_time() -> None:
    with pytest.raises(ArgError, match="steps take no time"):
        LinearSteps(decode_context_ns=3)
    with pytest.raises(ArgError, match="token_ns"):
        LinearSteps(step_ns=1, token_ns=-1)
    words = LinearSteps(step_ns=1.5, token_ns=0.001).compiled().words
    assert words.tolist() == [1500, 1, 0, 0, 0]
    assert words.dtype == np.int64


def test_blocks_follow_from_memory_and_model() -> None:
    llama = Model("x", 4096, heads=GroupedHeads(32, 8, 128), layers=32)
    assert kv_bytes_per_token(llama) == 2 * 8 * 128 * 32 * 2
    narrow = replace(llama, kv_dtype=DType.f8e4m3)
    assert kv_bytes_per_token(narrow) == 8 * 128 * 32 * 2
    latent = replace(llama, heads=LatentHeads(128, 512, 128, 64, 128))
    assert kv_bytes_per_token(latent) == (512 + 64) * 32 * 2
    # The devices of recorded runs, all of whose blocks are usable.
    weights = 16_060_522_496
    assert blocks_in(96 * _GIB, weights, share=0.9, block_size=16, kv_bytes=131072) == 36_578
    assert blocks_in(24 * _GIB, weights, share=0.833919, block_size=16, kv_bytes=131072) == 2588
    with pytest.raises(ArgError, match="no block fits"):
        blocks_in(16 * _GIB, weights, share=0.9, block_size=16, kv_bytes=131072)
    with pytest.raises(ArgError, match="no number of layers"):
        kv_bytes_per_token(replace(llama, layers=None))
