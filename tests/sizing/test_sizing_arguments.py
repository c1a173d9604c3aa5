"""Depths of FIFOs as arguments: what is taken everywhere, what is refused, and what limits say."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepsim as st
from tests.simulation.programs import centered

BYPASS = "x#0>1"


def slow(depth: int = 2) -> st.Program:
    """Gets stuck early, and takes long with deeper FIFOs."""
    with st.Program("slow", compute_bw=16, fifo_depth=depth) as program:
        x = st.linear_load(st.spec(64, 512), tile=(16, 64))
        total = x.accum(st.fn.add, rank=1)
        st.map(st.fn.add, x, total.unsqueeze(0).expand(8)).consume()
    return program


def test_a_fix_that_a_limit_hides_is_not_denied() -> None:
    ended = st.simulate(slow())
    whole = st.simulate(slow(8))
    assert (ended.status, whole.status) == ("deadlock", "ok")
    assert ended.cycles < whole.cycles // 2
    limits = st.Limits(max_cycles=whole.cycles // 2)
    fix = st.fix_deadlock(slow(), limits=limits)
    assert (fix.status, fix.is_least) == ("not found", False)
    assert "undecided: a run with other depths reached a limit; raise it" in str(fix)
    assert st.fix_deadlock(slow()).depths == {"linear_load#0>1": 8}


def test_sizing_does_not_say_that_nothing_helps_where_a_limit_ended_it() -> None:
    with pytest.raises(
        st.errors.EvaluationError, match=r"cannot decide .* max_cycles.*; raise this limit"
    ):
        st.size_fifos(centered(2), limits=st.Limits(max_cycles=100))


def test_depths_under_a_limit_below_the_target_are_not_called_the_least() -> None:
    free = st.size_fifos(centered(2), slowdown=1.0)
    assert free.proved
    limits = st.Limits(max_cycles=free.unbounded_cycles[0] + 1)
    held = st.size_fifos(centered(2), slowdown=1.0, limits=limits)
    assert held.cycles[0] <= free.unbounded_cycles[0] + 1
    assert not held.proved


def test_depths_that_are_changed_stay_with_the_one_who_changes_them() -> None:
    sizes = st.size_fifos(centered(2))
    found = sizes.depths
    found[BYPASS] = 1
    assert sizes.depths[BYPASS] == 8
    assert sizes.prepared.run().status == "ok"
    assert sum(sizes.depths.values()) == sizes.slots


def test_depths_for_another_machine_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "depths.yaml"
    st.size_fifos(centered(2)).save(path)
    machine = st.load_machine("sda-1024")
    fast = st.load_machine("sda-1024", overrides={"hbm.channels": machine.hbm.channels * 2})
    assert st.simulate(centered(2), fifo_depth=path).notes == machine.notes
    (note,) = st.simulate(centered(2), fast, fifo_depth=path).notes
    assert "depths.yaml were found for another sda-1024; on sda-1024 " in note
    assert "are not guaranteed" in note
    prepared = st.prepare(centered(2), fifo_depth=path)
    assert prepared.changed(machine=fast).result().notes == (note,)
    newer = prepared.changed(machine=fast)
    assert newer.changed(machine=machine).result().notes == ()


def test_a_program_without_fifos_has_nothing_to_size() -> None:
    with st.Program("empty") as program:
        pass
    with pytest.raises(st.errors.ArgError, match="has no FIFOs"):
        st.size_fifos(program)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda sizes: sizes.uniform(3), "uniform: depths must be a list of ints"),
        (lambda sizes: sizes.pareto(0.1), "pareto: slowdowns must be a list of numbers"),
        (lambda sizes: sizes.prepared.run_depths(None), "fifo_depths must be a list of mappings"),
        (lambda sizes: sizes.prepared.run_depths({BYPASS: 2}), "must be a list of mappings"),
        (lambda sizes: sizes.prepared.run_depths([None]), "must be a mapping from names"),
    ],
)
def test_lists_that_are_none(asked: Callable[[st.sizing.FifoSizes], Any], message: str) -> None:
    sizes = st.size_fifos(centered(2))
    with pytest.raises(st.errors.ArgError, match=message):
        asked(sizes)


@pytest.mark.slow
def test_depths_by_name_or_in_a_file_are_taken_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "depths.yaml"
    path.write_text(f'depths: {{"{BYPASS}": 9}}\n')
    program = centered(2)
    expected = st.simulate(program, fifo_depth={BYPASS: 9})
    assert (expected.status, st.simulate(program).status) == ("ok", "deadlock")
    for given in ({BYPASS: 9}, path, str(path)):
        assert st.simulate(program, fifo_depth=given).cycles == expected.cycles
        prepared = st.prepare(program, fifo_depth=given)
        assert prepared.run().cycles == expected.cycles
        assert st.prepare(program).changed(fifo_depth=given).run().cycles == expected.cycles
        assert st.why(program, fifo_depth=given).cycles == expected.cycles
        assert st.fix_deadlock(program, fifo_depth=given).status == "no deadlock"
        sizes = st.size_fifos(program, fifo_depth=given)
        assert sizes.depths[BYPASS] == 9
        assert BYPASS not in sizes.table["name"].to_pylist()
        assert st.size_fifos(prepared).depths == sizes.depths


@pytest.mark.parametrize("given", [np.array([1, 2]), np.zeros((0,)), "auto", math.nan, [2]])
def test_what_is_no_depth_is_refused_everywhere(given: Any) -> None:
    program = centered(2)
    calls: list[Callable[[], Any]] = [
        lambda: st.prepare(program, fifo_depth=given),
        lambda: st.simulate(program, fifo_depth=given),
        lambda: st.why(program, fifo_depth=given),
        lambda: st.fix_deadlock(program, fifo_depth=given),
        lambda: st.size_fifos(program, fifo_depth=given),
        lambda: st.prepare(program).changed(fifo_depth=given),
    ]
    for call in calls:
        with pytest.raises(st.errors.ArgError, match="fifo_depth"):
            call()


def test_one_depth_for_all_has_no_effect_on_sizes() -> None:
    with pytest.raises(st.errors.ArgError, match="has no effect when they are sized"):
        st.size_fifos(centered(2), fifo_depth=4)
