"""The MoE graphs node by node: order, broadcasts, parameters (they number the memory ports)."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError
from stepsim.workloads import Data, Moe
from stepsim.workloads.models import MoEShape
from tests.workloads.support import kinds_per_step

TINY = MoEShape("tiny", experts=3, active=2, model_dim=64, inner_dim=128)
TABLE = np.array([[0, 1], [1, 0], [0, 1], [1, 0], [0, 1]])  # expert 2 is idle


BATCH = Data.of(routing=TABLE)


def wired(tile):
    built = Moe(model=TINY, tile=tile, compute_bw=100, pack_bw=10).build(BATCH)
    return built, st.wire(built.program, built.bindings(BATCH))


STEPS = [
    "OffChipLoad", "Flatten", "SelectGen", "Partition", "Reshape", "Flatten", "Accum",
    "RepeatStatic", "DynOffChipLoad", "Flatten", "BinaryMap", "DynOffChipLoad", "Flatten",
    "BinaryMap", "UnaryMap", "BinaryMap", "DynOffChipLoad", "Flatten", "BinaryMapAccum",
    "RetileStreamify", "OffChipLoad", "SelectGen", "Partition", "BinaryMap", "SelectGen",
    "Reassemble", "Accum", "Reshape", "OffChipStore", "Broadcast",
]  # fmt: skip


@pytest.mark.parametrize("tile", [2, "dynamic"])
def test_every_step_is_built_for_all_experts_before_the_next(tile):
    _, wiring = wired(tile)
    assert kinds_per_step(wiring) == STEPS
    per_expert = [u for u in wiring.units if u.name.startswith("load_up")]
    assert [u.name.split("#")[0] for u in per_expert] == ["load_up.0", "load_up.1", "load_up.2"]


def test_read_ports_end_with_the_router_scales():
    _, wiring = wired(2)
    loads = [u.name.split("#")[0] for u in wiring.units if "Load" in u.kind]
    assert loads == [
        "activations", "load_up.0", "load_up.1", "load_up.2", "load_gate.0", "load_gate.1",
        "load_gate.2", "load_down.0", "load_down.1", "load_down.2", "router_scales",
    ]  # fmt: skip


def test_two_broadcasts_for_each_expert_in_reader_order():
    _, wiring = wired(2)
    reads = {c: u.name.split("#")[0] for u in wiring.units for c in u.inputs}
    copies = [u for u in wiring.units if u.kind == "Broadcast"]
    assert len(copies) == 6
    first = next(u for u in copies if u.name.startswith("broadcast(pack.1"))
    assert [reads[c] for c in first.outputs] == [
        "repeat.1",
        "load_up.1",
        "load_gate.1",
        "load_down.1",
    ]
    second = next(u for u in copies if u.name.startswith("broadcast(repeat.1"))
    assert [reads[c] for c in second.outputs] == ["matmul_up.1", "matmul_gate.1"]


def by_name(wiring):
    """Parameters of units, functions by their names."""

    def said(params):
        return params | {"fn": params["fn"]["name"]} if "fn" in params else params

    return {u.name.split("#")[0]: said(u.params) for u in wiring.units}


def test_parameters_of_the_static_layer():
    params = by_name(wired(2)[1])
    assert params["activations"] == {
        "tile": [1, 64], "view": [5, 1], "par": 1, "bpe": 2, "lead": False,
    }  # fmt: skip
    assert params["route"]["selectors"] == [[0, 1]] * 5
    assert params["route"]["levels"] == [0] * 5
    assert params["scale_route"]["selectors"][:4] == [[0], [1], [1], [0]]
    assert params["scale_route"]["levels"] == [0, 1] * 5
    assert params["dispatch"] == {"rank": 0, "switch": [1, 1, 1], "wb": False}
    assert params["chunk.0"] == {
        "s": 0, "q": 2, "ri": 0, "outer": True, "wb": False, "bpe": 2, "pad": [1, 64],
    }  # fmt: skip
    assert params["chunks.0"] == {"lo": 1, "hi": 2}
    assert params["pack.0"] == {
        "fn": "pack_rows", "bw": 10, "rank": 1, "init": [[0, 64, 2]], "wb": False,
    }  # fmt: skip
    assert params["repeat.0"] == {"f": 2}
    assert params["load_up.0"] == {"tile": [64, 64], "view": [2, 1], "par": 1, "bpe": 2}
    assert params["load_down.0"] == {"tile": [64, 64], "view": [2, 1], "par": 1, "bpe": 2}
    assert params["matmul_up.0"] == {"fn": "matmul", "bw": 100, "wb": False}
    assert params["silu.0"] == {"fn": "silu", "bw": 100, "wb": False}
    assert params["matmul_down.0"] == {
        "fn": "matmul", "bw": 100, "rank": 1, "init": [[2, 64, 2]], "wb": False,
    }  # fmt: skip
    assert params["unpack.0"] == {"split_row": True, "filter": True}
    assert params["scale.0"] == {"fn": "mul", "bw": 100, "wb": False}
    assert params["combine"] == {"rank": 0, "switch": [1, 1, 1], "wb": False}
    assert params["sum_experts"] == {
        "fn": "add", "bw": 100, "rank": 1, "init": [[1, 64, 2]], "wb": False,
    }  # fmt: skip
    assert params["rows"] == {"s": 0, "q": 1, "ri": 0, "outer": False, "wb": True, "bpe": 2}
    assert params["store"] == {"tile": [1, 64], "par": 1}


def test_parameters_that_dynamic_tiling_changes():
    static, dynamic = by_name(wired(2)[1]), by_name(wired("dynamic")[1])
    changed = {n.split(".")[0] for n in dynamic if static.get(n) != dynamic[n]}
    assert changed == {"chunk", "one_chunk", "matmul_down"}
    assert dynamic["chunk.0"]["q"] == 1
    assert dynamic["chunk.0"]["outer"] is True
    assert dynamic["one_chunk.0"] == {"lo": 0, "hi": 1}
    assert dynamic["matmul_down.0"]["init"] == [[0, 64, 2]]


def test_multiplication_operands_are_in_the_published_order():
    _, wiring = wired(2)
    writes = {c: u.name.split("#")[0] for u in wiring.units for c in u.outputs}
    inputs = {u.name.split("#")[0]: [writes[c] for c in u.inputs] for u in wiring.units}
    assert inputs["gate.0"] == ["matmul_up.0", "silu.0"]
    assert inputs["scale.1"] == ["scales", "unpack.1"]
    assert inputs["combine"] == ["scale.0", "scale.1", "scale.2", "collect"]
    assert inputs["matmul_down.2"] == ["gate.2", "down.2"]


def test_shapes_in_terms_of_the_counts():
    work, wiring = wired(2)
    shapes = {c.name.split("#")[0]: c.stream.describe() for c in wiring.fifos}
    assert shapes["chunk.0"] == "Stream[Min(1, n0), ceil(n0/2), 2] of Tile[1x64 bf16]"
    assert shapes["pack.0"] == "Stream[ceil(n0/2)] of Tile[2x64 bf16]"
    assert shapes["unpack.0"] == "Stream[n0] of Tile[1x64 bf16]"
    assert shapes["combine"] == "Stream[5, 2] of Tile[1x64 bf16]"
    assert shapes["rows"] == "Stream[5, 1] of Tile[1x64 bf16]"
    assert work.program.assumptions == []


def test_the_routing_stays_open():
    built, _ = wired(2)
    assert built.routing.indices is None
    assert built.bindings(Data(rows=5)) == {}
    assert "tiny" in built.program.name


@pytest.mark.parametrize(
    ("model", "batch", "tile", "expected"),
    [
        ("mixtral-8x7b", 64, 16, (4096, 4096, 2)),
        ("qwen3-30b-a3b", 1024, "dynamic", (6400, 1024, 1024)),
        ("qwen3-30b-a3b", 64, "dynamic", (6400, 1024, 2)),
    ],
)
def test_published_configurations(model, batch, tile, expected):
    found = Moe.of(model=model, tile=tile, config="published", data=Data(rows=batch))
    assert (found.compute_bw, found.pack_bw, found.fifo_depth) == expected


def test_shapes_are_checked():
    with pytest.raises(ArgError, match="active <= experts"):
        MoEShape("odd", experts=2, active=3, model_dim=8, inner_dim=8)
