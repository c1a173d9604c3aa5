"""Programs on several chips: tables, changes, capacities, and what is refused by name."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

import stepsim as st
from stepsim.errors import ArgError, LoweringError
from stepsim.machine import Machine, load_machine
from stepsim.report.tables import energy_shares

RING: dict[str, Any] = {
    "chips.count": 4,
    "chips.topology": "ring",
    "chips.gib_per_s": 50,
    "chips.latency_ns": 500,
    "clock_ghz": 1,
}

ENERGIES = {
    f"energy.{name}": 1
    for name in (
        "offchip_pj_per_byte", "onchip_read_pj_per_byte", "onchip_write_pj_per_byte",
        "fifo_pj_per_byte", "static_watts",
    )
} | {"energy.sources": "these tests"}  # fmt: skip


def machine(**changed: Any) -> Machine:
    return load_machine("sda-1024", RING | {k.replace("__", "."): v for k, v in changed.items()})


def spread(chips: tuple[int, int, int] = (0, 1, 2), rows: int = 128) -> st.Program:
    """Rows are loaded on one chip, pass a function on another, and are stored on a third."""
    with st.Program("spread", compute_bw=256) as program:
        with st.chip(chips[0]):
            x = st.linear_load(st.spec(rows, 64, name="x"), tile=(16, 64)).flatten(0, 1)
        with st.chip(chips[1]):
            y = x.map(st.fn.silu)
        with st.chip(chips[2]):
            st.linear_store(y, "y")
    return program


def test_the_tables_of_chips_and_links() -> None:
    run = st.simulate(spread(), machine())
    chips = run.chips().to_pydict()
    assert chips["chip"] == [0, 1, 2, 3]
    assert chips["offchip_bytes"] == [16384, 0, 16384, 0]
    assert chips["flops"] == [0, run.flops, 0, 0]
    assert chips["sent_bytes"] == [16384, 16384, 0, 0]
    assert chips["received_messages"] == [0, 8, 8, 0]
    assert max(chips["chip_cycles"]) == run.cycles
    assert chips["chip_cycles"][3] == 0
    assert sum(chips["onchip_bytes"]) == int(spread().metrics().on_chip_memory)
    assert chips["chip_compute_utilization"] == [None, run.flops / run.cycles / 256, None, None]
    assert run.peak_bandwidth == 3 * machine().peak_bandwidth
    share = sum(chips["chip_bandwidth_utilization"]) / 3
    assert share == pytest.approx(run.bandwidth_utilization)
    links = run.links().to_pylist()
    ends = [(link["from_device"], link["to_device"]) for link in links]
    assert ends == [(0, 1), (1, 2), (2, 3), (3, 0), (0, 3), (1, 0), (2, 1), (3, 2)]
    assert [link["link_bytes"] for link in links] == [16384, 16384, 0, 0, 0, 0, 0, 0]
    busy = 8 * int(2048 / (50 * 2**30 / 1e9))
    assert links[0]["link_busy_cycles"] == busy
    assert links[0]["link_utilization"] == busy / run.cycles
    for table in (run.chips(), run.links()):
        assert all(field.metadata[b"definition"] for field in table.schema)
    assert "on 3 chips; the busiest link is chip 0 to chip 1, with 16,384" in str(run)
    assert "on 3 chips" in run._repr_html_()
    assert not [note for note in run.notes if "chip 0 of 4" in note]


def test_units_have_a_column_of_chips_only_where_there_are_several() -> None:
    run = st.simulate(spread(), machine())
    chip = dict(zip(run.units["name"].to_pylist(), run.units["chip"].to_pylist(), strict=True))
    assert chip["linear_load#0"] == chip["flatten#1: send"] == 0
    assert chip["silu#2"] == chip["flatten#1: receive"] == 1
    assert chip["linear_store#3"] == chip["silu#2: receive"] == 2
    again = pickle.loads(pickle.dumps(run))
    assert again.units == run.units
    assert (again.chips(), again.links()) == (run.chips(), run.links())
    assert str(again) == str(run)
    assert "chip" not in st.simulate(spread((0, 0, 0)), machine()).units.column_names


@pytest.mark.parametrize("chip", [0, 3])
def test_a_program_on_one_chip_is_that_without_chips(chip: int) -> None:
    with st.Program("spread", compute_bw=256) as plain:
        x = st.linear_load(st.spec(128, 64, name="x"), tile=(16, 64)).flatten(0, 1)
        st.linear_store(x.map(st.fn.silu), "y")
    run, other = st.simulate(spread((chip,) * 3), machine()), st.simulate(plain, machine())
    assert (run.cycles, run.engine_steps) == (other.cycles, other.engine_steps)
    assert run.provenance["image_hash"] == other.provenance["image_hash"]
    assert [note for note in run.notes if "chip 0 of 4" in note]
    with pytest.raises(ArgError, match=r"chips\(\) is of programs on several chips"):
        run.chips()
    with pytest.raises(ArgError, match=r"links\(\) is of placed programs and of programs on"):
        run.links()


@pytest.mark.parametrize("chip", [0, 3])
def test_a_program_on_one_chip_need_not_fit_its_memory(chip: int) -> None:
    assert st.simulate(spread((chip,) * 3), machine(hbm__capacity_bytes=1024)).status == "ok"


def test_another_machine_must_have_the_one_chip_of_a_program() -> None:
    prepared = st.simulation.prepare(spread((3, 3, 3)), machine())
    assert prepared.changed(machine=machine(hbm__channels=8)).run().status == "ok"
    with pytest.raises(ArgError, match=r"is on chip 3, but machine .* is a single chip"):
        prepared.changed(machine="sda-1024")
    with pytest.raises(ArgError, match="has chips 0 to 2"):
        prepared.changed(machine=machine(chips__count=3))


def test_the_clock_decides_the_cycles_between_chips() -> None:
    slow, fast = (st.simulate(spread(rows=16), machine(clock_ghz=ghz)) for ghz in (1, 2))
    assert fast.cycles - slow.cycles == 2 * (int(2 * (500 + 38.146)) - int(500 + 38.146))


def test_chips_in_two_dimensions() -> None:
    grid = machine(
        chips__count=[2, 3], chips__topology=["switch", "ring"], chips__latency_ns=[100, 500]
    )
    run = st.simulate(spread((0, 5, 1)), grid)
    used = {
        (link["from_device"], link["to_device"])
        for link in run.links().to_pylist()
        if link["link_bytes"]
    }
    # Chips 0 and 1 have a switch (6), 2 and 3 the next, 4 and 5 the last; 0, 2, 4 are a ring.
    assert used == {(0, 6), (6, 1), (1, 5), (5, 1)}


def test_changes_are_those_of_the_program_built_so() -> None:
    prepared = st.simulation.prepare(spread(), machine())
    wide = machine(chips__gib_per_s=5, hbm__channels=8)
    images = (
        prepared.changed(machine=wide).image(),
        st.simulation.prepare(spread(), wide).image(),
    )
    assert images[0].digest() == images[1].digest()
    assert prepared.changed(machine=wide).run().cycles > prepared.run().cycles
    deep = prepared.changed(fifo_depth=7)
    assert (
        deep.image().digest()
        == st.simulation.prepare(spread(), machine(), fifo_depth=7).image().digest()
    )
    more = prepared.changed(par_dispatch={"linear_load#0": 4}, compute={"silu#2": 2})
    assert more.run().cycles < prepared.run().cycles
    with pytest.raises(ArgError, match="is a single chip"):
        prepared.changed(machine="sda-1024")
    depths = [{"flatten#1": depth} for depth in (1, 2, 9)]
    found = prepared.run_depths(depths)
    assert found.cycles.tolist() == [
        prepared.changed(fifo_depths=one).run().cycles for one in depths
    ]


def test_waits_for_messages_are_none_for_memory() -> None:
    run = st.simulate(spread(), machine())
    rows = {row["name"]: row for row in run.units.to_pylist()}
    for stream in ("flatten#1", "silu#2"):
        assert rows[f"{stream}: receive"]["longest_wait"] == "the links between chips"
    assert rows["linear_load#0"]["longest_wait"] == "off-chip memory"
    tree = st.results.stall_tree(run.units, run.fifos)
    receives = [one for one in tree.operators if one.kind == "ReceiveMessage"]
    causes = [cause for one in receives for cause in one.causes]
    assert "memory" not in {cause.cause for cause in causes}
    received = [row["wait_memory"] for name, row in rows.items() if name.endswith(": receive")]
    waits = sum(cause.cycles.total for cause in causes if cause.cause == "network")
    assert waits == sum(received) > 0
    units = st.simulate_many(spread(), machines=[machine()], units=True)[1]
    assert units["longest_wait"].to_pylist() == run.units["longest_wait"].to_pylist()


def test_many_runs_are_single_runs() -> None:
    def program() -> tuple[st.Program, st.graph.Routing]:
        with st.Program("experts", compute_bw=64) as made:
            table = st.routing(st.spec(8, 1), experts=2)
            x = st.linear_load(st.spec(8, 8), tile=(1, 8)).flatten(0, 1)
            for chip, part in enumerate(st.partition(x, table.multihot())):
                with st.chip(chip + 1):
                    part.promote().accum(st.fn.pack_rows, rank=1).map(st.fn.silu).consume()
        return made, table

    made, table = program()
    routes = np.array([[[0], [1]] * 4, [[0]] * 8, [[1]] * 7 + [[0]]])
    many, units = st.simulate_many(made, {table: routes}, machines=[machine()], units=True)
    for number, rows in enumerate(routes):
        run = st.simulate(made, machine(), bindings={table: rows})
        assert many["cycles"][number].as_py() == run.cycles
        # A row of 8 bf16 numbers has 16 bytes.
        received = run.chips()["received_bytes"].to_pylist()
        assert received == [0, 16 * int((rows == 0).sum()), 16 * int((rows == 1).sum()), 0]
        mine = units.filter(pa.compute.equal(units["number"], number))
        assert mine["name"].to_pylist() == run.units["name"].to_pylist()
        assert mine["wait_memory"].to_pylist() == run.units["wait_memory"].to_pylist()
        assert mine["longest_wait"].to_pylist() == run.units["longest_wait"].to_pylist()


def test_a_machine_needs_a_clock_and_links_that_can_be_simulated() -> None:
    with pytest.raises(ArgError, match=r"on chip 2, and machine .* states no clock.* clock_ghz"):
        st.simulate(spread(), machine(clock_ghz=None))
    with pytest.raises(ArgError, match=r"links of 5.36871e-08 bytes per cycle"):
        st.simulate(spread(), machine(chips__gib_per_s=5e-8))
    with pytest.raises(ArgError, match="topology 'ring' joins 3 chips or more, found 2"):
        st.simulate(spread((0, 1, 1)), machine(chips__count=2))


def _loads(chips: tuple[int, ...]) -> st.Program:
    """The same tensor is loaded on each of these chips."""
    with st.Program("loads", compute_bw=64) as program:
        for chip in chips:
            with st.chip(chip):
                st.linear_load(st.spec(64, 64, name="x"), (16, 64)).flatten(0, 1).consume()
    return program


@pytest.mark.slow  # compiles an engine
def test_each_chip_has_a_dram_with_addresses_of_its_own() -> None:
    places = {"hbm.addresses.bases": "packed", "hbm.addresses.layout": "tiled"}
    target = load_machine("hdl-dram", RING | places)
    alone = st.simulate(_loads((0,)), target)
    both, shared = (st.simulate(_loads(chips), target) for chips in ((0, 1), (0, 0)))
    assert both.cycles == alone.cycles < shared.cycles
    assert both.memory_requests == 2 * alone.memory_requests
    prepared = st.prepare(_loads((0, 1)), target)
    rows = prepared.address_rows()
    assert [(row["tensor"], row["chip"], row["base"]) for row in rows] == [("x", 0, 0), ("x", 1, 0)]
    moved = prepared.changed(addresses={"x": 8192})
    assert [row["base"] for row in moved.address_rows()] == [8192, 8192]
    one = prepared.changed(addresses={"linear_load#3": {"base": 8192}})
    assert [row["base"] for row in one.address_rows()] == [0, 8192]
    assert "chip" not in st.prepare(_loads((0, 0)), target).address_rows()[0]
    found = st.ensemble(_loads((0, 1)), target, runs=2)
    assert found.bounds.keys() >= {"hbm.bases"}


def test_energies_of_chips_add_up() -> None:
    prices = {"energy.flop_pj_bf16": 1, "energy.static_watts": 0}
    alone, apart = (
        st.simulate(spread(chips), load_machine("sda-1024", RING | ENERGIES | prices))
        for chips in ((0, 0, 0), (0, 1, 2))
    )
    assert alone.energy.links == apart.energy.links == 0
    for part in ("offchip", "onchip", "fifo", "compute"):
        assert getattr(apart.energy, part) == getattr(alone.energy, part) > 0
    assert any("count nothing for the links between chips" in note for note in apart.notes)
    assert not any("count nothing" in note for note in alone.notes)


def test_energy_of_links_is_that_of_bytes_times_hops() -> None:
    prices = {"energy.flop_pj_bf16": 1, "energy.chip_link_pj_per_byte": 80}
    target = load_machine("sda-1024", RING | ENERGIES | prices)
    run = st.simulate(spread((0, 2, 1)), target)  # two links, then one
    crossed = sum(run.links()["link_bytes"].to_pylist())
    sent = sum(run.chips()["sent_bytes"].to_pylist())
    assert crossed == sent * 3 // 2 > 0
    assert run.energy.links == pytest.approx(crossed * 80e-12, rel=1e-12)
    assert run.energy.static == pytest.approx(3 * run.cycles / 1e9, rel=1e-12)
    by_unit = run.units.select(["operator", "energy_joules", "energy_links_joules"]).to_pylist()
    assert {row["operator"] for row in by_unit if row["energy_links_joules"]} == {"SendMessage"}
    total = math.fsum([*(row["energy_joules"] for row in by_unit), run.energy.static])
    assert run.energy.total == pytest.approx(total, rel=1e-14)
    assert not any("count nothing" in note for note in run.notes)
    shares = {part: getattr(run.energy, part) / run.energy.total for part in ("links", "static")}
    [row] = run.to_arrow().to_pylist()
    assert row["energy_links_joules"] / row["energy_joules"] == pytest.approx(shares["links"])
    assert f"{shares['links']:.1%}".replace("%", " % links") in energy_shares(row)
    alone = st.simulate(spread((0, 0, 0)), target).to_arrow().to_pylist()[0]
    assert "links" not in energy_shares(alone)


def test_tensors_of_a_chip_must_fit_its_memory() -> None:
    assert st.simulate(spread(), machine(hbm__capacity_bytes=16384)).status == "ok"
    with pytest.raises(LoweringError, match=r"tensors of chip 0 have 16,384 bytes.*16,383.*x \(16"):
        st.simulate(spread(), machine(hbm__capacity_bytes=16383))
    # What is loaded twice on a chip is there once.
    with st.Program("twice", compute_bw=64) as twice:
        for chip in (0, 1, 1):
            with st.chip(chip):
                st.linear_load(st.spec(64, 64, name="w"), tile=(16, 64)).flatten(0, 1).consume()
    assert st.simulate(twice, machine(hbm__capacity_bytes=8192)).status == "ok"


@pytest.mark.parametrize(
    "tensor", [st.spec(64, 64), np.zeros((64, 64), "f2")], ids=["spec", "array"]
)
def test_a_tensor_without_a_name_that_two_operators_load_is_there_once(tensor: Any) -> None:
    def program(*tensors: Any) -> st.Program:
        with st.Program("nameless", compute_bw=64) as made:
            for chip, one in zip((0, 1, 1), tensors, strict=True):
                with st.chip(chip):
                    st.linear_load(one, tile=(16, 64)).flatten(0, 1).consume()
        return made

    assert st.simulate(program(*[tensor] * 3), machine(hbm__capacity_bytes=8192)).status == "ok"
    other = st.spec(64, 64)
    with pytest.raises(LoweringError, match=r"tensors of chip 1 have 16,384 bytes.*load"):
        st.simulate(program(tensor, tensor, other), machine(hbm__capacity_bytes=8192))


def test_each_chip_has_the_on_chip_memory_and_compute_of_the_machine() -> None:
    assert st.simulate(spread(), machine(onchip__capacity_bytes=4096)).status == "ok"
    run = st.simulate(spread(), machine(onchip__capacity_bytes=2048))
    assert run.status == "infeasible"
    assert "4,096 bytes of on-chip memory on chip 0, but the machine has 2,048" in str(
        run.diagnosis
    )
    run = st.simulate(spread(), machine(compute__flops_per_cycle=255))
    assert "256 FLOPs per cycle of compute bandwidth on chip 1" in str(run.diagnosis)
    assert st.simulate(spread(), machine(compute__flops_per_cycle=256)).status == "ok"


def test_buffers_stay_on_their_chip() -> None:
    with st.Program("buffers", compute_bw=64) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64)).bufferize(1)
        with st.chip(1):
            x.streamify(repeat=2).consume()
    with pytest.raises(ArgError, match=r"streamify#2 on chip 1 reads buffers of bufferize#1 on ch"):
        st.simulate(program, machine())


def test_what_is_not_possible_on_several_chips_is_refused() -> None:
    program = spread()
    with pytest.raises(ArgError, match="regions are of programs on one chip"):
        st.simulate(program, machine(compute__regions=2), regions={"silu#2": 1})
    placed = machine(noc="mesh")
    with pytest.raises(ArgError, match="is on chip 1"):
        st.place(program, placed)


def test_a_contradicted_assumption_leaves_the_memory_of_chips_unknown() -> None:
    with st.Program("assumed", compute_bw=64) as program:
        x = st.linear_load(st.spec(4, 8), tile=(1, 8)).flatten(0, 1)
        parts = st.partition(x, st.routing([[0], [1], [0], [0]], 2).multihot())
        with st.chip(1):
            for part in parts:
                part.promote().bufferize(1).streamify().consume()
        program.assume_equal(parts[0].shape[0], parts[1].shape[0])
    run = st.simulate(program, machine())
    assert run.status == "failed"
    assert "the assumption 'n0 == n1' does not hold" in str(run.diagnosis)
    assert run.chips()["onchip_bytes"].null_count == run.chips().num_rows
    small = st.simulate(program, machine(onchip__capacity_bytes=1))
    assert (small.status, small.cycles) == ("failed", run.cycles)


@pytest.mark.parametrize("outstanding", [None, 4])
@pytest.mark.parametrize("chips", [(0, 0, 0), (0, 1, 2)])
def test_ensembles_move_the_first_channels_of_the_ports_of_every_chip(
    outstanding: int | None, chips: tuple[int, int, int]
) -> None:
    values: dict[str, Any] = {"hbm.model": "interleaved", "hbm.channels": 3}
    if outstanding is not None:
        values["hbm.port.outstanding"] = outstanding
    target = load_machine("sda-1024", RING | values)
    program = spread(chips)
    cycles = st.simulate(program, target).cycles
    still = {"hbm.latency": 0, "fifo.depth": 0}
    # A whole turn of the channels changes nothing.
    found = st.ensemble(program, target, runs=3, bounds=still | {"hbm.bases": (3, 3)})
    assert list(found.cycles) == [cycles] * 3
    assert st.ensemble(program, target, runs=3).bounds.keys() == {*still, "hbm.bases"}
