"""The workload of a step: its order, what it shares with data, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as hs

from stepsim.errors import ArgError, LoweringError
from stepsim.simulation import prepare, with_metadata
from stepsim.workloads import KV_LENGTHS, NEW_TOKENS, ROUTING, Data, ParameterError, Step
from stepsim.workloads.models import Dense, LatentHeads
from stepsim.workloads.models.windows import Windows
from tests.property_profile import profile
from tests.workloads.step_values import model_of
from tests.workloads.support import run, used

NEW, CACHED = [1, 7, 1, 4], [5, 0, 40, 31]
CHOSEN = np.array([[i % 3, 3] for i in range(sum(NEW))])
DATA = Data.of(routing=CHOSEN, kv_lengths=CACHED, new_tokens=NEW)


def step(**changes: Any) -> Step:
    usual = {"model": model_of(), "query_tile": 4, "kv_tile": 8, "attention_regions": 2}
    return Step.of(**used(Step, usual, changes))


def test_without_new_tokens_every_request_decodes() -> None:
    decode = Data.of(routing=CHOSEN[:4], kv_lengths=CACHED)
    same = Data.of(routing=CHOSEN[:4], kv_lengths=CACHED, new_tokens=np.ones(4, dtype=int))
    assert decode.tokens == 4
    programs = [step().build(data).program.fingerprint() for data in (decode, same)]
    assert programs[0] == programs[1]


def test_a_longer_query_tile_reads_the_cache_less_often() -> None:
    data = Data.of(routing=np.tile([0, 1], (16, 1)), kv_lengths=[32], new_tokens=[16])
    found = [run(step(query_tile=rows), data)[1].offchip_bytes for rows in (4, 8, 16)]
    tile = 8 * 16 * 2 * 2 * 2  # rows, columns, keys and values, KV heads, bytes
    assert found[0] - found[1] == (5 + 5 + 6 + 6 - 5 - 6) * tile
    assert found[1] - found[2] == 5 * tile


def test_dynamic_regions_even_out_a_long_chunk() -> None:
    new, cached = [1] * 7 + [64], [900] + [8] * 7
    chosen = np.tile([0, 1], (71, 1))
    data = Data.of(routing=chosen, kv_lengths=cached, new_tokens=new)
    cycles = {
        strategy: run(step(strategy=strategy, attention_bw=64), data)[1].cycles
        for strategy in ("coarse", "interleaved", "dynamic")
    }
    assert cycles["dynamic"] <= min(cycles.values())


def test_a_dense_network_has_the_bandwidth_of_products() -> None:
    dense = model_of(experts=None, dense=Dense(64))
    assert (step().network_bw, step(model=dense).network_bw) == (1024, 20480)
    assert step(model=dense, moe_bw=7).network_bw == 7


@hs.composite
def _steps_of_equal_new_tokens(draw: Any) -> tuple[Step, Data, Data]:
    """A layer, and two batches that differ in their cached tokens."""
    model = model_of(**draw(hs.sampled_from([
        {}, {"windows": Windows(9)}, {"experts": None, "dense": Dense(64)},
        {"heads": LatentHeads(heads=4, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8,
                              v_head_dim=8)},
    ])))  # fmt: skip
    made = step(
        model=model,
        strategy=draw(hs.sampled_from(["coarse", "interleaved", "dynamic"])),
        attention_regions=draw(hs.integers(1, 3)),
        part=draw(hs.sampled_from(["layer", "layer+head"])),
    )
    new = draw(hs.lists(hs.integers(1, 9), min_size=1, max_size=4))
    cached = hs.lists(hs.integers(0, 60), min_size=len(new), max_size=len(new))
    routing = np.tile([0] if model.experts is None else [0, 1], (sum(new), 1))
    first, second = (
        Data.of(routing=routing, kv_lengths=draw(cached), new_tokens=new) for _ in range(2)
    )
    return made, first, second


@pytest.mark.slow
@given(_steps_of_equal_new_tokens())
@profile(16, 600)
def test_programs_of_equal_new_tokens_differ_in_integers_alone(
    drawn: tuple[Step, Data, Data],
) -> None:
    workload, first, second = drawn
    one, other = workload.build(first), workload.build(second)
    made = with_metadata(prepare(one.program), one.integers(second))
    bindings = one.bindings(second), other.bindings(second)
    assert made.image(bindings[0]).digest() == prepare(other.program).image(bindings[1]).digest()
    counts = np.array([*second.new, 1])
    routing = np.zeros((counts.sum(), 2), dtype=int)
    fewer = Data.of(routing=routing, kv_lengths=0 * counts, new_tokens=counts)
    with pytest.raises(LoweringError, match="integers, expected"):
        with_metadata(prepare(one.program), one.integers(fewer))


def test_traces_that_a_step_needs() -> None:
    assert Step.needed({"part": "head"}) == ()
    assert Step.needed({}) == (ROUTING, KV_LENGTHS, NEW_TOKENS)
    assert Data.of(rows=3).missing(Step.inputs) == [ROUTING, KV_LENGTHS]
    dense = {"model": model_of(experts=None, dense=Dense(64))}
    alone = Step.implied(dense, Data.of(kv_lengths=[3, 4], new_tokens=[2, 5]))
    assert alone.routing is not None
    assert alone.routing.shape == (7, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategy": "deal"}, "strategy: expected one of coarse, interleaved, dynamic, found"),
        ({"query_tile": 0}, "query_tile: expected a whole number from 1"),
        ({"tile_inter": 60}, "tile_inter: expected a divisor of the inner dimension 64"),
        ({"block": 3}, "block: dynamic distributes single tasks, only coarse has blocks"),
        ({"network": "dense"}, "network: expected experts, since tiny has no dense layers"),
        (
            {"network": "experts", "model": model_of(experts=None, dense=Dense(64))},
            "network: expected dense, since tiny has no experts",
        ),
        ({"attention_layer": 0}, "attention_layer: expected no layer, since the attention of all"),
        (
            {"attention_layer": 4, "model": model_of(layers=4, windows=Windows(8, (0,)))},
            "attention_layer: expected one of the 4 layers of tiny from 0, found 4",
        ),
        (
            {"part": "layer+head", "model": model_of(vocabulary=None)},
            "part: expected no head, since the vocabulary of tiny is unknown",
        ),
        ({"part": "head", "kv_tile": 16}, "kv_tile: has no effect on the head alone; leave it out"),
    ],
)
def test_bad_parameters(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Step.of(model=changes.pop("model", model_of()), **changes).build(DATA)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"new_tokens": [1, 0]}, r"new_tokens\[1\]: expected a number of tokens from 1, found 0"),
        ({"new_tokens": [[1]]}, r"new_tokens: expected one whole number for each request, found"),
        ({"new_tokens": [1.5]}, r"new_tokens: expected one whole number for each request, found"),
        (
            {"new_tokens": [1, 2], "kv_lengths": [3]},
            "new_tokens: expected one number for each of the 1 requests of kv_lengths, found 2",
        ),
        (
            {"new_tokens": [1, 2], "routing": [[0], [1]]},
            "routing: expected a row for each of the 3 new tokens of 2 requests, found 2",
        ),
        ({"new_tokens": [1, 2], "rows": 3}, "rows: expected the 2 requests of new_tokens, found 3"),
    ],
)
def test_bad_data(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgError, match=message):
        Data.of(**given)


@pytest.mark.parametrize(
    ("part", "note"),
    [
        ("layer", "8 of 32 regions of QKV generation are built: there are only 8 blocks of new to"),
        ("head", "4 of 32 regions of the head are built: there are only 4 requests with a row"),
    ],
)
def test_regions_without_work_are_noted(part: str, note: str) -> None:
    more = {"query_tile": 2, "tile_inter": 8} if part == "layer" else {}
    made = step(attention_regions=32, part=part, **more).build(DATA)
    assert any(one.startswith(note) for one in made.notes), made.notes
    made = step(attention_regions=4, part=part, **more).build(DATA)
    assert not any("are built" in one for one in made.notes), made.notes


def test_notes_say_how_experts_are_divided() -> None:
    data = Data.of(routing=CHOSEN, kv_lengths=CACHED, new_tokens=NEW)
    notes = [step(tp=2, ep=ep, tile_inter=8).build(data).notes[-1] for ep in (1, 2)]
    assert notes == ["on 2 chips: tp 2", "on 2 chips: tp 2, experts by ep 2"]
