"""Values of a step agree with numpy: mixed batches, windows, experts and dense networks."""

from __future__ import annotations

import numpy as np
import pytest

from stepsim import run_functional
from stepsim.workloads import Data, Step
from stepsim.workloads.models import Dense, Experts, LatentHeads
from stepsim.workloads.models.windows import Windows
from tests.workloads.step_values import Numbers, model_of
from tests.workloads.support import used

NEW = np.array([1, 5, 1, 4, 1, 9])
CACHED = np.array([5, 0, 16, 15, 24, 9])
LATENT = LatentHeads(4, 32, 16, 8, 16, 24)

CASES = {
    "experts": ({}, {}),
    "in turn": ({}, {"strategy": "interleaved", "tile": 4}),
    "in blocks": ({}, {"strategy": "coarse", "block": 3}),
    "whole chunks": ({}, {"query_tile": 64, "attention_regions": 3}),
    "dense": ({"experts": None, "dense": Dense(64)}, {}),
    "dense layer of experts": ({"dense": Dense(64, 1)}, {"network": "dense"}),
    "window": ({"windows": Windows(6)}, {}),
    "window of a layer": ({"windows": Windows(12, (1,))}, {"attention_layer": 1}),
    "latent": ({"heads": LATENT}, {}),
    "latent without query rank": ({"heads": LatentHeads(4, 32, 16, 8, 16)}, {}),
    "shared expert": ({"experts": Experts(4, 2, 64, 64)}, {}),
    "head": ({"dense": Dense(64, 1)}, {"part": "layer+head", "network": "dense"}),
}


def step(changes: dict, given: dict) -> Step:
    usual = {
        "model": model_of(**changes), "query_tile": 4, "kv_tile": 8, "attention_regions": 2,
        "weight_loads": 1,
    }  # fmt: skip
    return Step.of(**used(Step, usual, given))


@pytest.mark.slow
@pytest.mark.parametrize("new", [NEW, np.ones(6, dtype=int)], ids=["mixed", "decode"])
@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_numpy(case: str, new: np.ndarray) -> None:
    workload = step(*CASES[case])
    experts = workload.layer_model.feed_forward
    rng = np.random.default_rng(1)
    chosen = rng.random((new.sum(), experts.experts)).argsort(axis=1)[:, : experts.active]
    data = Data.of(routing=chosen, kv_lengths=CACHED, new_tokens=new)
    numbers = Numbers(workload, data)
    built = workload.build(data)
    done = run_functional(
        built.program, numbers.tensors(built.program), bindings=built.bindings(data), scalar="f32"
    )
    np.testing.assert_allclose(done.stored["output"], numbers.rows, rtol=2e-4, atol=2e-4)
    # Caches were given with the new rows, which the run writes itself.
    for name, cached in (("key", numbers.keys), ("value", numbers.values)):
        stored = done.stored[f"cache_{name}"]
        np.testing.assert_allclose(stored, numbers.laid_out(cached), rtol=2e-4, atol=2e-4)
    if workload.has_head:
        counts = min(workload.attention_regions, len(new))
        for r in range(counts):
            np.testing.assert_allclose(
                done.stored[f"logits.{r}"], numbers.logits[r::counts], rtol=2e-4, atol=2e-4
            )
