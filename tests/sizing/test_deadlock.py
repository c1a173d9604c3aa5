"""The least fix of a deadlock is the least, and the run with it ends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import stepsim as st
from stepsim.errors import ArgError
from stepsim.simulation import Prepared
from stepsim.sizing import deadlock_runs
from stepsim.sizing.deadlock import fix_deadlock
from tests.placement.test_placed_runs import machine
from tests.property_profile import profile
from tests.samples import sampled
from tests.simulation.drawn_programs import drawn_programs
from tests.simulation.programs import centered

LIMITS = st.Limits(max_cycles=100_000, max_steps=200_000)


def twice(depth: int) -> st.Program:
    """Two rejoins, one behind the other, of rows of four tiles."""
    with st.Program("twice", compute_bw=64, fifo_depth=depth) as program:
        x = st.linear_load(st.spec(8, 4), tile=(1, 1))
        total = x.accum(st.fn.add, rank=1).unsqueeze(0).expand(4)
        y = st.map(st.fn.add, x, total)
        again = y.accum(st.fn.add, rank=1).unsqueeze(0).expand(4)
        st.map(st.fn.add, y.map(st.fn.silu), again).consume()
    return program


def rejoined(tiles: int, stages: int = 0, depth: int = 1) -> st.Program:
    """A row meets its sum behind some maps, whose FIFOs can take each other's place."""
    with st.Program("rejoined", compute_bw=1024, fifo_depth=depth) as program:
        x = st.linear_load(st.spec(1, tiles), tile=(1, 1))
        total = x.accum(st.fn.add, rank=1).unsqueeze(0).expand(tiles)
        y = x
        for _ in range(stages):
            y = y.map(st.fn.silu)
        st.map(st.fn.add, y, total).consume()
    return program


def in_series(regions: int, tiles: int, stages: int = 1) -> st.Program:
    """Rejoins behind each other, each with some maps in the arm that has to hold the row."""
    with st.Program("series", compute_bw=1024, fifo_depth=1) as program:
        y = st.linear_load(st.spec(1, tiles), tile=(1, 1))
        for _ in range(regions):
            total = y.accum(st.fn.add, rank=1).unsqueeze(0).expand(tiles)
            for _ in range(stages):
                y = y.map(st.fn.silu)
            y = st.map(st.fn.add, y, total)
        y.consume()
    return program


def exchanged(regions: int, tiles: int) -> st.Program:
    """Rejoins whose arms chunk the row, so that no FIFO of an arm is better than the other."""
    with st.Program("exchanged", compute_bw=1024, fifo_depth=1) as program:
        y = st.linear_load(st.spec(1, tiles), tile=(1, 1))
        for _ in range(regions):
            total = y.accum(st.fn.add, rank=1).unsqueeze(0).expand(tiles)
            y = st.map(st.fn.add, y.reshape(1).flatten(0, 1), total)
        y.consume()
    return program


def repeated(depth: int) -> st.Program:
    """A token is worth three behind the operator that repeats it."""
    with st.Program("repeated", compute_bw=1024, fifo_depth=depth) as program:
        x = st.linear_load(st.spec(1, 8), tile=(1, 1))
        y = x.map(st.fn.silu).unsqueeze(0).expand(3).map(st.fn.silu)
        total = x.accum(st.fn.add, rank=1).unsqueeze(0).expand(8).unsqueeze(0).expand(3)
        st.map(st.fn.add, y, total).consume()
    return program


def stated(depth: int) -> st.Program:
    """The FIFO that is too short has a depth of its own, and so has one that is long enough."""
    with st.Program("stated", compute_bw=64, fifo_depth=16) as program:
        x = st.linear_load(st.spec(2, 6), tile=(1, 1))
        total = x.accum(st.fn.add, rank=1).unsqueeze(0).expand(6)
        st.map(st.fn.add, x.map(st.fn.silu).with_depth(depth), total).consume()
        x.with_depth(1)
    return program


def routed(depth: int) -> st.Program:
    """One selector hands rows out and collects them, which couples the two."""
    with st.Program("routed", compute_bw=1024, fifo_depth=depth) as program:
        selector = st.routing([[0], [1]] * 3, experts=2).multihot()
        rows = st.linear_load(st.spec(6, 64), tile=(1, 64)).flatten(0, 1)
        done = []
        for part in st.partition(rows, selector):
            block = part.reshape(3, pad=0).accum(st.fn.pack_rows, rank=1)
            done.append(block.map(st.fn.silu).flat_map(st.fn.unpack_rows(drop_padding=True)))
        st.linear_store(st.reassemble(done, selector), "out")
    return program


