"""Networks of hardware units from programs, and runs of programs at the hardware level."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError, LoweringError, MachineError
from stepsim.hardware import Machine, Network, network_of
from stepsim.workloads import Data, Swiglu
from tests.shared import DATA, recorded

RECORDED = DATA / "hdl" / "endtoend.csv"


def layer(batch: int, hidden: int, inner: int, tile: int, tile_inter: int) -> st.Program:
    sizes = {"batch": batch, "hidden": hidden, "intermediate": inner}
    return Swiglu(tile=tile, tile_inter=tile_inter, **sizes).build(Data()).program


@pytest.mark.parametrize(
    "sizes", [(64, 256, 512, 16, 16), (64, 256, 512, 64, 256), (48, 48, 96, 16, 32)]
)
@pytest.mark.parametrize("sink", ["writer", "printer"])
def test_the_layer_of_the_validation(sizes, sink):
    program = layer(*sizes)
    found, wanted = network_of(program, sink=sink), st.hardware.swiglu(*sizes, sink=sink)

    def shape(network: Network) -> Counter[Any]:
        said = {
            unit.name: (unit.kind, tuple(sorted(unit.values.items())), unit.dims, unit.function)
            for unit in network.units
        }
        ends = {f: said[u.name] for u in network.units for f in u.outputs}
        heads = {f: said[u.name] for u in network.units for f in u.inputs}
        return Counter(
            (ends.get(fifo.name), heads.get(fifo.name), fifo.depth, fifo.holds)
            for fifo in network.fifos
        )

    assert shape(found) == shape(wanted)
    assert len(found.units) == (76 if sink == "writer" else 77)


def _rows() -> Iterator[Any]:
    if not RECORDED.is_file():
        return
    with RECORDED.open(newline="") as file:
        for row in csv.DictReader(file):
            known = row["cycles"].isdigit() and row["status"] == "ok"
            if row["case"].startswith(("pub", "art")) or (known and int(row["cycles"]) < 4000):
                yield pytest.param(row, id=row["case"])


@recorded(RECORDED)
@pytest.mark.parametrize("row", list(_rows()))
def test_programs_take_the_recorded_cycles(row):
    program = layer(*(int(row[name]) for name in ("B", "D", "F", "tile_b", "tile_inter")))
    if row["sink"] == "writer":
        result = st.hardware.simulate(program)
        assert result.flops == program.metrics().flops
        assert result.offchip_bytes == program.metrics().off_chip_traffic
        run = result.hardware
    else:
        run = st.hardware.simulate(network_of(program, sink="printer"))
    assert (run.status, run.cycles) == (row["status"], int(row["cycles"]))
    found = (
        run.reads,
        run.writes,
        *(run.dram_commands[name] for name in ("act", "pre", "rd", "wr")),
    )
    names = ("reads_sent", "writes_sent", "dram_act", "dram_pre", "dram_rd", "dram_wr")
    assert found == tuple(int(row[name]) for name in names)


def f32(*shape: int) -> st.graph.TensorSpec:
    return st.spec(*shape, dtype="f32")


def gemm(rows: int, cols: int, deep: int, tile: int) -> st.Program:
    """``A x B`` by output tiles, the inner dim in steps of a tile."""
    m, n, k = rows // tile, cols // tile, deep // tile
    with st.Program("gemm", compute_bw=8192) as program:
        a = st.linear_load(f32(rows, deep), (tile, tile), shape=(m, n, k), stride=(k, 0, 1))
        b = st.linear_load(f32(deep, cols), (tile, tile), shape=(m, n, k), stride=(0, 1, n))
        st.linear_store(st.map_accum(st.fn.matmul, a, b, 1), "c")
    return program


@pytest.mark.parametrize("tile", [16, 32])
def test_a_gemm(tile):
    program = gemm(64, 96, 128, tile)
    result = st.hardware.simulate(program)
    assert result.status == "ok"
    counts = Counter({u.function: u.firings for u in result.hardware.units.values() if u.function})
    assert counts["product"] == 4 * 6 * 8
    assert result.flops == 2 * 64 * 96 * 128 == 2 * 16**3 * counts["product"]
    writer = next(u for u in result.hardware.units.values() if u.kind == "writer")
    assert writer.firings == 4 * 6
    assert st.hardware.simulate(program.downtile()).cycles == result.cycles


def attention() -> st.Program:
    """``exp(Q K^T) V`` of one tile of 32 queries, 64 keys and 48 columns."""
    with st.Program("attention tile", compute_bw=8192) as program:
        q, k, v = (
            st.linear_load(f32(rows, 48), (rows, 48), label=what).flatten(0, 1)
            for what, rows in (("q", 32), ("k", 64), ("v", 64))
        )
        weights = st.map(st.fn.exp, st.map(st.fn.matmul_t, q, k, label="scores"), label="exp")
        st.linear_store(st.map(st.fn.matmul, weights, v, label="weighted").unsqueeze(0), "out")
    return program


def test_an_attention_tile():
    result = st.hardware.simulate(attention())
    assert result.status == "ok"
    maps = {u.name: u.firings for u in result.hardware.units.values() if u.kind == "map"}
    assert sorted(maps.values()) == [2 * 4, 2 * 4 * 3, 2 * 4 * 3]


def test_what_comes_from_memory_is_operand_a():
    network = network_of(attention())
    sources = {}
    for unit in network.units:
        if unit.kind == "repeat":
            sources[unit.name.rpartition("#")[0] + unit.name[-6:]] = unit.values["times"]
    # Keys are played for each of 2 rows of queries; V for 2 rows of weights, these 3 times.
    assert sources == {"scores.a.rep": 4, "scores.b.rep": 2, "weighted.a.rep": 2,
                       "weighted.b.rep": 3}  # fmt: skip


def test_operators_without_a_unit_are_named_in_one_error():
    with st.Program("no units", compute_bw=64) as program:
        x = st.linear_load(f32(32, 32), (16, 16), label="x").flatten(0, 1)
        st.linear_store(x.map(st.fn.row_sum, label="sums"), "a")
        x.reshape(2, label="pairs").consume()
        y = st.linear_load(f32(32, 32), (32, 32), ref=x, label="by reference")
        y.consume()
        st.linear_load(f32(24, 16), (24, 16), label="odd").consume()
    with pytest.raises(LoweringError) as error:
        network_of(program)
    text = str(error.value)
    for words in (
        "4 operators have no hardware unit", "sums#2 applies 'row_sum'",
        "pairs#4 makes chunks of 2", "by reference#6 waits for a reference",
        "odd#8 has tiles of 24 rows, which 16 does not divide", "there are units for",
    ):  # fmt: skip
        assert words in text


def test_blocks_cannot_be_turned_on_chip():
    with st.Program("turned", compute_bw=64) as program:
        a, b, c = (st.linear_load(f32(32, 32), (32, 32), label=name) for name in "abc")
        ab = st.map(st.fn.matmul, a, b, label="first")
        cab = st.map(st.fn.matmul, c, ab, label="second")
        st.linear_store(cab, "out")
    with pytest.raises(
        LoweringError, match=r"second#\d+ takes a result computed on chip in another"
    ):
        network_of(program)


@pytest.mark.parametrize("given", [{"level": "hardware"}, {"hardware": Machine()}])
@pytest.mark.parametrize("name", ["simulate", "ensemble"])
def test_arguments_of_old_say_what_to_call(name, given):
    with pytest.raises(ArgError, match=rf"no argument '.*st\.hardware\.{name}\(program, machine\)"):
        getattr(st, name)(gemm(32, 32, 32, 16), **given)


def test_programs_need_tiles_of_the_size_of_the_machine():
    with st.Program("narrow") as narrow:
        st.linear_load(st.spec(16, 16), (16, 16)).consume()
    with pytest.raises(LoweringError, match="use f32 alone, or set tile_bytes=512"):
        st.hardware.simulate(narrow)


def test_results_have_the_form_of_all_levels():
    program = gemm(32, 32, 32, 16)
    machine = Machine(fifo_depth=4, clock_ghz=0.5)
    result = st.hardware.simulate(program, machine)
    row = result.to_arrow().to_pylist()[0]
    assert row["cycles"] == result.hardware.cycles
    assert row["milliseconds"] == pytest.approx(result.cycles / 0.5e6)
    provenance = result.provenance
    assert provenance["level"] == "hardware"
    assert provenance["program_hash"] == program.fingerprint()
    assert provenance["machine"]["fifo_depth"] == 4
    assert result.units.num_rows == len(result.hardware.units)
    assert result.fifos.num_rows == len(result.hardware.fifos)
    cut = st.hardware.simulate(program, max_cycles=100)
    assert (cut.status, cut.diagnosis.status) == ("limit", "limit")


def test_a_group_that_no_buffer_holds_is_a_deadlock():
    """f K is 512 tiles, a buffer has room for 256."""
    result = st.hardware.simulate(layer(16, 512, 256, 16, 256))
    assert result.status == "deadlock"
    assert "has no free set left" in str(result.diagnosis)


def test_tiles_of_another_size_are_refused():
    with st.Program("narrow", compute_bw=64) as program:
        x = st.linear_load(f32(32, 32), (32, 32), label="x")
        st.linear_store(x.map(st.fn.cast("bf16"), label="narrow"), "y")
    with pytest.raises(LoweringError, match="narrow#1 makes tiles of 16x16 bf16, 512 bytes"):
        st.hardware.simulate(program)


def test_a_load_has_one_order():
    with st.Program("square", compute_bw=64) as program:
        x = st.linear_load(f32(32, 32), (32, 32), label="x")
        st.linear_store(st.map(st.fn.matmul, x, x, label="square"), "y")
    with pytest.raises(LoweringError, match=r"square#\d+ shares a load .* in another order"):
        network_of(program)
    with st.Program("gram", compute_bw=64) as program:
        x = st.linear_load(f32(32, 32), (32, 32), label="x")
        st.linear_store(st.map(st.fn.matmul_t, x, x), "y")
    assert st.hardware.simulate(program).status == "ok"


def test_a_load_in_columns_meets_none_in_rows():
    with st.Program("columns", compute_bw=64) as program:
        x, y, z = (st.linear_load(f32(32, 32), (32, 32), label=name) for name in "xyz")
        st.linear_store(st.map(st.fn.matmul, y, x), "product")
        st.linear_store(st.map(st.fn.add, x, z, label="sum"), "sum")
    with pytest.raises(LoweringError, match=r"sum#\d+ mixes operands whose blocks come row by row"):
        network_of(program)


def test_a_traced_run_of_a_program_has_its_events():
    run = st.hardware.simulate(gemm(32, 32, 32, 16), "hdl-fair", trace=True).hardware
    assert run.machine.name == "hdl-fair"
    assert run.events.num_rows > run.requests


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"machine": "hdl-best"}, "unknown machine 'hdl-best'"),
        (
            {"machine": "sda-1024"},
            "'sda-1024' belongs to the tile level; use .* as in st.simulate",
        ),
        ({"machine": 3}, "expected the name of a machine"),
        ({"max_cycles": 0}, "max_cycles must be an int from 1"),
        ({"trace": 1}, "trace must be True or False"),
        ({"program": "gemm"}, "expected a Program or a stepsim.hardware.Network"),
    ],
)
def test_wrong_arguments(given, message):
    with pytest.raises((ArgError, MachineError), match=message):
        st.hardware.simulate(**{"program": gemm(32, 32, 32, 16), **given})
