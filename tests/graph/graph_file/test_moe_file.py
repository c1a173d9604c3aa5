"""The one public file of which the bytes are known: a layer of 8 experts, generation A."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import sympy

import stepsim as st
from stepsim.errors import ArgError, GraphFileError
from stepsim.machine import load_machine
from tests.graph.graph_file.support import MOE, moe_routing, unalike
from tests.shared import needs_data

pytestmark = needs_data

COUNTS = {
    "BinaryMap": 32, "Flatten": 25, "DynOffChipLoad": 24, "Broadcast": 16, "Accum": 9,
    "Reshape": 8, "RepeatStatic": 8, "UnaryMap": 8, "BinaryMapAccum": 8, "RetileStreamify": 8,
    "SelectGen": 3, "OffChipLoad": 2, "FlatPartition": 2, "FlatReassemble": 1, "Promote": 1,
    "OffChipStore": 1,
}  # fmt: skip


def named(program: st.Program) -> dict[str, st.graph.Operator]:
    return {str(op.label): op for op in program.operators}


def test_operators_names_and_order():
    program = st.load_graph(MOE, routing=moe_routing())
    units = st.graph.wire(program).units
    labels = [u.operator.label for u in units]
    assert Counter(label.rsplit("_", 1)[0] for label in labels) == COUNTS
    assert sorted(int(label.rsplit("_", 1)[1]) for label in labels) == list(range(624, 780))
    assert labels[:4] == ["OffChipLoad_624", "Flatten_625", "FlatPartition_629", "SelectGen_626"]
    assert labels[-1] == "Broadcast_779"
    assert program.name == "test_moe_graph"


def test_shapes_edges_and_attributes():
    ops = named(st.load_graph(MOE, routing=moe_routing()))
    tokens, weights = ops["OffChipLoad_624"], ops["OffChipLoad_628"]
    assert (tokens.tensor.shape, str(tokens.tile)) == ((64, 128), "Tile[1x128 f32]")
    assert weights.tensor.shape == (64, 2)
    assert tokens.par_dispatch == 4
    load = ops["DynOffChipLoad_654"]
    assert (load.tensor.shape, load.shape, load.stride) == ((128, 448), (14, 1), (1, 1))
    assert str(ops["DynOffChipLoad_725"].tile) == "Tile[32x128 f32]"
    assert ops["RepeatStatic_646"].count == 14
    copy = ops["Broadcast_764"]
    assert [s.producer.label for s in copy.inputs] == ["Accum_631"]
    assert [s.producer for s in ops["RepeatStatic_646"].inputs] == [copy]
    assert load.inputs[0].key == (copy.id, 1)
    product = ops["BinaryMap_670"]
    assert [s.producer.label for s in product.inputs] == ["Broadcast_772", "Flatten_662"]
    assert (product.fn, product.compute_bw, product.write_back) == (st.fn.matmul, 1022, False)
    reduction = ops["BinaryMapAccum_734"]
    assert (str(reduction.init), reduction.rank) == ("zero(64x128)", 1)
    pack = ops["Accum_631"]
    assert (pack.fn, str(pack.init), pack.compute_bw) == (st.fn.pack_rows, "empty(0x128)", 1024)
    merge = ops["FlatReassemble_760"]
    assert [s.producer.label for s in merge.inputs[:-1]] == [
        f"BinaryMap_{i}" for i in range(751, 759)
    ]
    assert [str(d) for d in merge.outputs[0].shape] == ["1", "64", "2"]
    store = ops["OffChipStore_763"]
    assert (store.tensor_name, store.par_dispatch) == ("output", 4)
    assert [str(d) for d in store.inputs[0].shape] == ["1", "64", "1"]


@pytest.mark.parametrize("seed", [0, 1])
def test_it_runs_and_moves_the_bytes_of_its_formula(seed):
    indices = moe_routing(seed)
    program = st.load_graph(MOE, routing=indices)
    result = st.simulate(program)
    assert result.status == "ok"
    used = len(set(indices.ravel()))
    # Tokens and weights once, three matrices of an expert with a tile each, the output.
    expected = 64 * 128 * 4 + 64 * 2 * 4 + used * 3 * 128 * 448 * 4 + 64 * 128 * 4
    assert result.offchip_bytes == expected
    assert result.offchip_bytes == program.metrics().off_chip_traffic


def test_depths_and_memory_come_from_the_machine():
    program = st.load_graph(MOE, routing=moe_routing(), fifo_depth=None)
    cycles = [
        st.simulate(program, machine=load_machine("sda-1024", {"fifo.depth": depth})).cycles
        for depth in (2, 64)
    ]
    assert cycles[0] > cycles[1]


def test_arrays_and_routing_say_the_same(tmp_path):
    indices = moe_routing()
    hot = np.zeros((64, 8), np.int64)
    hot[np.arange(64)[:, None], indices] = 1
    each = np.eye(8, dtype=np.int64)[indices]
    arrays = {"SelectGen_626": hot, "SelectGen_627.npy": each, 759: hot.astype(np.float32)}
    given = st.load_graph(MOE, arrays=arrays)
    by_routing = st.load_graph(MOE, routing=indices)
    assert given.fingerprint() == by_routing.fingerprint()
    for name, array in (("626", hot), ("627", each), ("759", hot)):
        np.save(tmp_path / f"SelectGen_{name}.npy", array)
    assert st.load_graph(MOE, arrays=tmp_path).fingerprint() == given.fingerprint()
    (tmp_path / "graph.pb").write_bytes(MOE.read_bytes())
    beside = st.load_graph(tmp_path / "graph.pb")
    assert st.simulate(beside).cycles == st.simulate(given).cycles
    np.savez(tmp_path / "all.npz", **{f"SelectGen_{n}": a for n, a in (("626", hot), ("627", each),
                                                                       ("759", hot))})  # fmt: skip
    assert st.load_graph(MOE, arrays=tmp_path / "all.npz").fingerprint() == given.fingerprint()


def test_missing_arrays_are_all_named():
    with pytest.raises(GraphFileError) as caught:
        st.load_graph(MOE)
    text = str(caught.value)
    assert "'SelectGen_759' (id 759)" in text
    for name in ("626", "627", "759"):
        assert f"SelectGen_{name} (SelectGen_{name}.npy)" in text


def test_totals_without_selectors():
    """Only shapes are known: totals are formulas, a run names what it needs."""
    program = st.load_graph(MOE, arrays={"SelectGen_759": st.spec(64, 8)})
    ops = named(program)
    counts = [stream.shape[0].expr for stream in ops["FlatPartition_629"].outputs]
    assert len({c.name for c in counts}) == 8
    traffic = program.metrics().off_chip_traffic
    fixed = 2 * 64 * 128 * 4 + 64 * 2 * 4
    for filled in (0, 1, 64, 65):
        chunks = 8 * -(-filled // 64)
        found = traffic.xreplace({c: sympy.Integer(filled) for c in counts})
        assert found == fixed + chunks * 3 * 128 * 448 * 4
    with pytest.raises(
        st.errors.LoweringError, match=r"SelectGen_626 .*SelectGen_627 .*SelectGen_759"
    ):
        st.simulate(program)


def test_a_file_that_says_two_counts_are_equal_is_checked_in_the_run():
    """Rows and weights of an expert are multiplied one by one, so there are as many."""
    program = st.load_graph(MOE, arrays={"SelectGen_759": st.spec(64, 8)})
    stated = [a.text for a in program.assumptions]
    assert len(stated) == 8
    assert "BinaryMap_751" in stated[0]


def test_it_is_written_and_read_again(tmp_path):
    program = st.load_graph(MOE, routing=moe_routing())
    for generation in ("A", "B"):
        program.to_graph(tmp_path / "graph.pb", generation=generation)
        again = st.load_graph(tmp_path / "graph.pb")
        assert unalike(st.graph.wire(program), st.graph.wire(again)) == []
        assert st.simulate(again).cycles == st.simulate(program).cycles


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"routing": np.zeros((64, 2, 1), int)}, r"routing: expected indices \[tokens, k\]"),
        ({"routing": np.full((64, 2), 8)}, "names expert 8; the selectors are 8 wide"),
        ({"routing": moe_routing()[1:]}, "routing has 63 tokens of 2 experts"),
        ({"routing": [[0], [1, 2]]}, "routing: the rows of indices .* differ in length"),
        ({"depths": [3]}, "depths: expected a mapping from ids of operators"),
        ({"arrays": {"SelectGen_626": np.ones((64, 7))}}, "SelectGen_626.*expected .* 8 wide"),
        ({"arrays": {"SelectGen_626": np.full((64, 8), 0.5)}}, "SelectGen_626.*whole numbers"),
        ({"arrays": {"SelectGen_626": np.full((64, 8), 2)}}, "flags must be 0 or 1"),
        ({"arrays": "nowhere.npz"}, "nowhere.npz.*cannot be read"),
        ({"arrays": 3}, "arrays: expected a mapping"),
        ({"generation": "C"}, "generation: expected one of A, B"),
        ({"generation": "B", "routing": np.zeros((64, 1), int)}, "control_dtype .* number 3"),
    ],
)
def test_what_does_not_fit_is_reported(options, message):
    with pytest.raises(GraphFileError, match=message):
        st.load_graph(MOE, **options)


def test_an_expert_that_a_token_names_twice_is_reported():
    routing = moe_routing()
    routing[5] = 3
    with pytest.raises(GraphFileError, match=r"names an expert twice for token 5: \[3, 3\]"):
        st.load_graph(MOE, routing=routing)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, 2.0**63])
def test_numbers_that_are_no_integers_are_reported(odd):
    flags = np.ones((64, 8))
    flags[3, 2] = odd
    with pytest.raises(GraphFileError, match=r"SelectGen_626.*whole numbers"):
        st.load_graph(MOE, arrays={"SelectGen_626": flags})


def test_arrays_that_nobody_reads_are_reported():
    with pytest.raises(ArgError, match=r"no SelectGen.*arrays\['SelectGen_1'\]"):
        st.load_graph(MOE, routing=moe_routing(), arrays={"SelectGen_1": np.ones((1, 1))})
