"""Times of steps by simulated layers, in CPU seconds, and how far estimates are from exact runs.

``AuditedSteps`` times a service of 1,000 requests of the Azure conversation trace on Qwen3-30B-A3B,
all 48 layers counted, within a minute; a layer of a chunk of 2,048 tokens runs in a few hundred ms.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from stepsim.machine import load_machine
from stepsim.serving import (
    AuditedSteps,
    Batch,
    ExactSteps,
    RequestRouting,
    Requests,
    StepModel,
    TraceRequests,
    Zipf,
)
from stepsim.simulation import prepare
from stepsim.workloads import Data, Model, Step
from tests.shared import TRACES

MOST_SECONDS = 60
REQUESTS, RATE = 1000, 2.0
BUDGET, RUNNING = 2048, 128
_FILE = "AzureLLMInferenceTrace_conv.csv"

LLAMA = Model.parse("llama-3-8b")
MACHINE = load_machine("sda-1024", {"clock_ghz": 1.0})


def azure(count: int, longest_output: int | None = None) -> Requests:
    found = TraceRequests(str(TRACES / _FILE), count=count).requests()
    gaps = np.random.default_rng(0).exponential(1e9 / RATE, count)
    output = (
        found.output_tokens
        if longest_output is None
        else np.minimum(found.output_tokens, longest_output)
    )
    return replace(found, arrival_ns=np.cumsum(gaps).astype(np.int64), output_tokens=output)


def served(requests: Requests, model: StepModel) -> dict[str, float]:
    """First come, first served, with a token budget: decodes first, then chunks of prompts."""
    prompt, output, arrival = requests.prompt_tokens, requests.output_tokens, requests.arrival_ns
    count = len(requests)
    done, first, end = (np.full(count, start, np.int64) for start in (0, -1, -1))
    waiting: list[int] = []
    running: list[int] = []
    now, coming, step = int(arrival[0]), 0, 0
    while coming < count or waiting or running:
        while coming < count and arrival[coming] <= now:
            waiting.append(coming)
            coming += 1
        left, granted = BUDGET, []
        while waiting and len(running) < RUNNING:
            running.append(waiting.pop(0))
        for request in sorted(running, key=lambda one: done[one] < prompt[one]):
            tokens = min(left, max(int(prompt[request] - done[request]), 1))
            if tokens:
                granted.append((request, tokens))
                left -= tokens
        if not granted:
            now = int(arrival[coming])
            continue
        which, new = np.array(granted, np.int64).T.copy()
        before = done[which]
        emits = before + new >= prompt[which]
        now += model.time(step, Batch(which, new, before, emits)).ns
        step += 1
        done[which] += new
        fresh = which[emits & (first[which] < 0)]
        first[fresh] = now
        over = which[done[which] >= prompt[which] + output[which] - 1]
        end[over] = now
        running = [one for one in running if end[one] < 0]
    several = output > 1
    ttft = (first - arrival) / 1e9
    tpot = ((end - first)[several] / (output - 1)[several]) / 1e9
    return {
        "steps": step, "ttft": ttft.mean(), "ttft_p99": np.quantile(ttft, 0.99),
        "tpot": tpot.mean(), "tpot_p99": np.quantile(tpot, 0.99),
    }  # fmt: skip


def test_a_thousand_requests_of_qwen(benchmark: BenchmarkFixture) -> None:
    model, requests = Model.parse("qwen3-30b-a3b"), azure(REQUESTS)
    routing = RequestRouting.drawn(model, requests, Zipf(0.5), 7)
    layer = Step.of(model=model, machine=MACHINE)
    served(azure(2, 2), AuditedSteps(layer, MACHINE, routing))  # compiles what is not
    audited = AuditedSteps(layer, MACHINE, routing)
    begin = time.process_time()
    found = benchmark.pedantic(lambda: served(requests, audited), rounds=1)
    report = audited.report()
    seconds = time.process_time() - begin
    benchmark.extra_info.update(seconds=round(seconds, 1), steps=found["steps"], report=str(report))
    assert report.within, str(report)
    assert seconds < MOST_SECONDS


def test_a_few_requests_of_llama_exact(benchmark: BenchmarkFixture) -> None:
    requests = azure(12, 14)
    layer = Step.of(model=LLAMA, machine=MACHINE)
    exact = benchmark.pedantic(lambda: served(requests, ExactSteps(layer, MACHINE, None)), rounds=1)
    for seed in range(3):
        audited = AuditedSteps(layer, MACHINE, None, seed=seed)
        found = served(requests, audited)
        for name, value in found.items():
            assert value == pytest.approx(exact[name], rel=0.01), (seed, name, audited.report())


@pytest.mark.parametrize("name", ["qwen3-30b-a3b", "llama-3-8b"])
def test_a_layer_of_a_long_chunk(benchmark: BenchmarkFixture, name: str) -> None:
    model = Model.parse(name)
    rng, shape = np.random.default_rng(0), model.feed_forward
    chosen = rng.random((2048, shape.experts)).argsort(axis=1)[:, : shape.active]
    data = Data.of(routing=chosen, kv_lengths=[0], new_tokens=[2048])
    built = Step.of(model=model).build(data)
    prepared: Any = prepare(built.program)
    run = benchmark.pedantic(lambda: prepared.run(built.bindings(data)), rounds=5, warmup_rounds=1)
    assert run.status == "ok"
    assert benchmark.stats.stats.min < 0.5
