"""Any number of requests on any number of regions: shares, totals, and both timing engines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError
from stepsim.lowering import lower
from stepsim.machine import load_machine
from stepsim.workloads import Attention, Built, Data, Decoder, Model, Moe, Workload
from stepsim.workloads.models import AttentionShape, MoEShape
from tests.engine_backend import run_engine
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import interpret
from tests.property_profile import profile
from tests.workloads.support import exact, run

HEADS = AttentionShape("tiny", model_dim=32, heads=4, kv_heads=2, head_dim=8)
EXPERTS = MoEShape("tiny", experts=4, active=2, model_dim=32, inner_dim=32)
STRATEGIES = ["coarse", "interleaved", "dynamic"]

LENGTHS = st.lists(st.integers(0, 100), min_size=1, max_size=9)
REGIONS = st.integers(1, 6)


def layer(strategy: str, regions: int) -> Decoder:
    return Decoder(
        model=Model.of(EXPERTS, HEADS), tile=4, strategy=strategy, tile_inter=16,
        attention_regions=regions,
    )  # fmt: skip


def routed(lengths: list[int]) -> Data:
    ids = np.array([[i % 3, 3] for i in range(len(lengths))])
    return Data.of(routing=ids, kv_lengths=lengths)


def check(built: Built, result: Any, data: Data) -> None:
    """The formulas say what the run did, and the reference interpreter does the same."""
    counted = exact(built, data)
    assert result.status == "ok"
    assert result.offchip_bytes == counted.off_chip_traffic
    assert result.flops == counted.flops
    _, network = lower(built.program, load_machine("sda-1024"), built.bindings(data))
    engine = run_engine(network)
    assert engine.cycles == result.cycles
    assert_same(engine, interpret(network), accounts=True, names=("engine", "interpreter"))


@pytest.mark.slow
@profile(20, 1000)
@given(LENGTHS, REGIONS, st.sampled_from(STRATEGIES), st.sampled_from([8, 32]))
def test_attention(lengths: list[int], regions: int, strategy: str, kv_tile: int) -> None:
    data = Data.of(kv_lengths=lengths)
    workload = Attention(model=HEADS, strategy=strategy, regions=regions, kv_tile=kv_tile)
    built, result = run(workload, data)
    check(built, result, data)


@pytest.mark.slow
@profile(6, 300)
@given(LENGTHS, REGIONS, st.sampled_from(STRATEGIES[1:]))
def test_decoder(lengths: list[int], regions: int, strategy: str) -> None:
    data = routed(lengths)
    built, result = run(layer(strategy, regions), data)
    check(built, result, data)


@profile(50)
@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 20), st.sampled_from(STRATEGIES))
def test_every_request_has_its_region(
    requests: int, regions: int, block: int, strategy: str
) -> None:
    size = block if strategy == "coarse" else 1
    given_block = block if strategy == "coarse" else None
    workload = Attention(model=HEADS, strategy=strategy, regions=regions, block=given_block)
    lanes = workload.build(Data.of(kv_lengths=[0] * requests)).lanes
    assert len(lanes) == min(-(-requests // size), regions)
    assert sorted(i for lane in lanes for i in lane) == list(range(requests))
    assert all(i // size % regions == r for r, lane in enumerate(lanes) for i in lane)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_regions_without_a_request_are_reported(strategy: str) -> None:
    data = Data.of(kv_lengths=[3, 70])
    block, shares = (
        (1, "2 blocks of up to 1 request;") if strategy == "coarse" else (None, "2 requests")
    )
    workload = Attention(model=HEADS, strategy=strategy, block=block, regions=2**40)
    built, result = run(workload, data)
    assert built.parameters["regions_built"] == 2
    note_text = f"2 of {2**40} regions are built: there are only {shares}"
    assert any(note.startswith(note_text) for note in built.notes)
    _, as_built = run(replace(workload, regions=2), data)
    assert result.cycles == as_built.cycles


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
def test_regions_of_a_decoder_without_a_request_are_reported(strategy: str) -> None:
    built = layer(strategy, 4).build(routed([3, 70, 5]))
    note_text = "3 of 4 regions of QKV generation are built: there are only 3 requests"
    assert note_text in built.notes
    one = layer(strategy, 4).build(routed([3]))
    assert "1 of 4 regions of QKV generation is built: there is only 1 request" in one.notes
    assert note_text not in layer(strategy, 3).build(routed([3, 70, 5])).notes


@pytest.mark.parametrize(
    "workload",
    [layer("dynamic", 2), Attention(model=HEADS), Moe(model=Model.of(EXPERTS, HEADS), tile=4)],
    ids=lambda workload: workload.name,
)
def test_no_request_is_refused(workload: Workload) -> None:
    with pytest.raises(ArgError, match=r"^[a-z]+: rows: expected at least 1 token or request"):
        workload.build(Data(rows=0))
