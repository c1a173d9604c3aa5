"""A small model on a small machine, and batches of its service."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepsim.machine import Machine, load_machine
from stepsim.serving import Batch, RequestRouting, Requests, Zipf
from stepsim.workloads import Model, Step
from tests.workloads.step_values import model_of
from tests.workloads.support import used

LAYERS = 3


def machine() -> Machine:
    return load_machine("sda-1024", {"clock_ghz": 2.0})


def small(**changes: Any) -> Model:
    return model_of(**({"layers": LAYERS} | changes))


def layer(model: Model | None = None, **changes: Any) -> Step:
    given = {"query_tile": 16, "kv_tile": 8, "attention_regions": 2}
    return Step.of(model=model or small(), **used(Step, given, changes))


def requests(count: int = 20, prompt: int = 40, output: int = 12) -> Requests:
    rng = np.random.default_rng(0)
    zeros = np.zeros(count, dtype=np.int64)
    return Requests(
        arrival_ns=zeros, prompt_tokens=rng.integers(1, prompt, count),
        output_tokens=rng.integers(1, output, count), priority=zeros, after=zeros - 1,
        think_ns=zeros, number=np.arange(count),
    )  # fmt: skip


def routing(model: Model | None = None, exponent: float = 0.7, seed: int = 5) -> RequestRouting:
    return RequestRouting.drawn(model or small(), requests(), Zipf(exponent), seed)


def batch(*entries: tuple[int, int, int], emits: bool = True) -> Batch:
    """A batch of entries (request, new, before)."""
    table = np.array(entries, dtype=np.int64)
    return Batch(table[:, 0], table[:, 1], table[:, 2], np.full(len(entries), emits))