def merged(depth: int) -> st.Program:
    """A row meets its sum behind an eager merge of two such rows."""
    with st.Program("merged", compute_bw=64, fifo_depth=depth) as program:
        x = st.linear_load(st.spec(1, 3), tile=(1, 1), label="x")
        total = x.accum(st.fn.add, rank=1).unsqueeze(0).expand(3)
        y = st.map(st.fn.add, x, total).flatten(0, 1)
        other = st.linear_load(st.spec(1, 3), tile=(1, 1), label="z").flatten(0, 1)
        values, sources = st.eager_merge([y, other])
        values.consume()
        sources.consume()
    return program


def starved() -> st.Program:
    """A loop that no token ever enters."""
    with st.Program("starved", compute_bw=64) as program:
        x = st.linear_load(st.spec(4, 1), tile=(1, 1)).flatten(0, 1)
        back = st.feedback(x.type, [4])
        total = st.map(st.fn.add, x, back)
        back.connect(total)
    return program


def starved_behind_a_rejoin() -> st.Program:
    """A FIFO that is too short, and behind it a loop that no token ever enters."""
    with st.Program("both", compute_bw=64, fifo_depth=1) as program:
        x = st.linear_load(st.spec(1, 4), tile=(1, 1))
        total = x.accum(st.fn.add, rank=1).unsqueeze(0).expand(4)
        y = st.map(st.fn.add, x, total).flatten(0, 1)
        back = st.feedback(y.type, [4])
        back.connect(st.map(st.fn.add, y, back))
    return program


def wrong_behind_a_rejoin() -> tuple[st.Program, dict[Any, Any]]:
    """A FIFO that is too short, and rows of two lengths that are said to be of one."""
    with st.Program("wrong", compute_bw=1024, fifo_depth=1) as program:
        x = st.linear_load(st.spec(1, 4), tile=(1, 1))
        total = x.accum(st.fn.add, rank=1).unsqueeze(0).expand(4)
        rows = st.map(st.fn.add, x, total).flatten(0, 1)
        table = st.routing(st.spec(4, 1, name="table"), 2)
        first, second = st.partition(rows, table.multihot())
        program.assume_equal(first.shape[0], second.shape[0])
        st.map(st.fn.add, first.with_depth(16), second.with_depth(16)).consume()
    return program, {table: np.array([[0], [0], [0], [1]])}


def unbounded(prepared: st.simulation.Prepared) -> st.simulation.Prepared:
    return prepared.changed(fifo_depths={fifo.name: None for fifo in prepared.wiring.fifos})


def test_the_example_of_the_documentation_needs_8() -> None:
    fix = fix_deadlock(centered(2))
    assert fix.depths == {"x#0>1": 8}
    assert (fix.status, fix.added, fix.is_least) == ("fixed", 6, True)
    assert fix.cycles == st.prepare(centered(8)).run().cycles
    assert "least fix: 6 more tokens, x#0 -> y#5 ('x#0>1') of depth 8" in str(fix)
    assert "this is full speed" in str(fix)
    assert str(fix.diagnosis) in str(fix)
    assert json.loads(json.dumps(fix.to_dict()))["depths"] == {"x#0>1": 8}


def test_a_program_that_ends_needs_no_fix() -> None:
    fix = fix_deadlock(centered(8))
    assert fix.status == "no deadlock"
    assert not fix.depths
    assert str(fix) == "center does not deadlock"


