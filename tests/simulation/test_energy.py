"""Energy of runs: counted by hand, adding up over units, and absent where it is not asked for."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import MachineError
from stepsim.results.columns import ENERGY, ENERGY_OF_UNITS
from stepsim.simulation.cases.case import make_case
from stepsim.workloads.moe.build import dispatch

TABLE: dict[str, Any] = {
    "energy.sources": "round numbers",
    "energy.offchip_pj_per_byte": 32,
    "energy.onchip_read_pj_per_byte": 4,
    "energy.onchip_write_pj_per_byte": 8,
    "energy.fifo_pj_per_byte": 2,
    "energy.flop_pj_bf16": 0.5,
}
CLOCK = {"clock_ghz": 0.5, "energy.static_watts": 3}


def target(**more: Any) -> st.Machine:
    return st.load_machine("sda-1024", TABLE | more)


def product_program() -> st.Program:
    """``[16, 32] x [32, 64]`` in one tile each: 65,536 FLOPs on bf16."""
    with st.Program("product", compute_bw=64) as program:
        a = st.linear_load(st.spec(16, 32), tile=(16, 32))
        b = st.linear_load(st.spec(32, 64), tile=(32, 64))
        st.linear_store(st.map(st.fn.matmul, a, b), "out")
    return program


def exact_total(result: st.Result) -> float:
    by_unit = result.units["energy_joules"].to_pylist()
    return math.fsum([*by_unit, result.energy.static])


def test_a_placed_run_spends_what_it_spends_elsewhere() -> None:
    machine = target(noc="mesh")
    placed = st.simulate(product_program(), machine, place="row-major")
    assert placed.cycles > st.simulate(product_program(), machine).cycles
    assert placed.energy == st.simulate(product_program(), machine).energy
    assert math.fsum(placed.units["energy_joules"].to_pylist()) == placed.energy_joules


def test_every_part_is_what_a_hand_counts() -> None:
    result = st.simulate(product_program(), target(**CLOCK))
    a, b, c = 16 * 32 * 2, 32 * 64 * 2, 16 * 64 * 2
    found = result.energy
    assert result.bus_bytes == a + b + c
    assert found.offchip == pytest.approx((a + b + c) * 32e-12, rel=1e-12)
    # Loads put their tiles on chip, and the product reads them once.
    assert found.onchip == pytest.approx((a + b) * (8 + 4) * 1e-12, rel=1e-12)
    assert found.fifo == pytest.approx((a + b + c) * 2e-12, rel=1e-12)
    assert found.compute == pytest.approx(2 * 16 * 32 * 64 * 0.5e-12, rel=1e-12)
    seconds = result.cycles / 0.5e9
    assert found.static == pytest.approx(3 * seconds, rel=1e-12)
    assert result.edp == pytest.approx(result.energy_joules * seconds, rel=1e-12)


def test_results_that_are_written_back_and_buffers_are_on_chip() -> None:
    with st.Program("buffered", compute_bw=64) as program:
        x = st.linear_load(st.spec(4, 8), tile=(1, 8)).map(st.fn.silu, write_back=True)
        st.linear_store(x.bufferize(1).streamify(repeat=3), "out")
    found = st.simulate(program, target()).units.to_pylist()
    onchip = {row["operator"]: row["energy_onchip_joules"] * 1e12 for row in found}
    rows = 4 * 8 * 2
    assert onchip["OffChipLoad"] == pytest.approx(rows * 8)
    # The load is read, the result is written.
    assert onchip["UnaryMap"] == pytest.approx(rows * (4 + 8))
    assert onchip["Bufferize"] == pytest.approx(rows * 8)
    assert onchip["Streamify"] == pytest.approx(3 * rows * 4)
    fifo = {row["operator"]: row["energy_fifo_joules"] * 1e12 for row in found}
    assert fifo["Bufferize"] == 0  # a reference has no payload
    assert fifo["Streamify"] == pytest.approx(3 * rows * 2)


def test_tiles_on_chip_are_read_behind_operators_that_move_them_on() -> None:
    with st.Program("moved", compute_bw=64) as program:
        x = st.linear_load(st.spec(4, 8), tile=(1, 8)).flatten(0, 1)
        st.linear_store(x.map(st.fn.silu), "out")
    onchip = {
        row["operator"]: row["energy_onchip_joules"] * 1e12
        for row in st.simulate(program, target()).units.to_pylist()
    }
    assert onchip["UnaryMap"] == pytest.approx(4 * 8 * 2 * 4)


@pytest.mark.parametrize("swapped", [False, True])
def test_flops_are_those_of_the_widest_operand(swapped: bool) -> None:
    with st.Program("mixed", compute_bw=64) as program:
        kinds = ("f32", "bf16")
        xs = [st.linear_load(st.spec(4, 8, dtype=kind), tile=(4, 8)) for kind in kinds]
        st.map(st.fn.add, *(xs[::-1] if swapped else xs)).consume()
    found = st.simulate(program, target(**{"energy.flop_pj_f32": 7})).energy
    assert found.compute == pytest.approx(4 * 8 * 7e-12)


def routing(rows: int = 24) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    return np.sort(np.array([rng.choice(8, 2, replace=False) for _ in range(rows)]), axis=1)


@pytest.fixture(scope="module", params=[4, "dynamic"])
def layer(request: pytest.FixtureRequest) -> tuple[Any, st.workloads.Data]:
    data = st.workloads.Data.of(routing=routing())
    machine = target(**CLOCK)
    return make_case("moe", data, model="mixtral-8x7b", tile=request.param, machine=machine), data


def test_energy_adds_up_over_units_to_the_last_digit(layer: tuple[Any, st.workloads.Data]) -> None:
    case, data = layer
    result = case.result(data)
    assert exact_total(result) == result.energy.total > 0
    for row in result.units.to_pylist():
        parts = [row[name] for name in ENERGY_OF_UNITS[1:]]
        assert row["energy_joules"] == pytest.approx(math.fsum(parts), rel=1e-15)
    parts = [
        getattr(result.energy, n)
        for n in ("offchip", "onchip", "fifo", "compute", "links", "static")
    ]
    assert math.fsum(parts) == pytest.approx(result.energy.total, rel=1e-14)
    measured = case.measures(result, data)
    assert measured["tokens_per_second"] == pytest.approx(24 / (result.milliseconds / 1e3))
    assert result.to_arrow()["energy_joules"].to_pylist() == [measured["energy_joules"]]


def test_sizes_that_the_run_decides_are_those_of_its_tokens(
    layer: tuple[Any, st.workloads.Data],
) -> None:
    """FIFO energy is the payload of all tokens of a run that kept every one of them."""
    case, data = layer
    done = case.prepared.execute(case.bound(data), keep_tokens=True)
    payload = 0
    for fifo in range(len(done.execution.channels)):
        tokens = done.tokens(fifo)
        bits = tokens["rows"].astype(np.int64) * tokens["cols"] * tokens["bits"]
        payload += int((-(-bits // 8)).sum())
    assert case.result(data).energy.fifo == pytest.approx(payload * 2e-12, rel=1e-12)


def test_batches_have_the_same_energies() -> None:
    with st.Program("experts", compute_bw=64) as program:
        table = st.routing(st.spec(24, 2), experts=8)
        x = st.linear_load(st.spec(24, 16), tile=(1, 16)).flatten(0, 1)
        for part in st.partition(x, table.multihot()):
            part.promote().accum(st.fn.pack_rows, rank=1).map(st.fn.silu).consume()
    indices = np.stack([routing(), routing()[::-1]])
    machines = [target(**CLOCK), st.load_machine("sda-1024")]
    runs, units = st.simulate_many(program, {table: indices}, machines=machines, units=True)
    rows = runs.to_pylist()
    for number, row in enumerate(rows[:2]):
        alone = st.simulate(program, machines[0], bindings={table: indices[number]})
        assert row["energy_joules"] == alone.energy_joules
        assert row["edp"] == alone.edp
        own = [one for one in units.to_pylist() if one["number"] == number]
        assert [one["energy_joules"] for one in own] == alone.units["energy_joules"].to_pylist()
    assert [row["energy_joules"] for row in rows[2:]] == [None, None]


def test_an_element_type_without_an_entry_is_named_with_its_operator() -> None:
    machine = st.load_machine("sda-1024", {"energy.sources": "few", "energy.flop_pj_f32": 1})
    with pytest.raises(MachineError) as caught:
        st.simulate(product_program(), machine)
    text = str(caught.value)
    assert "'sda-1024', energy: no entry for FLOPs on elements of type bf16" in text
    assert "operator 'matmul#2'" in text
    assert "add energy.flop_pj_bf16" in text


def test_a_machine_without_a_table_has_no_columns_and_equal_cycles() -> None:
    program = product_program()
    plain, priced = st.simulate(program), st.simulate(program, target(**CLOCK))
    assert plain.energy is plain.energy_joules is plain.edp is None
    assert (plain.cycles, plain.engine_steps) == (priced.cycles, priced.engine_steps)
    assert plain.provenance["image_hash"] == priced.provenance["image_hash"]
    for table in (plain.to_arrow(), plain.units, st.simulate_many(program)):
        assert not {*ENERGY} & {*table.column_names}
    assert {*ENERGY_OF_UNITS} <= {*priced.units.column_names}


def test_nothing_is_imported_for_a_machine_without_a_table() -> None:
    code = (
        "import sys, stepsim as st\n"
        "with st.Program('p') as p: st.linear_store(st.linear_load(st.spec(8, 8), (8, 8)), 'o')\n"
        "assert st.simulate(p).status == 'ok'\n"
        "print([n for n in sys.modules if n.startswith('stepsim.simulation.') and "
        "n.rsplit('.')[-1] in ('energy', 'fit', 'ensembles', 'disturbances')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_example_table_names_its_sources() -> None:
    machine = st.load_machine("sda-1024-energy")
    assert machine.energy is not None
    assert "Horowitz" in machine.energy.sources
    plain = st.simulate(product_program())
    assert st.simulate(product_program(), machine).cycles == plain.cycles


@pytest.mark.parametrize("how", ["two inputs", "pair", "pair of pairs", "reshaped pair"])
@pytest.mark.parametrize(("tile", "rows"), [(16, 32), ("dynamic", 20)])
def test_of_a_tuple_only_the_members_on_chip_are_read(how: str, tile: Any, rows: int) -> None:
    """A function takes ``square``, which was written back, and ``neg``, which was not."""
    with st.Program("both", compute_bw=64) as program:
        x = st.linear_load(st.spec(32, 64), tile=(1, 64), bypass=True).flatten(0, 1)
        if tile == "dynamic":
            table = st.routing([[0]] * rows + [[1]] * (32 - rows), experts=2)
            x, other = dispatch(x, table, tile, 64)
            other.consume()
        y, n = x.map(st.fn.square, write_back=True), x.map(st.fn.neg)
        both = st.fn.concat_cols(2)
        if how == "two inputs":
            found = st.map(both, y, n)
        elif how == "pair":
            found = st.zip(n, y).map(both)
        elif how == "pair of pairs":
            found = st.zip(n, st.zip(y, x.map(st.fn.neg))).map(st.fn.concat_cols(3))
        else:
            found = st.zip(y, n).unsqueeze(0).flatten(0, 1).map(both)
        found.consume()
    units = st.simulate(program, target()).units.to_pylist()
    joules = [one["energy_onchip_joules"] for one in units if one["name"].startswith("concat")]
    assert joules == [rows * 64 * 2 * (4 * 1e-12)]
