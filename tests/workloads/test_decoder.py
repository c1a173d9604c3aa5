"""The decoder layer: what it reads and computes, the barrier, bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.workloads import Data, Decoder, Model, ParameterError
from stepsim.workloads.models import AttentionShape, MoEShape
from tests.workloads.support import exact, run

EXPERTS = MoEShape("tiny", experts=4, active=2, model_dim=64, inner_dim=128)
HEADS = AttentionShape("tiny", model_dim=64, heads=4, kv_heads=2, head_dim=16)
LENGTHS = [5, 0, 40, 31, 32, 63, 64, 7]
TABLE = np.array([[i % 3, 3] for i in range(8)])


BATCH = Data.of(routing=TABLE, kv_lengths=LENGTHS)


def layer(**changes):
    arguments = {
        "model": Model.of(EXPERTS, HEADS), "tile": 4, "strategy": "interleaved",
        "tile_inter": 64, "attention_regions": 2,
    }  # fmt: skip
    return Decoder(**arguments | changes)


def parameters_of_units(**changes):
    built = layer(**changes).build(BATCH)
    wiring = st.wire(built.program, built.bindings(BATCH))
    return {u.name.split("#")[0]: u.params for u in wiring.units}


@pytest.mark.parametrize("strategy", ["interleaved", "dynamic"])
@pytest.mark.parametrize(("tile", "expert_regions"), [(4, None), ("dynamic", None), (4, 2)])
def test_a_run_moves_the_bytes_of_the_formula(strategy, tile, expert_regions):
    built, result = run(layer(strategy=strategy, tile=tile, expert_regions=expert_regions), BATCH)
    counted = exact(built, BATCH)
    assert result.status == "ok"
    assert result.offchip_bytes == counted.off_chip_traffic
    assert result.flops == counted.flops
    hidden, qkv = 8 * 64 * 2, 2 * 64 * (2 * 4 * 16) * 2
    caches = 2 * 2 * (13 + 8) * 32 * 16 * 2
    outputs = 2 * 8 * 2 * 16 * 2
    tiles = {4: 3 + 2, "dynamic": 4}[tile]
    experts = tiles * 3 * 64 * 128 * 2 + 2 * 8 * 64 * 2 + 8 * 2 * 2
    assert result.offchip_bytes == hidden + qkv + caches + outputs + experts


def test_experts_wait_for_attention():
    _, result = run(layer(), BATCH)
    clocks = {
        row["name"].split("#")[0]: row for row in result.units.select(
            ["name", "before", "final_clock"]
        ).to_pylist()
    }  # fmt: skip
    last = max(clocks[f"divide.{r}"]["final_clock"] for r in range(2))
    assert clocks["activations"]["before"] > last
    _, alone = run(layer(), Data.of(routing=TABLE, kv_lengths=[0] * 8))
    assert alone.cycles < result.cycles


def test_every_task_is_served_by_the_region_of_its_request():
    units = parameters_of_units()
    assert units["index.0"]["values"] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert units["index.1"]["values"] == [1, 3, 5, 7, 9, 11, 13, 15]
    assert units["tiles.0"]["values"] == [1, 2, 2, 3] * 2


def test_dynamic_tasks_come_head_by_head():
    units = parameters_of_units(strategy="dynamic")
    assert units["index"]["values"] == list(range(16))
    assert units["turns_query"]["selectors"] == [[0], [1]] * 8
    assert units["is_qkv.0"]["selectors"] == [[0], [0], [1], [2]] * 2


def test_a_shared_expert_waits_as_well():
    shared = replace(EXPERTS, shared_inner=64)
    built, result = run(layer(model=Model.of(shared, HEADS)), BATCH)
    assert result.status == "ok"
    assert result.offchip_bytes == exact(built, BATCH).off_chip_traffic


def test_compute_of_the_stages():
    attention = 2 * (6 * 2048 + 20480)
    for changes, executed, published in (
        ({}, 6 * 4 + 1, 6 * 4 + 1),
        ({"tile": "dynamic"}, 6 * 4 + 1, 6 * 4),  # the figure forgets the sum over experts
        ({"tile": "dynamic", "expert_regions": 2}, 5 * 2 + 4 + 1, 5 * 2 + 4 + 1),
    ):
        built = layer(**changes).build(BATCH)
        assert exact(built, BATCH).allocated_compute == executed * 1024 + attention
        figure = built.published(BATCH).allocated_flops_per_cycle
        assert figure == published * 1024 + attention


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategy": "coarse"}, "strategy: expected one of interleaved, dynamic, found 'coarse'"),
        ({"max_length": 32}, "max_length: expected a multiple of the KV tile of 32"),
        ({"tile": 0}, "tile: expected a whole number from 1, or 'dynamic', found 0"),
        ({"tile_inter": 60}, "tile_inter: expected a divisor of the inner dimension 128"),
        ({"expert_regions": 3}, "expert_regions: expected a divisor of the 4 experts"),
        ({"attention": "mixtral-8x7b"}, "attention: .*rows as wide as those of tiny, 64, found"),
        (
            {"attention": replace(HEADS, value_dim=8)},
            "attention: expected keys and values of one width, found 16 and 8 of tiny",
        ),
    ],
)
def test_bad_parameters(changes, message):
    with pytest.raises(ParameterError, match=message):
        layer(**changes).build(BATCH)


@pytest.mark.parametrize(
    ("model", "variant", "expected"),
    [
        ("qwen3-30b-a3b", "dynamic", ("dynamic", 32, "dynamic", 48)),
        ("qwen3-30b-a3b", "memory-matched", (8, None, "interleaved", 48)),
        ("mixtral-8x7b", "performance-matched", (32, None, "interleaved", 64)),
    ],
)
@pytest.mark.parametrize("config", [None, "published"])
def test_published_variants(model, variant, expected, config):
    found = Decoder.of(model=model, variant=variant, config=config)
    assert (
        found.tile, found.expert_regions, found.strategy, found.tile_inter,
    ) == expected  # fmt: skip


@pytest.mark.parametrize(
    ("given", "config", "message"),
    [
        ({}, "published", "config: the published figure has three variants; choose a variant"),
        ({"variant": "static"}, None, "variant: expected one of memory-matched, performance-"),
        (
            {"variant": "dynamic", "model": "glm-4.5"}, None,
            "variant: the published figure has no glm-4.5, only mixtral-8x7b and qwen3-30b-a3b",
        ),
    ],
)  # fmt: skip
def test_variants_that_were_not_published(given, config, message):
    with pytest.raises(ParameterError, match=message):
        Decoder.of(config=config, **{"model": "mixtral-8x7b"} | given)
