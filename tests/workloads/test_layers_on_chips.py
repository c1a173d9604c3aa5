"""Decoder and mixture-of-experts layers on several chips: values of one chip, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepsim.functional import evaluate
from stepsim.simulation import run_functional, simulate
from stepsim.workloads import Data, Decoder, Moe, ParameterError, Step
from stepsim.workloads.models import Dense, Experts, GroupedHeads, LatentHeads
from tests.on_chips import in_order, messages_of, moved
from tests.workloads.sharded_values import tensors_of_chips
from tests.workloads.step_values import Numbers, model_of
from tests.workloads.test_step_on_chips import MACHINE

CACHED = np.array([5, 0, 16, 15, 24, 9, 3, 8])
HEADS, EXPERTS = GroupedHeads(8, 8, 16), Experts(8, 2, 64)
USUAL = {
    "kv_tile": 8, "attention_regions": 2, "weight_loads": 1, "tile_inter": 8, "tile": "dynamic",
    "strategy": "interleaved",
}  # fmt: skip

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tp 8, ep 8": ({}, {"tp": 8, "ep": 8}),
    "tp above KV heads": ({"heads": GroupedHeads(8, 2, 16)}, {"tp": 4}),
    "both": ({}, {"dp": 4, "tp": 2, "ep": 8, "tile": 4}),
    "shared expert": (
        {"experts": Experts(8, 2, 64, 64), "heads": LatentHeads(8, 32, 16, 8, 16, 24)},
        {"dp": 2, "tp": 4, "ep": 4},
    ),
    "dense": ({"experts": None, "dense": Dense(64)}, {"dp": 2, "tp": 4}),
}


def data_of(model: Any) -> Data:
    experts = model.feed_forward
    rng = np.random.default_rng(1)
    chosen = rng.random((8, experts.experts)).argsort(axis=1)[:, : experts.active]
    return Data.of(routing=chosen, kv_lengths=CACHED)


def numbers_of(workload: Decoder, data: Data) -> Numbers:
    """Those of a step in which every request has one new token, which a decoder layer is."""
    names = ("kv_tile", "attention_regions", "tp", "ep", "pp", "dp")
    same = {name: getattr(workload, name) for name in names}
    return Numbers(Step.of(model=workload.model, tile_inter=8, **same), data)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_values_of_a_decoder_are_those_of_one_chip(case: str) -> None:
    changes, given = CASES[case]
    model = model_of(**({"heads": HEADS, "experts": EXPERTS} | changes))
    workload = Decoder.of(**(USUAL | {"model": model} | given))
    data, split = data_of(model), workload.split
    numbers = numbers_of(workload, data)
    program = workload.build(data).program
    done = evaluate(
        program, tensors_of_chips(program, numbers), decisions=in_order(program), scalar="f32"
    )
    for d in range(split.dp):
        for t in range(split.tp):
            number = split.chip(0, d, t)
            np.testing.assert_allclose(
                done.stored[f"output@{number}" if number else "output"],
                numbers.rows[split.tokens(data, d)], rtol=2e-4, atol=2e-4,
            )  # fmt: skip


@pytest.mark.slow
def test_a_decoder_runs_on_four_chips() -> None:
    model = model_of(heads=HEADS, experts=EXPERTS)
    given = {"model": model, "tp": 2, "dp": 2, "ep": 4, "strategy": "dynamic"}
    workload = Decoder.of(**(USUAL | given))
    data = data_of(model)
    built = workload.build_for(data, MACHINE)
    result = simulate(built.program, MACHINE)
    assert result.status == "ok"
    assert result.flops == built.program.metrics().bind(built.symbols(data)).flops
    sent = sum(moved(messages)[1] for messages in messages_of(built.program).values())
    assert sum(row["received_bytes"] for row in result.chips().to_pylist()) == sent
    tensors = tensors_of_chips(built.program, numbers_of(workload, data))
    done = run_functional(built.program, tensors, machine=MACHINE, scalar="f32")
    rows = numbers_of(workload, data).rows[workload.split.tokens(data, 1)]
    np.testing.assert_allclose(done.stored["output@2"], rows, rtol=2e-4, atol=2e-4)


def test_parts_of_a_decoder_on_chips() -> None:
    model = model_of(heads=HEADS, experts=EXPERTS)
    data = data_of(model)
    for parts, messages in (("qkv+attention", 0), ("qkv+attention+output", 1), ("experts", 1)):
        known = {"tp": 2, "parts": parts, "model": model, "attention_regions": 1}
        given = {"tile": "dynamic", "tile_inter": 8} if parts == "experts" else {}
        given |= {"strategy": "interleaved"} if "attention" in parts else {}
        known = {k: v for k, v in known.items() if parts != "experts" or k != "attention_regions"}
        program = Decoder.of(**known, **given).build(data).program
        assert {moved(one)[0] for one in messages_of(program).values()} == (
            {2 * messages} if messages else set()
        )


def test_layers_of_a_decoder_follow_each_other() -> None:
    model = model_of(heads=HEADS, experts=EXPERTS)
    workload = Decoder.of(**(USUAL | {"model": model, "pp": 2}))
    program = workload.build(data_of(model)).program
    (sent,) = messages_of(program).values()
    assert moved(sent) == (8, 8 * 64 * 2)
    with pytest.raises(ParameterError, match="pp: expected 1, since layers follow each other"):
        Decoder.of(model=model, pp=2, parts="qkv+attention", strategy="dynamic").build(
            data_of(model)
        )


EXPERTS_ON = [{"tp": 4}, {"tp": 4, "ep": 4}, {"dp": 4, "ep": 4}, {"tp": 2, "dp": 2, "ep": 2}]
"""Experts divided each by its columns, whole, across groups, and both."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "tile"),
    [
        pytest.param(given, tile, marks=() if which % 2 == number else pytest.mark.slow)
        for which, given in enumerate(EXPERTS_ON)
        for number, tile in enumerate((4, "dynamic"))
    ],
)
def test_values_of_experts_are_those_of_one_chip(given: dict[str, int], tile: int | str) -> None:
    model = model_of(heads=HEADS, experts=Experts(8, 2, 64, 64))
    usual = {"model": model, "tile": tile, "tile_inter": 8}
    workload = Moe.of(**usual, **given)
    data, split = data_of(model), workload.split
    step = Step.of(model=model, tile_inter=8, weight_loads=1, attention_regions=1, **given)
    numbers = Numbers(step, data)
    weights = np.random.default_rng(3).random((8, 2)).astype(np.float32)
    one = Moe.of(**usual).build(data)
    named = {
        **numbers.tensors(one.program),
        "activations": numbers.hidden,
        "router_scales": weights,
    }
    whole = run_functional(one.program, named, bindings=one.bindings(data), scalar="f32")
    program = workload.build(data).program
    known = tensors_of_chips(program, numbers, also=("activations", "router_scales"))
    for chip in range(4):
        tokens = split.tokens(data, chip // split.tp)
        own = f"@{chip}" if chip else ""
        known |= {
            f"activations{own}": numbers.hidden[tokens],
            f"router_scales{own}": weights[tokens],
        }
    done = evaluate(program, known, decisions=in_order(program), scalar="f32")
    for chip in range(4):
        rows = whole.stored["output"][split.tokens(data, chip // split.tp)]
        own = f"@{chip}" if chip else ""
        np.testing.assert_allclose(done.stored[f"output{own}"], rows, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ep": 2}, "ep: expected a divisor of dp 1 times a divisor of tp 1, found 2"),
        ({"dp": 3, "ep": 3}, "ep: expected a divisor of the 8 experts of tiny, found 3"),
        ({"tp": 3}, "tp: expected a divisor of the width 64 of tiny, found 3"),
        ({"dp": 9}, "dp: expected a request for each group at least, found 8"),
        ({"collective": "ring", "tp": 2, "pp": 2}, "pp"),
    ],
)
def test_bad_splits_of_experts(given: dict[str, Any], message: str) -> None:
    model = model_of(heads=HEADS, experts=EXPERTS)
    with pytest.raises(ParameterError, match=message):
        Moe.of(model=model, tile="dynamic", tile_inter=8, **given).build(data_of(model))
