"""Decode attention: who serves whom, the graph, memory ports, bytes, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim import simulate
from stepsim.errors import ArgError
from stepsim.workloads import AttentionShape, attention, published_attention_config

TINY = AttentionShape("tiny", model_dim=64, heads=4, kv_heads=2, head_dim=16)
LENGTHS = [5, 0, 40, 31, 32, 63, 64, 7]
STRATEGIES = ["coarse", "interleaved", "dynamic"]


def names(wiring, kind: str) -> list[str]:
    return [u.name.split("#")[0] for u in wiring.units if u.kind == kind]


def test_a_request_takes_the_tiles_of_its_tokens_and_the_new_one():
    work = attention(TINY, LENGTHS, "interleaved")
    assert work.tiles.tolist() == [1, 1, 2, 1, 2, 2, 3, 1]
    assert work.max_length == 96


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_moves_the_bytes_and_flops_of_the_formula(strategy):
    work = attention(TINY, LENGTHS, strategy)
    result = simulate(work.program)
    bound = work.metrics(memory="paper")
    tiles, requests, row, group = 13, 8, 16 * 2, 2
    cache = 2 * (tiles + requests) * 32 * row
    assert result.status == "ok"
    assert result.offchip_bytes == cache + requests * row * (2 * group + 2)
    assert result.offchip_bytes == bound.off_chip_traffic
    matmuls = 2 * 2 * group * 16 * 32 * tiles
    others = (4 + 1) * group * 32 * tiles + requests * (group * 32 + group * 16)
    assert result.flops == bound.flops == matmuls + others


def test_keys_and_values_may_differ_in_width():
    latent = AttentionShape("latent", model_dim=64, heads=4, kv_heads=1, head_dim=24, value_dim=16)
    work = attention(latent, LENGTHS, "dynamic")
    result = simulate(work.program)
    assert result.status == "ok"
    rows = 8 * 2 * (4 * 24 + 24 + 16 + 4 * 16)
    assert result.offchip_bytes == rows + 21 * 32 * (24 + 16) * 2
    assert result.offchip_bytes == work.metrics(memory="paper").off_chip_traffic


@pytest.mark.parametrize(
    ("batch", "groups", "lanes"),
    [
        (16, None, [16]),
        (24, None, [16, 8]),
        (64, None, [16] * 4),
        (80, (64, 16), [32, 16, 16, 16]),
        (48, (32, 16), [32, 16]),
        (48, None, [16, 16, 16]),
    ],
)
def test_coarse_blocks(batch, groups, lanes):
    work = attention(TINY, [3] * batch, "coarse", micro_batches=groups)
    assert [len(lane) for lane in work.lanes] == lanes
    assert work.regions == len(lanes)
    assert sorted(i for lane in work.lanes for i in lane) == list(range(batch))


def test_blocks_of_another_size():
    work = attention(TINY, LENGTHS, "coarse", regions=2, block=2)
    assert work.lanes == ((0, 1, 4, 5), (2, 3, 6, 7))


def test_the_second_micro_batch_starts_at_the_first_region():
    work = attention(TINY, [3] * 80, "coarse", micro_batches=(64, 16))
    assert work.lanes[0] == (*range(16), *range(64, 80))


def test_interleaved_deals_round_robin():
    work = attention(TINY, LENGTHS, "interleaved")
    assert work.lanes == ((0, 4), (1, 5), (2, 6), (3, 7))


def test_memory_ports_of_the_coarse_graph():
    wiring = st.wire(attention(TINY, [1] * 32, "coarse").program)
    assert names(wiring, "OffChipLoad") == [f"{w}.{r}" for w in ("query", "key", "value")
                                            for r in (0, 1)]  # fmt: skip
    assert names(wiring, "RandomOffChipLoad") == [
        "load_key.0", "load_value.0", "load_key.1", "load_value.1",
    ]  # fmt: skip
    assert names(wiring, "RandomOffChipStore") == [
        f"store_{w}.{r}" for r in (0, 1) for w in ("key", "value", "output")
    ]


@pytest.mark.parametrize("strategy", ["interleaved", "dynamic"])
def test_memory_ports_of_the_shared_loads(strategy):
    wiring = st.wire(attention(TINY, LENGTHS, strategy, regions=2).program)
    assert names(wiring, "OffChipLoad") == ["query", "key", "value"]
    assert names(wiring, "RandomOffChipLoad") == [
        "load_key.0", "load_value.0", "load_key.1", "load_value.1",
    ]  # fmt: skip


def test_units_of_one_region():
    wiring = st.wire(attention(TINY, LENGTHS[:4], "coarse").program)
    kinds = [u.kind for u in wiring.units]
    expected = {
        "CacheReadAddrGen": 2, "FilterLastTile": 2, "RandomOffChipLoad": 2, "Partition": 2,
        "Reassemble": 2, "RandomOffChipStore": 3, "Consumer": 3, "ExpandRef": 1, "UnaryMap": 2,
        "BinaryMap": 8, "BinaryMapAccum": 1, "Accum": 1, "MetadataGen": 3, "OffChipLoad": 3,
        "Flatten": 10,
    }  # fmt: skip
    assert {kind: kinds.count(kind) for kind in expected} == expected
    fans = sorted(len(u.outputs) for u in wiring.units if u.kind == "Broadcast")
    # one copy each of the two appended tiles; selectors, tiles with keys, weights; metadata
    assert fans == [1, 1, 2, 2, 2, 2, 2, 2, 2, 5, 6]
    written = [u.name.split("#")[0] for u in wiring.units if u.params.get("wb")]
    assert written == ["divide.0"]


def test_the_dynamic_graph_adds_one_signal_for_each_region():
    static, dynamic = (attention(TINY, LENGTHS, s).metrics() for s in ("interleaved", "dynamic"))
    assert dynamic.on_chip_memory - static.on_chip_memory == 4 * 8
    assert dynamic.off_chip_traffic == static.off_chip_traffic
    assert dynamic.flops == static.flops


def test_dynamic_serves_a_short_request_while_a_long_one_runs():
    lengths = [2000, *[10] * 15]
    dynamic, interleaved = (
        simulate(attention(TINY, lengths, s, regions=2).program) for s in ("dynamic", "interleaved")
    )
    served = {
        row["name"].split("#")[0]: row["firings"]
        for row in dynamic.units.select(["name", "firings"]).to_pylist()
    }
    assert served["store_output.1"] > served["store_output.0"]
    assert dynamic.cycles < interleaved.cycles


def test_as_many_requests_as_regions():
    work = attention(TINY, LENGTHS[:4], "dynamic")
    result = simulate(work.program)
    assert result.status == "ok"
    assert result.offchip_bytes == work.metrics(memory="paper").off_chip_traffic


def test_compute_counts_six_operators_of_each_region():
    for strategy, regions in (("coarse", 1), ("interleaved", 4), ("dynamic", 4)):
        work = attention(TINY, LENGTHS, strategy)
        assert work.allocated_compute == regions * 6 * 2048


@pytest.mark.parametrize(
    ("batch", "max_length", "groups"),
    [(16, 4672, None), (64, 6464, None), (80, 6528, (64, 16))],
)
def test_published_configuration(batch, max_length, groups):
    config = published_attention_config(batch, "coarse")
    assert (config["max_length"], config["micro_batches"]) == (max_length, groups)
    assert attention(kv_lengths=[1] * batch, **config).max_length == max_length


@pytest.mark.parametrize(
    ("batch", "longest", "max_length"),
    [(16, 4671, 4672), (16, 4672, 6528), (16, 7930, 8000), (64, 6445, 6464)],
)
def test_published_caches_hold_the_longest_request(batch, longest, max_length):
    assert published_attention_config(batch, "dynamic", longest)["max_length"] == max_length


def test_longer_requests_are_unpublished():
    with pytest.raises(ArgError, match="no published run of 64 requests has one of 6464 tokens"):
        published_attention_config(64, "coarse", 6464)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_lengths": [1, -2, 3, 4]}, r"kv_lengths\[1\] is -2, expected >= 0"),
        ({"kv_lengths": []}, "one integer for each request, found shape"),
        ({"kv_lengths": [[1, 2]]}, r"found shape \(1, 2\)"),
        ({"kv_lengths": [1.5, 2.5]}, "of float64"),
        ({"strategy": "static"}, "unknown strategy 'static'; use one of coarse, interleaved"),
        ({"regions": 0}, "regions must be an int >= 1, found 0"),
        ({"block": 0}, "block must be an int >= 1, found 0"),
        ({"kv_tile": 2.0}, r"kv_tile must be an int >= 1, found 2\.0"),
        ({"strategy": "interleaved", "regions": 3}, "8 requests to 3 regions, which leaves 2 over"),
        ({"strategy": "dynamic", "regions": 9}, "found only 8 requests. Choose regions <= 8"),
        ({"max_length": 64}, "holds the longest request of 64 tokens .* Use at least 96"),
        ({"max_length": 100}, "max_length must be a multiple of kv_tile 32"),
        ({"micro_batches": (4, 3)}, "sum to the 8 requests of kv_lengths, found a sum of 7"),
        ({"micro_batches": (8, 0)}, r"sizes >= 1 that sum"),
        ({"shape": "mixtral"}, "unknown attention model 'mixtral'; known: .*mixtral-8x7b"),
    ],
)
def test_bad_input(changes, message):
    arguments = {"shape": TINY, "kv_lengths": LENGTHS, "strategy": "coarse"} | changes
    with pytest.raises(ArgError, match=message):
        attention(**arguments)


def test_lengths_are_kept_as_given_and_cannot_be_changed():
    given = np.array(LENGTHS)
    work = attention(TINY, given, "coarse")
    given[0] = 99
    assert work.kv_lengths.tolist() == LENGTHS
    with pytest.raises(ValueError, match="read-only"):
        work.kv_lengths[0] = 1
