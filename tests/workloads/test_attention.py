"""Decode attention: who serves whom, the graph, memory ports, bytes, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError
from stepsim.functional import evaluate
from stepsim.machine import load_machine
from stepsim.simulation import simulate
from stepsim.workloads import Attention, Data, ParameterError, resolve
from stepsim.workloads.models import AttentionShape
from tests.on_chips import in_order
from tests.workloads.support import exact, run

TINY = AttentionShape("tiny", model_dim=64, heads=4, kv_heads=2, head_dim=16)
LENGTHS = [5, 0, 40, 31, 32, 63, 64, 7]
BATCH = Data.of(kv_lengths=LENGTHS)
STRATEGIES = ["coarse", "interleaved", "dynamic"]


def batch(lengths) -> Data:
    return Data.of(kv_lengths=lengths)


def build(strategy, data=BATCH, **given):
    return Attention(model=TINY, strategy=strategy, **given).build(data)


def names(wiring, kind: str) -> list[str]:
    return [u.name.split("#")[0] for u in wiring.units if u.kind == kind]


def test_a_request_takes_the_tiles_of_its_tokens_and_the_new_one():
    built = build("interleaved")
    wiring = st.wire(built.program)
    (tiles,) = (u for u in wiring.units if u.name.startswith("tiles#") and "values" in u.params)
    assert tiles.params["values"] == [1, 1, 2, 1, 2, 2, 3, 1]
    assert built.parameters["max_length"] == 96


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_moves_the_bytes_and_flops_of_the_formula(strategy):
    built, result = run(Attention(model=TINY, strategy=strategy), BATCH)
    bound = exact(built, BATCH)
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
    built, result = run(Attention(model=latent, strategy="dynamic"), BATCH)
    assert result.status == "ok"
    rows = 8 * 2 * (4 * 24 + 24 + 16 + 4 * 16)
    assert result.offchip_bytes == rows + 21 * 32 * (24 + 16) * 2
    assert result.offchip_bytes == exact(built, BATCH).off_chip_traffic


@pytest.mark.parametrize(
    ("requests", "groups", "lanes"),
    [
        (16, None, [16]),
        (24, None, [16, 8]),
        (64, None, [16] * 4),
        (70, None, [22, 16, 16, 16]),
        (80, (64, 16), [32, 16, 16, 16]),
        (48, (32, 16), [32, 16]),
        (48, None, [16, 16, 16]),
    ],
)
def test_coarse_blocks(requests, groups, lanes):
    built = build("coarse", batch([3] * requests), micro_batches=groups)
    assert [len(lane) for lane in built.lanes] == lanes
    assert built.parameters["regions_built"] == len(lanes)
    assert sorted(i for lane in built.lanes for i in lane) == list(range(requests))
    assert bool(built.notes) == (len(lanes) < 4)


def test_blocks_of_another_size():
    built = build("coarse", regions=2, block=2)
    assert built.lanes == ((0, 1, 4, 5), (2, 3, 6, 7))
    assert built.parameters["block"] == 2


def test_the_second_micro_batch_starts_at_the_first_region():
    built = build("coarse", batch([3] * 80), micro_batches=(64, 16))
    assert built.lanes[0] == (*range(16), *range(64, 80))


def test_interleaved_deals_round_robin():
    built = build("interleaved")
    assert built.parameters["block"] is None
    assert built.lanes == ((0, 4), (1, 5), (2, 6), (3, 7))


def test_memory_ports_of_the_coarse_graph():
    wiring = st.wire(build("coarse", batch([1] * 32)).program)
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
    wiring = st.wire(build(strategy, regions=2).program)
    assert names(wiring, "OffChipLoad") == ["query", "key", "value"]
    assert names(wiring, "RandomOffChipLoad") == [
        "load_key.0", "load_value.0", "load_key.1", "load_value.1",
    ]  # fmt: skip


def test_units_of_one_region():
    wiring = st.wire(build("coarse", batch(LENGTHS[:4])).program)
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
    static, dynamic = (build(s).published(BATCH) for s in ("interleaved", "dynamic"))
    assert dynamic.onchip_bytes - static.onchip_bytes == 4 * 8
    assert dynamic.offchip_bytes == static.offchip_bytes
    assert dynamic.flops == static.flops


def test_dynamic_serves_a_short_request_while_a_long_one_runs():
    lengths = [2000, *[10] * 15]
    dynamic, interleaved = (
        run(Attention(model=TINY, strategy=s, regions=2), batch(lengths))[1]
        for s in ("dynamic", "interleaved")
    )
    served = {
        row["name"].split("#")[0]: row["firings"]
        for row in dynamic.units.select(["name", "firings"]).to_pylist()
    }
    assert served["store_output.1"] > served["store_output.0"]
    assert dynamic.cycles < interleaved.cycles


def test_as_many_requests_as_regions():
    data = batch(LENGTHS[:4])
    built, result = run(Attention(model=TINY, strategy="dynamic"), data)
    assert result.status == "ok"
    assert result.offchip_bytes == exact(built, data).off_chip_traffic


def test_compute_counts_six_operators_of_each_region():
    for strategy, regions in (("coarse", 1), ("interleaved", 4), ("dynamic", 4)):
        allocated = build(strategy).program.metrics().allocated_compute
        assert allocated == regions * 6 * 2048


def published(strategy, lengths, **given):
    return resolve(
        Attention, {"model": "qwen3-30b-a3b", "strategy": strategy} | given,
        config="published", data=[batch(lengths)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("requests", "max_length", "groups"),
    [(16, 4672, None), (64, 6464, None), (80, 6528, (64, 16))],
)
def test_published_configuration(requests, max_length, groups):
    found = published("coarse", [1] * requests)
    assert found.workload.max_length == max_length
    assert found.workload.micro_batches == groups
    assert found.workload.heads.attention.head_dim == 64
    built = found.workload.build(batch([1] * requests))
    assert built.parameters["max_length"] == max_length


@pytest.mark.parametrize(
    ("requests", "longest", "max_length"),
    [(16, 4671, 4672), (16, 4672, 6528), (16, 7930, 8000), (64, 6445, 6464)],
)
def test_published_caches_hold_the_longest_request(requests, longest, max_length):
    found = published("dynamic", [longest] + [0] * (requests - 1))
    assert found.workload.max_length == max_length


def test_a_part_of_a_batch_reserves_what_the_whole_batch_did():
    data = Data.of(kv_lengths=[1] * 16, whole=64)
    found = Attention.of(model="qwen3-30b-a3b", config="published", data=data)
    assert found.max_length == 6464


@pytest.mark.parametrize(
    ("given", "lengths", "message"),
    [
        ({}, [6464] + [0] * 63, "no published run of 64 requests reserves caches for one of 6464"),
        ({"model": "mixtral-8x7b"}, [1], "there is no published experiment of mixtral-8x7b"),
    ],
)
def test_what_was_not_published_is_refused(given, lengths, message):
    with pytest.raises(ParameterError, match=f"^config: {message}"):
        published("coarse", lengths, **given)


def test_a_given_size_of_caches_needs_no_published_one():
    found = published("coarse", [6464] + [0] * 63, max_length=8000)
    assert found.workload.max_length == 8000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategy": "static"}, "strategy: expected one of coarse, interleaved, dynamic, found"),
        ({"regions": 0}, "regions: expected a whole number from 1, found 0"),
        ({"block": 0}, "block: expected a whole number from 1, found 0"),
        ({"kv_tile": 2.0}, r"kv_tile: expected a whole number from 1, found 2\.0"),
        ({"strategy": "dynamic", "block": 2}, "block: dynamic distributes single requests, only"),
        ({"max_length": 64}, "max_length: .*longest request of 64 .*found 64; the smallest is 96"),
        ({"max_length": 100}, "max_length: expected a multiple of the KV tile of 32 .*found 100"),
        ({"micro_batches": (4, 3)}, r"add up to the 8 requests, found 4\+3 = 7"),
        ({"micro_batches": (8, 0)}, "micro_batches: expected whole numbers from 1 joined by"),
    ],
)
def test_bad_parameters(changes, message):
    arguments = {"model": TINY, "strategy": "coarse"} | changes
    with pytest.raises(ParameterError, match=message):
        Attention(**arguments).build(BATCH)


def test_all_that_does_not_fit_is_reported_at_once():
    workload = Attention(model=TINY, strategy="interleaved", regions=3, block=2, max_length=5)
    with pytest.raises(ParameterError) as caught:
        workload.build(BATCH)
    assert [name for name, _ in caught.value.problems] == ["max_length", "block"]


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, -2, 3, 4], r"kv_lengths\[1\]: expected a length from 0, found -2"),
        ([], "one whole number for each request, found shape"),
        ([[1, 2]], r"found shape \(1, 2\)"),
        ([1.5, 2.5], "of float64"),
    ],
)
def test_bad_lengths(lengths, message):
    with pytest.raises(ArgError, match=message):
        batch(lengths)


def test_lengths_are_kept_as_given_and_cannot_be_changed():
    given = np.array(LENGTHS)
    data = batch(given)
    given[0] = 99
    assert data.lengths.tolist() == LENGTHS
    with pytest.raises(ValueError, match="read-only"):
        data.lengths[0] = 1


# several chips

CHIPS = {
    "clock_ghz": 1, "chips.count": 4, "chips.topology": "ring", "chips.gib_per_s": 50,
    "chips.latency_ns": 500,
}  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("tp", "dp"), [(2, 1), (1, 4), (2, 2)])
def test_values_on_chips_are_those_of_one(strategy, tp, dp):
    """With one region all rows of a group are in one tensor."""
    given = {"regions": 1, "block": len(LENGTHS)} if strategy == "coarse" else {"regions": 1}
    alone = build(strategy, **given)
    rng = np.random.default_rng(0)
    tensors = {op.tensor.name: op.tensor for op in alone.program.operators if hasattr(op, "tensor")}
    arrays = {
        name: rng.normal(size=tensor.shape).astype("f4") / 4
        for name, tensor in tensors.items()
        if not name.startswith("output")
    }
    (wanted,) = _outputs(alone, arrays)
    requests = len(LENGTHS)
    wanted = wanted.reshape(requests, 2, -1)
    built = build(strategy, **given, tp=tp, dp=dp)
    parts = {}
    for d in range(dp):
        mine = np.arange(requests)[d::dp]
        for t in range(tp):
            number = d * tp + t
            for name, whole in arrays.items():
                own = whole.reshape(requests, -1, whole.shape[1])[mine]
                if name.startswith("query"):
                    own = np.split(own, tp, axis=1)[t]
                elif not name.startswith("cache"):
                    # One row for each request, in a tensor as large as that of the queries.
                    rows = whole[mine] if strategy != "coarse" else own.reshape(-1, own.shape[2])
                    own = np.resize(
                        rows, (len(mine) * _rows(built, name, number, mine), whole.shape[1])
                    )
                parts[f"{name}@{number}" if number else name] = own.reshape(-1, whole.shape[1])
    found = _outputs(built, parts)
    assert len(found) == tp * dp
    for number, one in enumerate(found):
        d, t = divmod(number, tp)
        expected = np.split(wanted[d::dp], tp, axis=1)[t]
        np.testing.assert_allclose(one.reshape(expected.shape), expected, rtol=2e-5, atol=1e-6)


def _rows(built, name, number, mine):
    """Rows of the tensor of a name on a chip for each request."""
    own = f"{name}@{number}" if number else name
    (tensor,) = {op.tensor for op in built.program.operators if _reads(op, own)}
    return tensor.shape[0] // len(mine)


def _reads(op, name):
    return hasattr(op, "tensor") and op.tensor.name == name


def _outputs(built, arrays):
    done = evaluate(built.program, arrays, decisions=in_order(built.program), scalar="f32")
    return [done.stored[name] for name in sorted(done.stored) if name.startswith("output")]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("tp", "dp"), [(2, 1), (1, 4), (2, 2)])
def test_chips_divide_queries_and_requests_and_copy_caches(strategy, tp, dp):
    machine = load_machine("sda-1024", CHIPS)
    alone = build(strategy)
    workload = Attention(model=TINY, strategy=strategy, tp=tp, dp=dp)
    built = workload.build_for(BATCH, machine)
    assert {op.chip for op in built.program.operators} == set(range(tp * dp))
    one = simulate(alone.program, machine, bindings=alone.bindings(BATCH))
    run = simulate(built.program, machine, bindings=built.bindings(BATCH))
    assert run.status == "ok"
    assert run.flops == one.flops
    assert run.cycles < one.cycles
    # Each member reads and writes caches; of queries and outputs they have parts.
    width, bytes_each = TINY.head_dim, 2
    divided = len(LENGTHS) * 2 * 2 * width * bytes_each
    assert run.offchip_bytes - divided == tp * (one.offchip_bytes - divided)
    assert sum(chip["sent_bytes"] for chip in run.chips().to_pylist()) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tp": 3}, "tp: expected a divisor of the 2 query heads of a KV head of tiny, found 3"),
        ({"dp": 9}, "dp: expected a request for each group at least, found 8 requests"),
        (
            {"dp": 2, "strategy": "coarse", "micro_batches": (4, 4)},
            "micro_batches: micro-batches are those of one group, and dp is 2; leave it out",
        ),
    ],
)
def test_chips_that_do_not_fit_are_named(changes, message):
    with pytest.raises(ParameterError, match=message):
        Attention(model=TINY, **changes).build(BATCH)
    with pytest.raises(ParameterError, match="dp: expected a machine of 2 chips for dp 2"):
        Attention(model=TINY, dp=2).build_for(BATCH, load_machine("sda-1024"))
