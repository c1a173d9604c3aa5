"""The compiled loop against the one in Python, and against itself with other step models."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from stepsim.errors import StepSimError
from stepsim.serving import ServeResult, serve
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.steps.interface import StepTime
from stepsim.serving.steps.linear import LinearSteps


def _drawn(seed: int, count: int = 30) -> Requests:
    draw = np.random.default_rng(seed)
    return Requests.of(
        draw.integers(1, 90, count), draw.integers(1, 30, count),
        arrival_ns=np.cumsum(draw.integers(0, 400, count)),
    )  # fmt: skip


def _serve(requests: Requests, **more: Any) -> ServeResult:
    return serve(trace=requests, num_blocks=30, **more)


class _Asked:
    """Linear steps that are computed by Python."""

    def __init__(self) -> None:
        self._model = LinearSteps(step_ns=100, token_ns=10, decode_context_ns=1)

    def time(self, step: int, batch: Batch) -> StepTime:
        return self._model.time(step, batch)


@pytest.mark.parametrize("scheduler", ["vllm", "static", "orca", "sarathi"])
@pytest.mark.parametrize("seed", range(3))
def test_asked_step_model_gives_the_same(scheduler: str, seed: int) -> None:
    requests = _drawn(seed)
    alone = _serve(requests, scheduler=scheduler, steps="linear:100,10,1")
    asked = _serve(requests, scheduler=scheduler, steps=_Asked)
    known = [name for name in alone.requests.column_names if name != "computed_steps"]
    assert asked.requests.select(known).equals(alone.requests.select(known))
    assert asked.steps.equals(alone.steps)
    assert asked.metrics == alone.metrics
    assert asked.requests["computed_steps"].null_count == 0


def test_preemptions_are_counted_alike() -> None:
    made = _serve(_drawn(5), steps=_Asked, scheduler_reserve_full_isl=False)
    assert made.metrics["served_preemptions"] > 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_blocks": 4}, r"needs \d+ blocks"),
        ({"num_blocks": None}, "num_blocks: missing"),
        ({"num_blocks": None, "model": "mixtral-8x7b", "memory_bytes": 10**9}, "does not fit"),
        ({"steps": "linear:fast"}, "expected up to 5 numbers"),
        ({"steps": "guessed"}, "unknown step model 'guessed'"),
        ({"steps": "linear:0"}, "take no time"),
        ({"scheduler": "vlm"}, "unknown scheduler 'vlm'; did you mean 'vllm'"),
        ({"scheduler": "orca", "watermark": 0.1}, "watermark: has no effect"),
        ({"block_size": 0}, "block_size"),
    ],
)
def test_refused_before_anything_runs(wrong: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"steps": "linear:100,10,1", "num_blocks": 30}
    with pytest.raises(StepSimError, match=message):
        serve(trace=_drawn(0), **(usual | wrong))


def test_memory_holds_blocks_beside_the_weights() -> None:
    made = serve(
        trace=_drawn(0), model="qwen3-30b-a3b", memory_bytes=80 * 10**9, steps="linear:100,10,1"
    )
    weights, block = 2 * 30_531_911_680, 16 * 98_304
    most = int(made.steps["free_blocks"].to_numpy().max())
    assert 0 <= (int(0.92 * 80e9) - weights) // block - 1 - most < 30


def test_rate_scales_the_arrivals() -> None:
    twice = partial(_serve, _drawn(0), steps="linear:100,10,1", arrivals="poisson")
    slow, fast = (twice(rate=rate).requests["arrival_ns"].to_numpy() for rate in (1e3, 2e3))
    np.testing.assert_allclose(slow, 2 * fast, atol=2)