SHAPES: dict[str, Callable[[], st.Program]] = {
    "two rejoins": lambda: twice(1),
    "two rejoins of depth 3": lambda: twice(3),
    "one map": lambda: rejoined(7, 1),
    "two maps": lambda: rejoined(6, 2),
    "rows in series": lambda: in_series(2, 4),
    "chunks": lambda: exchanged(1, 7),
    "a repeat": lambda: repeated(1),
    "stated depths": lambda: stated(1),
    "a shared selector": lambda: routed(1),
    "a merge": lambda: merged(1),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", sampled(SHAPES, *list(SHAPES)[::2]))
def test_no_fewer_tokens_end_a_deadlock(shape: str) -> None:
    prepared = st.prepare(SHAPES[shape]())
    fix = fix_deadlock(prepared)
    assert (fix.status, fix.is_least) == ("fixed", True)
    assert prepared.changed(fifo_depths=fix.depths).run().status == "ok"
    fifos = prepared.execute().tables().fifos
    own = dict(zip(fifos["name"].to_pylist(), fifos["depth"].to_pylist(), strict=True))
    assert fix.added == sum(depth - own[name] for name, depth in fix.depths.items())
    choices = [
        Counter(more)
        for tokens in range(fix.added)
        for more in combinations_with_replacement(own, tokens)
    ]
    depths = [{name: own[name] + more for name, more in one.items()} for one in choices]
    assert "ok" not in prepared.run_depths(depths).status


@pytest.mark.parametrize("shape", SHAPES)
def test_full_speed_is_that_of_unbounded_fifos(shape: str) -> None:
    prepared = st.prepare(SHAPES[shape]())
    fix = fix_deadlock(prepared)
    assert fix.unbounded_cycles == unbounded(prepared).run().cycles
    again = prepared.changed(fifo_depths=fix.full_speed).run()
    assert (again.status, again.cycles) == ("ok", fix.unbounded_cycles)
    assert fix.full_speed_is_minimal
    shorter = [{**fix.full_speed, name: depth - 1} for name, depth in fix.full_speed.items()]
    runs = prepared.run_depths(shorter)
    for status, cycles in zip(runs.status, runs.cycles, strict=True):
        assert status == "deadlock" or cycles > fix.unbounded_cycles


@pytest.mark.slow
@pytest.mark.parametrize("tiles", [1000, 50_000])
def test_a_long_fifo_takes_few_runs(tiles: int) -> None:
    fix = fix_deadlock(rejoined(tiles))
    assert fix.depths == {"linear_load#0>1": tiles}
    assert fix.is_least
    assert fix.runs < 150


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "added", "runs"),
    [
        (lambda: in_series(5, 24), 5 * 22, 400),
        (lambda: in_series(5, 24, stages=3), 5 * 20, 500),
        (lambda: in_series(2, 300), 2 * 298, 250),
        (lambda: in_series(1, 300, stages=2), 297, 120),
    ],
)
def test_rows_in_series_take_few_runs(
    program: Callable[[], st.Program], added: int, runs: int
) -> None:
    fix = fix_deadlock(program())
    assert (fix.status, fix.added, fix.is_least) == ("fixed", added, True)
    assert fix.full_speed_is_minimal
    assert fix.runs < runs


def test_choices_of_several_regions_do_not_multiply() -> None:
    one, four = (fix_deadlock(exchanged(regions, 8)) for regions in (1, 4))
    assert (four.is_least, four.added) == (True, 4 * one.added)
    assert four.runs < 6 * one.runs


def test_a_search_that_ends_early_says_so() -> None:
    prepared = st.prepare(exchanged(1, 40))
    fix = fix_deadlock(prepared, max_runs=60)
    assert (fix.status, fix.is_least) == ("fixed", False)
    assert "not proved to be the least (max_runs, 60 runs, are used up)" in str(fix)
    again = prepared.changed(fifo_depths=fix.depths).run()
    assert (again.status, again.cycles) == ("ok", fix.cycles)
    assert fix.runs == 60
    none = fix_deadlock(prepared, max_runs=3)
    assert (none.status, dict(none.depths)) == ("not found", {})
    assert "no fix found in 3 runs" in str(none)
    assert fix_deadlock(prepared, max_seconds=1e-9).reason == "max_seconds are used up"
    row = st.prepare(rejoined(40, 1))
    half = fix_deadlock(row, max_runs=fix_deadlock(row).runs - 3)
    assert half.is_least
    assert half.full_speed
    assert not half.full_speed_is_minimal
    assert "smaller depths may do" in str(half)
    slow = fix_deadlock(prepared, limits=st.Limits(max_cycles=250))
    assert (slow.status, slow.reason) == (
        "not found",
        "undecided: a run with other depths reached a limit; raise it",
    )


