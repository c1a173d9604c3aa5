"""The decoder layer: what it reads and computes, the barrier, bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stepsim.graph as st
from stepsim import simulate
from stepsim.errors import ArgError
from stepsim.workloads import AttentionShape, MoEShape, decoder_layer, published_decoder_config

EXPERTS = MoEShape("tiny", experts=4, active=2, model_dim=64, inner_dim=128)
HEADS = AttentionShape("tiny", model_dim=64, heads=4, kv_heads=2, head_dim=16)
LENGTHS = [5, 0, 40, 31, 32, 63, 64, 7]
TABLE = np.array([[i % 3, 3] for i in range(8)])


def layer(**changes):
    arguments = {
        "moe": EXPERTS, "attention": HEADS, "kv_lengths": LENGTHS, "tile": 4, "tile_inter": 64,
        "attention_regions": 2,
    }  # fmt: skip
    return decoder_layer(**arguments | changes)


@pytest.mark.parametrize("strategy", ["interleaved", "dynamic"])
@pytest.mark.parametrize(("tile", "expert_regions"), [(4, None), ("dynamic", None), (4, 2)])
def test_a_run_moves_the_bytes_of_the_formula(strategy, tile, expert_regions):
    work = layer(strategy=strategy, tile=tile, expert_regions=expert_regions)
    result = simulate(work.program, bindings={work.routing: TABLE})
    exact = work.metrics(TABLE, memory="paper")
    assert result.status == "ok"
    assert result.offchip_bytes == exact.off_chip_traffic
    assert result.flops == exact.flops
    hidden, qkv = 8 * 64 * 2, 2 * 64 * (2 * 4 * 16) * 2
    caches = 2 * 2 * (13 + 8) * 32 * 16 * 2
    outputs = 2 * 8 * 2 * 16 * 2
    tiles = {4: 3 + 2, "dynamic": 4}[tile]
    experts = tiles * 3 * 64 * 128 * 2 + 2 * 8 * 64 * 2 + 8 * 2 * 2
    assert result.offchip_bytes == hidden + qkv + caches + outputs + experts


def test_experts_wait_for_attention():
    work = layer(indices=TABLE)
    result = simulate(work.program)
    clocks = {
        row["name"].split("#")[0]: row for row in result.units.select(
            ["name", "before", "final_clock"]
        ).to_pylist()
    }  # fmt: skip
    last = max(clocks[f"divide.{r}"]["final_clock"] for r in range(2))
    assert clocks["activations"]["before"] > last
    alone = layer(indices=TABLE, kv_lengths=[0] * 8)
    assert simulate(alone.program).cycles < result.cycles


def test_every_task_is_served_by_the_region_of_its_request():
    wiring = st.wire(layer(indices=TABLE).program)
    values = {u.name.split("#")[0]: u.params["values"] for u in wiring.units
              if u.kind == "MetadataGen"}  # fmt: skip
    assert values["index.0"] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert values["index.1"] == [1, 3, 5, 7, 9, 11, 13, 15]
    assert values["tiles.0"] == [1, 2, 2, 3] * 2


def test_dynamic_tasks_come_head_by_head():
    wiring = st.wire(layer(indices=TABLE, strategy="dynamic").program)
    units = {u.name.split("#")[0]: u for u in wiring.units}
    assert units["index"].params["values"] == list(range(16))
    assert units["turns_query"].params["selectors"] == [[0], [1]] * 8
    assert units["is_qkv.0"].params["selectors"] == [[0], [0], [1], [2]] * 2


def test_a_shared_expert_waits_as_well():
    shared = replace(EXPERTS, shared_inner=64)
    work = layer(moe=shared, indices=TABLE)
    result = simulate(work.program)
    assert result.status == "ok"
    assert result.offchip_bytes == work.metrics(TABLE, memory="paper").off_chip_traffic


def test_compute_of_the_stages():
    assert layer().allocated_compute == (6 * 4 + 1) * 1024 + 2 * (6 * 2048 + 20480)
    assert layer(tile="dynamic").allocated_compute == (6 * 4) * 1024 + 2 * (6 * 2048 + 20480)
    shared = layer(tile="dynamic", expert_regions=2)
    assert shared.allocated_compute == (5 * 2 + 4 + 1) * 1024 + 2 * (6 * 2048 + 20480)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategy": "coarse"}, "expected strategy 'interleaved' or 'dynamic'"),
        ({"strategy": "static"}, "decoder_layer: unknown strategy 'static'"),
        ({"attention_regions": 3, "strategy": "dynamic"}, "attention_regions that divide"),
        ({"kv_lengths": [1, -1]}, r"decoder_layer: kv_lengths\[1\] is -1"),
        ({"max_length": 32}, "decoder_layer: max_length must be a multiple of kv_tile 32"),
        ({"tile": 0}, "decoder_layer: tile is an int >= 1"),
        ({"tile_inter": 60}, "decoder_layer: batch >= 1 and tile_inter a divisor of 128"),
        ({"expert_regions": 3}, "decoder_layer: regions must divide the 4 experts"),
        ({"attention": "mixtral-8x7b"}, "must share a model dim, found 64 and 4096"),
        ({"attention": replace(HEADS, value_dim=8)}, "equally wide, found 16 and 8"),
    ],
)
def test_bad_input(changes, message):
    with pytest.raises(ArgError, match=message):
        layer(**changes)


def test_published_configurations():
    config = published_decoder_config("qwen3-30b-a3b", "dynamic")
    assert (config["tile"], config["expert_regions"], config["strategy"]) == (
        "dynamic", 32, "dynamic",
    )  # fmt: skip
    config = published_decoder_config("mixtral-8x7b", "performance-matched")
    assert (config["tile"], config["expert_regions"], config["tile_inter"]) == (32, None, 64)
    with pytest.raises(ArgError, match="variants: memory-matched, performance-matched, dynamic"):
        published_decoder_config("mixtral-8x7b", "static")
