"""The decoder layer: its parts, what it reads and computes, the barrier, bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.machine import load_machine
from stepsim.workloads import KV_LENGTHS, ROUTING, Data, Decoder, Model, ParameterError, resolve
from stepsim.workloads.models import AttentionShape, Dense, Experts, GroupedHeads, MoEShape
from tests.workloads.support import exact, run, used

EXPERTS = MoEShape("tiny", experts=4, active=2, model_dim=64, inner_dim=128)
HEADS = AttentionShape("tiny", model_dim=64, heads=4, kv_heads=2, head_dim=16)
LENGTHS = [5, 0, 40, 31, 32, 63, 64, 7]
TABLE = np.array([[i % 3, 3] for i in range(8)])


FIGURE = "qkv+attention+experts"

BATCH = Data.of(routing=TABLE, kv_lengths=LENGTHS)


def layer(**changes):
    arguments = {
        "model": Model.of(EXPERTS, HEADS), "tile": 4, "strategy": "interleaved",
        "tile_inter": 64, "attention_regions": 2,
    }  # fmt: skip
    return Decoder(**used(Decoder, arguments, changes))


def parameters_of_units(**changes):
    built = layer(**changes).build(BATCH)
    wiring = st.wire(built.program, built.bindings(BATCH))
    return {u.name.split("#")[0]: u.params for u in wiring.units}


@pytest.mark.parametrize("strategy", ["interleaved", "dynamic"])
@pytest.mark.parametrize(("tile", "expert_regions"), [(4, None), ("dynamic", None), (4, 2)])
def test_a_run_moves_the_bytes_of_the_formula(strategy, tile, expert_regions):
    workload = layer(strategy=strategy, tile=tile, expert_regions=expert_regions, parts=FIGURE)
    built, result = run(workload, BATCH)
    counted = exact(built, BATCH)
    assert result.status == "ok"
    assert result.offchip_bytes == counted.off_chip_traffic
    assert result.flops == counted.flops
    hidden, qkv = 8 * 64 * 2, 64 * (2 * 4 * 16) * 2
    caches = 2 * 2 * (13 + 8) * 32 * 16 * 2
    outputs = 2 * 8 * 2 * 16 * 2
    tiles = {4: 3 + 2, "dynamic": 4}[tile]
    experts = tiles * 3 * 64 * 128 * 2 + 2 * 8 * 64 * 2 + 8 * 2 * 2
    assert result.offchip_bytes == hidden + qkv + caches + outputs + experts


@pytest.mark.parametrize(
    ("parts", "waits"), [(FIGURE, "activations"), (None, "load_output_weights.0")]
)
def test_what_follows_waits_for_attention(parts, waits):
    _, result = run(layer(parts=parts), BATCH)
    clocks = {
        row["name"].split("#")[0]: row for row in result.units.select(
            ["name", "before", "final_clock"]
        ).to_pylist()
    }  # fmt: skip
    last = max(clocks[f"divide.{r}"]["final_clock"] for r in range(2))
    assert clocks[waits]["before"] > last
    _, alone = run(layer(parts=parts), Data.of(routing=TABLE, kv_lengths=[0] * 8))
    assert alone.cycles < result.cycles


@pytest.mark.parametrize("strategy", ["interleaved", "dynamic"])
def test_tasks_come_head_by_head(strategy):
    units = parameters_of_units(strategy=strategy)
    assert units["index"]["values"] == list(range(16))
    assert units["tiles"]["values"] == [1, 1, 2, 1, 2, 2, 3, 1] * 2
    assert units["turns_query"]["selectors"] == [[0], [1]] * 8
    assert units["is_qkv.0"]["selectors"] == [[0], [0], [1], [2]] * 2


def test_attention_has_fifos_of_its_own_depth():
    built = layer(fifo_depth=5, attention_fifo_depth=3).build(BATCH)
    depths = {fifo.name: fifo.depth for fifo in st.wire(built.program, built.bindings(BATCH)).fifos}
    of_attention = {name: depth for name, depth in depths.items() if name.startswith("scores.0")}
    assert set(of_attention.values()) == {3}
    assert {depth for name, depth in depths.items() if name.startswith("matmul_up.0")} == {None}
    assert built.program.fifo_depth == 5


@pytest.mark.parametrize("parts", [FIGURE, None])
def test_a_shared_expert_does_not_hold_up_the_others(parts):
    shared = replace(EXPERTS, shared_inner=64)
    built, result = run(layer(model=Model.of(shared, HEADS), parts=parts), BATCH)
    assert result.status == "ok"
    assert result.offchip_bytes == exact(built, BATCH).off_chip_traffic


def test_compute_of_the_stages():
    attention = 2 * (6 * 2048 + 20480)
    for changes, executed, published in (
        ({}, 6 * 4 + 1, 6 * 4 + 1),
        ({"tile": "dynamic"}, 6 * 4 + 1, 6 * 4),  # the figure forgets the sum over experts
        ({"tile": "dynamic", "expert_regions": 2}, 5 * 2 + 4 + 1, 5 * 2 + 4 + 1),
    ):
        built = layer(**changes, parts=FIGURE).build(BATCH)
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
        (
            {"parts": "norms+attention"},
            "parts: norms needs qkv or experts, found norms\\+attention; add one or leave norms",
        ),
        ({"parts": "router+qkv"}, "parts: router needs experts, found qkv\\+router"),
        ({"weight_loads": 0}, "weight_loads: expected a whole number from 1, found 0"),
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
    ("parts", "message"),
    [
        ("qkv+head", "parts: expected parts of norms, qkv, .* joined by \\+, found 'head'"),
        ("", "parts: expected parts of norms, qkv, .* joined by \\+, found ''"),
        ([], "parts: expected one of the parts norms, qkv, .* at least, found none"),
        (3, "parts: expected parts of norms, .* joined by \\+, found 3"),
    ],
)
def test_bad_parts(parts, message):
    with pytest.raises(ParameterError, match=message):
        Decoder(model=Model.of(EXPERTS, HEADS), parts=parts)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"parts": "experts", "kv_tile": 16, "tile": 4},
            "kv_tile: has no effect on experts, only on attention; leave it out, or add attention "
            "to parts",
        ),
        (
            {"parts": "attention", "strategy": "dynamic", "weight_dtype": "f8e4m3"},
            "weight_dtype: has no effect on attention, only on qkv, output and experts; leave it "
            "out, or add one of qkv, output and experts to parts",
        ),
        ({"parts": "qkv", "moe_bw": 7}, "moe_bw: has no effect on qkv, only on norms, rotary, res"),
        ({"parts": "experts"}, "tile: missing \\(rows per tile\\); expected a whole number from 1"),
        ({"parts": "attention"}, "strategy: missing \\(how requests are assigned to regions\\)"),
        ({}, "tile: missing .*\\nstrategy: missing"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("make", [Decoder, Decoder.of])
def test_parts_decide_which_parameters_are_taken(make, given, message):
    with pytest.raises(ParameterError, match=message):
        make(model=Model.of(EXPERTS, HEADS), **given)


def test_a_default_that_is_given_is_refused_as_well():
    with pytest.raises(ParameterError, match="kv_tile: has no effect on experts"):
        Decoder.of(model="mixtral-8x7b", parts="experts", tile=4, kv_tile=32)


def test_settings_without_effect_are_not_in_the_results():
    machine = load_machine("sda-1024", {"fifo.depth": 9})
    given = {"model": "qwen3-30b-a3b", "variant": "dynamic", "parts": "qkv"}
    found = resolve(Decoder, given, machine=machine)
    columns = found.workload.columns()
    unused = {
        "tile", "strategy", "tile_inter", "expert_regions", "kv_tile", "max_length", "moe_bw",
        "attention_bw", "attention_fifo_depth", "kv_dtype", "attention_layer", "ep", "collective",
        "pp_micro_batches",
    }  # fmt: skip
    assert {name for name, origin in found.origins.items() if origin == "unused"} == unused
    assert {columns[name] for name in unused} == {None}
    assert columns["attention"] == "qwen3-30b-a3b-step"
    assert columns["fifo_depth"] == 9
    again = Decoder(**found.workload.values())
    assert again == found.workload


def test_parts_need_only_what_they_have_of_a_model():
    experts, heads = Model.of(EXPERTS), Model.of(HEADS)
    assert layer(model=experts, parts="experts").build(Data.of(routing=TABLE)).program
    assert layer(model=heads, parts="qkv+attention+output").build(BATCH).program


def test_tokens_per_second_need_no_trace():
    data = Data.of(rows=6)
    assert layer(parts="qkv").build(data).tokens(data) == 6


@pytest.mark.parametrize(
    ("parts", "needed"),
    [
        ("qkv+output", ()), ("qkv+attention", (KV_LENGTHS,)), ("output+experts", (ROUTING,)),
        ("attention+experts", (ROUTING, KV_LENGTHS)), (None, (ROUTING, KV_LENGTHS)),
    ],
)  # fmt: skip
def test_traces_that_parts_read(parts, needed):
    assert Decoder.needed({"parts": parts}) == needed
    workload, other = layer(parts=parts), Data.of(routing=TABLE, kv_lengths=[9] * 8)
    same = workload.program_key(BATCH) == workload.program_key(other)
    assert same == (KV_LENGTHS not in needed)


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
    assert str(found.parts) == FIGURE


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


def test_the_whole_layer_is_built_unless_parts_are_chosen():
    given = {"model": "mixtral-8x7b", "tile": 4, "strategy": "dynamic"}
    whole = "norms+qkv+rotary+attention+output+residuals+router+experts"
    assert Decoder.of(**given).columns()["parts"] == whole
    dense = Decoder.of(**given | {"model": Model("d", 64, heads=GroupedHeads(4, 2, 16),
                                                 dense=Dense(64))})  # fmt: skip
    assert dense.columns()["parts"] == whole.replace("+router", "")
    given = {"model": "mixtral-8x7b", "tile": 4}
    for same in ("experts+qkv", "qkv, experts", ["experts", "qkv"], ("qkv", "experts", "qkv")):
        assert str(Decoder.of(**given, parts=same).parts) == "qkv+experts"


def test_a_dense_model_has_no_router():
    dense = Model("tiny", 64, heads=GroupedHeads(4, 2, 16), dense=Dense(128))
    with pytest.raises(ParameterError, match="parts: expected no router, since tiny has no exp"):
        layer(model=dense, parts="router+experts").build(Data.of(kv_lengths=LENGTHS))


def test_heads_that_cannot_be_rotated():
    odd = Model("odd", 64, Experts(4, 2, 128), GroupedHeads(4, 2, 15))
    message = "parts: expected an even number of columns to rotate, found 15 of odd; leave rot"
    with pytest.raises(ParameterError, match=message):
        layer(model=odd).build(BATCH)
    assert layer(model=odd, parts=FIGURE).build(BATCH).program


def test_what_is_left_out_is_said():
    left_out = layer(parts="qkv+attention+experts").build(BATCH).parameters["left_out"]
    assert left_out.startswith(
        "norms before attention and before the experts; rotary embedding; output projection; "
        "residual sums; router; scaling of scores"
    )
    whole = layer().build(BATCH).parameters["left_out"]
    assert whole == (
        "scaling of scores (weights of queries can contain it); subtraction of the largest score "
        "before exp; norms and biases of queries, keys and values; choice of experts (the routing "
        "is given)"
    )
    dense = Model("tiny", 64, heads=GroupedHeads(4, 2, 16), dense=Dense(128))
    alone = layer(model=dense, parts="norms+residuals+experts").build(Data.of(kv_lengths=LENGTHS))
    assert alone.parameters["left_out"] == (
        "QKV generation; rotary embedding; attention; output projection"
    )