@pytest.mark.parametrize("most", [1, 2, 3, 20, 21, 45])
def test_no_more_runs_are_made_than_allowed(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    batch, single = deadlock_runs.run_depths, Prepared.execute

    def counted_batch(image: Any, rows: Any, **options: Any) -> Any:
        made.append(len(rows))
        return batch(image, rows, **options)

    def counted_run(*arguments: Any, **options: Any) -> Any:
        made.append(1)
        return single(*arguments, **options)

    monkeypatch.setattr(deadlock_runs, "run_depths", counted_batch)
    monkeypatch.setattr(Prepared, "execute", counted_run)
    fix = fix_deadlock(exchanged(1, 40), max_runs=most)
    assert fix.runs == sum(made) <= most


@pytest.mark.parametrize("build", [starved, starved_behind_a_rejoin])
def test_no_depth_helps_where_a_token_is_missing(build: Callable[[], st.Program]) -> None:
    prepared = st.prepare(build())
    assert prepared.run().status == "deadlock"
    assert unbounded(prepared).run().status == "deadlock"
    fix = fix_deadlock(prepared)
    assert (fix.status, dict(fix.depths), fix.cycles) == ("no depth helps", {}, None)
    assert "an operator waits for its own token: " in fix.reason
    assert "no FIFO depth resolves this deadlock: with all FIFOs unbounded" in str(fix)


def test_no_depth_helps_where_operators_wait_for_each_other() -> None:
    with st.Program("ring", compute_bw=64) as program:
        x = st.linear_load(st.spec(4, 1), tile=(1, 1)).flatten(0, 1)
        back = st.feedback(x.type, [4])
        back.connect(st.map(st.fn.add, x, back.map(st.fn.silu)))
    fix = fix_deadlock(program)
    assert fix.status == "no depth helps"
    assert "a circular wait for tokens: " in fix.reason
    assert fix.reason.count(" waits for ") == 2


def test_no_depth_helps_where_the_run_fails_later() -> None:
    program, bindings = wrong_behind_a_rejoin()
    prepared = st.prepare(program)
    assert prepared.run(bindings).status == "deadlock"
    failed = unbounded(prepared).execute(bindings)
    assert failed.totals.status == "failed"
    fix = fix_deadlock(prepared, bindings=bindings)
    assert fix.status == "no depth helps"
    assert failed.diagnosis is not None
    assert str(failed.diagnosis.failures[0]) in fix.reason


@profile(75)
@given(drawn_programs())
def test_random_programs_are_fixed_or_never_end(program: st.Program) -> None:
    prepared = st.prepare(program, fifo_depth=1)
    if prepared.run(limits=LIMITS).status != "deadlock":
        return
    fix = fix_deadlock(prepared, limits=LIMITS)
    free = unbounded(prepared).run(limits=LIMITS)
    if fix.status != "fixed":
        assert free.status != "ok"
        return
    again = prepared.changed(fifo_depths=fix.depths).run(limits=LIMITS)
    assert (again.status, again.cycles) == ("ok", fix.cycles)
    assert fix.unbounded_cycles == free.cycles
    assert fix.is_least or fix.reason
    fast = prepared.changed(fifo_depths=fix.full_speed).run(limits=LIMITS)
    assert not fix.full_speed or fast.cycles <= free.cycles


@profile(75)
@given(program=drawn_programs())
def test_the_first_fifo_of_a_row_serves_as_well_as_the_others(program: st.Program) -> None:
    prepared = st.prepare(program, fifo_depth=1)
    if prepared.run(limits=LIMITS).status != "deadlock":
        return
    with pytest.MonkeyPatch.context() as patch:
        fix = fix_deadlock(prepared, limits=LIMITS, max_runs=1000)
        patch.setattr(deadlock_runs, "_HANDING_ON", frozenset())
        singly = fix_deadlock(prepared, limits=LIMITS, max_runs=1000)
    assert fix.status == singly.status
    if singly.is_least:
        assert (fix.added, fix.is_least) == (singly.added, True)
    assert not fix.is_least or fix.added <= singly.added


def test_what_is_no_deadlock_or_no_argument_is_refused() -> None:
    prepared = st.prepare(centered(2))
    with pytest.raises(ArgError, match="the run ends with limit, not with a deadlock"):
        fix_deadlock(centered(8), limits=st.Limits(max_cycles=3))
    with pytest.raises(ArgError, match="has its machine, depths and places already"):
        fix_deadlock(prepared, "sda-1024")
    with pytest.raises(ArgError, match="has its machine, depths and places already"):
        fix_deadlock(prepared, fifo_depth=2)
    with pytest.raises(ArgError, match="max_runs"):
        fix_deadlock(prepared, max_runs=0)
    with pytest.raises(ArgError, match="max_seconds must be a number above 0, found -1"):
        fix_deadlock(prepared, max_seconds=-1)
    with pytest.raises(ArgError, match="limits must be Limits"):
        fix_deadlock(prepared, limits=3)  # type: ignore[arg-type]
    with pytest.raises(ArgError, match="prepare"):
        fix_deadlock("center")  # type: ignore[arg-type]


def test_of_a_placed_program_the_fifos_of_the_program_are_deepened() -> None:
    program, target = centered(8), machine(**{"flits.window": 1})
    stuck = st.simulate(program, target, fifo_depth=2, place="row-major")
    assert stuck.diagnosis is not None
    assert list(stuck.diagnosis.deepen) == ["x#0>1"]
    prepared = st.prepare(program, target, fifo_depth=2, place="row-major")
    fix = fix_deadlock(prepared)
    assert (fix.status, fix.depths, fix.is_least) == ("fixed", {"x#0>1": 5}, True)
    assert prepared.changed(fifo_depths=fix.depths).run().cycles == fix.cycles
    for depth in (3, 4):
        assert prepared.changed(fifo_depths={"x#0>1": depth}).run().status == "deadlock"
    assert st.why(program, target, fifo_depth=2, place="row-major").fix == fix
