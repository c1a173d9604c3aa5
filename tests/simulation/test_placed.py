"""Programs that are placed on the network on chip of their machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ArgError, MachineError


def _program(name: str = "silu") -> st.Program:
    with st.Program(name, compute_bw=64) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        st.linear_store(x.map(st.fn.silu), "out")
    return program


def _machine(**network: Any) -> st.Machine:
    described = st.noc.load_network("mesh", {"rows": 2, "cols": 2, **network})
    return st.load_machine("sda-1024", {"noc": described.to_dict()})


PLACES = {"linear_load#0": 0, "flatten#1": 1, "silu#2": 3, "linear_store#3": 2}
PORTS = {"linear_load#0": 0, "linear_store#3": 2}


def _placed(program: st.Program, machine: st.Machine, **changed: int) -> st.noc.Placement:
    assert machine.noc is not None
    return st.noc.Placement(program, machine.noc, PLACES, {**PORTS, **changed})


def test_a_placed_program_takes_longer_and_the_same_work() -> None:
    program, machine = _program(), _machine()
    alone = st.simulate(program, machine)
    run = st.simulate(program, machine, place=_placed(program, machine))
    assert run.status == "ok"
    assert run.cycles > alone.cycles
    assert (run.offchip_bytes, run.flops) == (alone.offchip_bytes, alone.flops)
    assert any("without the network on chip" in note for note in alone.notes)
    assert not any("without the network on chip" in note for note in run.notes)
    assert run.provenance["place"] == {"operators": PLACES, "ports": PORTS}


def test_without_a_placement_the_network_changes_nothing() -> None:
    program = _program()
    bare, with_network = st.simulate(program, "sda-1024"), st.simulate(program, _machine())
    assert bare.cycles == with_network.cycles
    assert bare.provenance["image_hash"] == with_network.provenance["image_hash"]


def test_operators_of_one_tile_send_each_other_no_packets() -> None:
    program, machine = _program(), _machine()
    assert machine.noc is not None
    together = st.noc.Placement(
        program, machine.noc, dict.fromkeys(PLACES, 1), dict.fromkeys(PORTS, 1), per_tile=4
    )
    run = st.simulate(program, machine, place=together)
    assert run.cycles == st.simulate(program, machine).cycles
    assert set(run.links()["link_bytes"].to_pylist()) == {0}


def test_what_a_store_takes_crosses_to_its_port() -> None:
    program, machine = _program(), _machine()
    near = st.simulate(program, machine, place=_placed(program, machine))
    far = st.simulate(program, machine, place=_placed(program, machine, **{"linear_store#3": 1}))
    assert far.cycles > near.cycles
    names = far.units["name"].to_pylist()
    assert "silu#2: send 2" in names
    assert "silu#2: send 2" not in near.units["name"].to_pylist()


def test_a_placement_is_read_from_its_file(tmp_path: Path) -> None:
    program, machine = _program(), _machine()
    placement = _placed(program, machine)
    placement.save(tmp_path / "place.yaml")
    read = st.simulate(program, machine, place=tmp_path / "place.yaml")
    assert read.cycles == st.simulate(program, machine, place=placement).cycles


def test_runs_of_a_batch_are_those_of_one() -> None:
    program, machine = _program(), _machine()
    prepared = st.prepare(program, machine, place=_placed(program, machine))
    single = prepared.run()
    many = prepared.run_many([{}, {}])
    assert [totals.cycles for totals in many] == [single.cycles] * 2


def test_changed_depths_keep_the_placement() -> None:
    program, machine = _program(), _machine()
    prepared = st.prepare(program, machine, place=_placed(program, machine))
    shallow = prepared.changed(fifo_depth=1)
    built = st.prepare(program, machine, place=_placed(program, machine), fifo_depth=1)
    assert shallow.run().cycles == built.run().cycles


def test_what_does_not_fit_is_refused() -> None:
    program, machine = _program(), _machine()
    placement = _placed(program, machine)
    with pytest.raises(ArgError, match="machine 'sda-1024' has no network on chip"):
        st.simulate(program, "sda-1024", place=placement)
    with pytest.raises(ArgError, match="not that of machine"):
        st.simulate(program, _machine(cols=3), place=placement)
    with pytest.raises(ArgError, match=r"expected a stepsim\.noc\.Placement"):
        st.simulate(program, machine, place=3)  # type: ignore[arg-type]
    with pytest.raises(ArgError, match="states no flits"):
        st.simulate(program, st.load_machine("sda-1024", {"noc": "wormhole"}), place=placement)
    with st.Program("other", compute_bw=64) as other:
        st.linear_store(st.linear_load(st.spec(64, 64), tile=(16, 64)), "out")
    with pytest.raises(ArgError, match="other operators"):
        st.simulate(other, machine, place=placement)
    with pytest.raises((ArgError, MachineError), match="place"):
        st.prepare(program, machine, place=placement).changed(machine="sda-1024")


def test_links_carry_the_bytes_of_the_streams_times_their_hops() -> None:
    program, machine = _program(), _machine()
    run = st.simulate(program, machine, place=_placed(program, machine))
    links = {row["link_name"]: row for row in run.links().to_pylist()}
    # Each of three streams of four tiles goes to the next place.
    used = {name for name, row in links.items() if row["link_bytes"]}
    assert used == {"(0, 0) east", "(0, 1) south", "(1, 1) west"}
    for name in used:
        assert links[name]["link_transfers"] == 4
        assert links[name]["link_bytes"] == 64 * 64 * 2
        assert links[name]["link_flits"] == 64 * 64 * 2 // 32
        assert links[name]["link_share"] == pytest.approx(256 / run.cycles)
    with pytest.raises(ArgError, match="of placed programs"):
        st.simulate(program, machine).links()


def test_a_deadlock_names_the_units_of_a_placed_program() -> None:
    machine = _machine()
    with st.Program("stuck", compute_bw=64, fifo_depth=1) as program:
        x = st.linear_load(st.spec(64, 2048), tile=(16, 16))
        whole = x.bufferize(1).streamify()
        st.linear_store(st.zip(x, whole).map(st.fn.mul), "out")
    assert machine.noc is not None
    names = st.noc.Placement.row_major(program, machine.noc, 4).operators
    placement = st.noc.Placement(program, machine.noc, names, per_tile=4)
    assert st.simulate(program, machine).status == "deadlock"
    run = st.simulate(program, machine, place=placement)
    assert run.status == "deadlock"
    assert run.diagnosis is not None
