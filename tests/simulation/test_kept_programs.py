"""A program that is run again is not prepared again, unless something about it has changed."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.machine import load_machine

_PREPARE = importlib.import_module("stepsim.simulation.programs.simulate")


def _program(**options: Any) -> tuple[st.Program, Any]:
    with st.Program("two experts", compute_bw=8, **options) as program:
        table = st.routing(st.spec(6, 1), experts=2)
        x = st.linear_load(st.spec(6, 8), tile=(1, 8)).flatten(0, 1)
        for part in st.partition(x, table.multihot()):
            part.map(st.fn.silu).consume()
    return program, table


def _to(expert: int) -> Any:
    return np.full((6, 1), expert)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The depths of FIFOs of everything that is prepared."""
    found: list[Any] = []
    original = _PREPARE.Prepared

    def counting(program: Any, machine: Any, fifo_depth: Any, *others: Any, **named: Any) -> Any:
        found.append(fifo_depth)
        return original(program, machine, fifo_depth, *others, **named)

    monkeypatch.setattr(_PREPARE, "Prepared", counting)
    return found


def test_another_routing_is_bound_to_what_is_prepared(prepared: list[Any]) -> None:
    program, table = _program()
    seen = [st.simulate(program, bindings={table: _to(e)}) for e in (0, 1, 0)]
    assert len(prepared) == 1
    assert [run.cycles for run in seen] == [
        st.prepare(program).run({table: _to(e)}).cycles for e in (0, 1, 0)
    ]
    assert seen[0].units.equals(seen[2].units)
    assert not seen[0].units.equals(seen[1].units)


def test_other_machines_and_depths_are_prepared_for_themselves(prepared: list[Any]) -> None:
    program, table = _program()
    bindings = {table: _to(0)}
    slow = load_machine(overrides={"hbm.latency": 500})
    for _ in range(2):
        usual = st.simulate(program, bindings=bindings)
        other = st.simulate(program, slow, bindings=bindings)
        deep = st.simulate(program, bindings=bindings, fifo_depth=7)
    assert prepared == [None, None, 7]
    assert usual.cycles < other.cycles
    assert set(deep.fifos["depth"].to_pylist()) == {7}
    assert (deep.provenance["fifo_depth"], deep.provenance["fifo_depth_from"]) == (7, "call")


def test_many_runs_take_what_is_prepared(prepared: list[Any]) -> None:
    program, table = _program()
    st.simulate(program, bindings={table: _to(0)})
    for _ in range(2):
        st.simulate_many(program, [{table: _to(1)}], fifo_depths=[None, 7])
    st.simulate(program, bindings={table: _to(1)}, fifo_depth=7)
    assert prepared == [None, 7]


def test_many_depths_do_not_drive_out_what_is_prepared(prepared: list[Any]) -> None:
    program, table = _program()
    st.simulate(program, bindings={table: _to(0)})
    many = st.simulate_many(program, [{table: _to(1)}], fifo_depths=range(1, 9))
    assert many["fifo_depth"].to_pylist() == [*range(1, 9)]
    st.simulate(program, bindings={table: _to(1)})
    assert prepared == [None]


def test_who_states_a_depth_is_told_though_the_depth_is_the_same(prepared: list[Any]) -> None:
    program, table = _program(fifo_depth=3)
    bindings = {table: _to(0)}
    own = st.simulate(program, bindings=bindings)
    called = st.simulate(program, bindings=bindings, fifo_depth=3)
    assert own.provenance["fifo_depth_from"] == "program"
    assert called.provenance["fifo_depth_from"] == "call"


def _deepen(program: st.Program) -> None:
    program.operators[1].outputs[0].with_depth(1)


def _weigh(program: st.Program) -> None:
    program.flop_weights["silu"] = 50


def _slow_down(program: st.Program) -> None:
    program.compute_bw = 1


def _assume(program: st.Program) -> None:
    first, second = program.operators[-1].inputs[0], program.operators[-3].inputs[0]
    program.assume_equal(first.shape[0], second.shape[0])


@pytest.mark.parametrize("change", [_deepen, _weigh, _slow_down, _assume])
def test_what_is_changed_behind_the_block_counts(change: Callable[[st.Program], None]) -> None:
    program, table = _program()
    before = st.simulate(program, bindings={table: _to(0)})
    change(program)
    fresh, other = _program()
    change(fresh)
    again = st.simulate(program, bindings={table: _to(0)})
    expected = st.simulate(fresh, bindings={other: _to(0)})
    assert again.provenance["program_hash"] == expected.provenance["program_hash"]
    assert again.provenance["program_hash"] != before.provenance["program_hash"]
    assert (again.status, again.cycles) == (expected.status, expected.cycles)
    assert again.fifos.equals(expected.fifos)


def test_indices_that_are_changed_in_place_count() -> None:
    with st.Program("built with indices", compute_bw=8) as program:
        table = st.routing(_to(0), experts=2)
        x = st.linear_load(st.spec(6, 8), tile=(1, 8)).flatten(0, 1)
        for part in st.partition(x, table.multihot()):
            part.map(st.fn.silu).consume()
    first = st.simulate(program)
    table.indices[:3] = 1
    second = st.simulate(program)
    names = ("program_hash", "bindings", "image_hash")
    assert all(first.provenance[name] != second.provenance[name] for name in names)
    assert second.provenance["program_hash"] == st.prepare(program).program_hash


def test_a_wrong_depth_is_refused_though_its_equal_was_run() -> None:
    program, table = _program()
    st.simulate(program, bindings={table: _to(0)}, fifo_depth=1)
    with pytest.raises(st.errors.ArgError, match="fifo_depth"):
        st.simulate(program, bindings={table: _to(0)}, fifo_depth=True)


def test_only_the_last_few_are_kept(prepared: list[Any]) -> None:
    program, table = _program()
    for depth in (*range(1, 9), 8, 1):
        st.simulate(program, bindings={table: _to(0)}, fifo_depth=depth)
    assert prepared == [*range(1, 9), 1]


def test_a_stored_program_does_not_carry_what_was_made_of_it() -> None:
    program, table = _program()
    plain = len(pickle.dumps(program))
    first = st.simulate(program, bindings={table: _to(0)})
    stored = pickle.dumps(program)
    assert len(stored) < 1.05 * plain
    read = pickle.loads(stored)
    assert st.simulate(read, bindings={read.routings[0]: _to(0)}).cycles == first.cycles
