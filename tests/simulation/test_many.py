"""Runs that are made together are those that ``simulate`` makes one by one."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as hs

import stepsim as st
from stepsim.errors import ArgError, LoweringError, MachineError, StepSimError
from stepsim.kernels.batch import driver as batch_driver
from stepsim.kernels.batch.driver import execute_batch
from stepsim.machine import load_machine
from stepsim.processes import usable_cpus
from stepsim.results import STALLS_SCHEMA
from stepsim.simulation.many import tables as many_tables
from stepsim.simulation.running import batches as many_runs
from stepsim.simulation.running.batches import ManyRuns, run_all
from tests.property_profile import profile
from tests.simulation.drawn_programs import drawn_programs
from tests.simulation.programs import centered, uneven

simulate_many = importlib.import_module("stepsim.simulation.many.runs")
ROOT = Path(__file__).resolve().parents[2]
MACHINES = ("sda-1024", "sda-2026", "sda-hdl")
COLUMNS = (
    "status", "cycles", "offchip_bytes", "bus_bytes", "memory_requests", "flops",
    "bandwidth_utilization", "peak_bandwidth", "tokens", "undelivered_tokens", "engine_steps",
)  # fmt: skip


def two_experts(rows: int = 10, capacity: int | None = None) -> tuple[st.Program, st.graph.Routing]:
    with st.Program("two_experts", compute_bw=1024, fifo_depth=capacity) as program:
        routing = st.routing(st.spec(rows, 1), experts=2)
        tokens = st.linear_load(st.spec(rows, 64), tile=(1, 64))
        branches = []
        for part in st.partition(tokens.flatten(0, 1), routing.multihot()):
            block = part.reshape(4, pad=0).accum(st.fn.pack_rows, rank=1)
            weight = st.linear_load(st.spec(64, 256), tile=(64, 256), ref=block)
            y = st.map(st.fn.matmul, block, weight.flatten(0, 1).flatten(0, 1))
            branches.append(y.flat_map(st.fn.unpack_rows(drop_padding=True)))
        st.linear_store(st.reassemble(branches, routing.multihot()), "out")
    return program, routing


def choices(runs: int, rows: int = 10, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 2, (runs, rows, 1))


def assert_same(
    program: st.Program,
    bindings: Sequence[Any],
    machines: Sequence[Any] = ("sda-1024",),
    depths: Sequence[int | None] = (None,),
    limits: st.Limits | None = None,
    threads: int = 1,
) -> pa.Table:
    """Every column of every run is that of ``simulate``."""
    table, units = st.simulate_many(
        program, bindings, machines=machines, fifo_depths=depths, limits=limits, threads=threads,
        units=True,
    )  # fmt: skip
    rows = table.to_pylist()
    order = list(product(machines, depths, range(len(bindings))))
    assert len(rows) == len(order)
    count = units.num_rows // len(rows)
    for number, (row, (machine, depth, binding)) in enumerate(zip(rows, order, strict=True)):
        one = st.simulate(
            program, machine, bindings=bindings[binding], fifo_depth=depth, limits=limits
        )
        found = {name: getattr(one, name) for name in COLUMNS}
        assert {name: row[name] for name in COLUMNS} == found
        assert (row["number"], row["binding"]) == (number, binding)
        assert row["machine_index"] == number // (len(depths) * len(bindings))
        assert row["machine"] == one.provenance["machine"]["name"]
        assert row["fifo_depth"] == one.provenance["fifo_depth"]
        assert row["reason"] == (None if one.diagnosis is None else str(one.diagnosis))
        assert row["wall_seconds"] > 0
        own = units.slice(number * count, count)
        assert set(own["number"].to_pylist()) == {number}
        assert (
            own.drop_columns(["number"]).to_pylist()
            == one.units.select(STALLS_SCHEMA.names).to_pylist()
        )
    return table


def test_machines_of_one_name_are_reported_apart_by_their_index() -> None:
    program, routing = two_experts()
    changed = st.load_machine("sda-1024", {"hbm.channels": 2})
    named = st.load_machine("sda-1024", {"hbm.channels": 2, "name": "sda-1024-2ch"})
    table = assert_same(
        program, [{routing: choices(1)[0]}], ["sda-1024", changed, named], [None, 2]
    )
    assert table["machine"].to_pylist() == ["sda-1024"] * 4 + ["sda-1024-2ch"] * 2
    assert table["machine_index"].to_pylist() == [0, 0, 1, 1, 2, 2]
    assert table.schema.field("machine_index").metadata[b"definition"].startswith(b"index of the")


@profile(30, 2000)
@given(drawn_programs(), hs.data())
def test_drawn_programs(program: st.Program, data: Any) -> None:
    def indices(table: st.graph.Routing) -> Any:
        row = hs.permutations(range(table.experts)).map(lambda order: order[: table.k])
        return data.draw(hs.lists(row, min_size=table.rows, max_size=table.rows))

    count = data.draw(hs.integers(1, 3))
    bindings = [{table: indices(table) for table in program.routings} for _ in range(count)]
    machines = data.draw(hs.lists(hs.sampled_from(MACHINES), min_size=1, max_size=2, unique=True))
    depths = data.draw(hs.lists(hs.sampled_from([None, 1, 2, 40]), min_size=1, max_size=2))
    limits = data.draw(hs.sampled_from([None, st.Limits(max_cycles=20), st.Limits(max_steps=15)]))
    assert_same(program, bindings, machines, depths, limits)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_machines_depths_and_routings(threads: int) -> None:
    program, routing = two_experts()
    bindings = [{routing: indices} for indices in choices(7)]
    table = assert_same(program, bindings, MACHINES, [None, 1, 2], threads=threads)
    assert set(table["status"].to_pylist()) == {"ok"}
    assert len(set(table["cycles"].to_pylist())) > 10


def test_arrays_are_the_same_as_mappings() -> None:
    program, routing = two_experts()
    indices = choices(5)
    drop = ["wall_seconds"]
    together = st.simulate_many(program, {routing: indices}).drop_columns(drop)
    assert together.equals(
        st.simulate_many(program, [{routing: one} for one in indices]).drop_columns(drop)
    )
    assert together.equals(
        st.simulate_many(program, [{routing: one.tolist()} for one in indices]).drop_columns(drop)
    )


def test_any_iterable_will_do() -> None:
    program, routing = two_experts()
    listed = [{routing: one} for one in choices(3)]
    drop = ["wall_seconds"]
    made = st.simulate_many(
        program, iter(listed), machines=iter(MACHINES), fifo_depths=(depth for depth in (1, 2))
    )
    expected = st.simulate_many(program, listed, machines=MACHINES, fifo_depths=[1, 2])
    assert made.drop_columns(drop).equals(expected.drop_columns(drop))
    totals = st.prepare(program).run_many(iter(listed))
    assert [one.cycles for one in totals] == [
        st.simulate(program, bindings=one).cycles for one in listed
    ]


def read_only(array: Any) -> Any:
    array.setflags(write=False)
    return array


def unaligned(array: Any) -> Any:
    room = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    room[:] = array
    assert not room.flags.aligned
    return room


@pytest.mark.parametrize(
    "made",
    [
        read_only, unaligned, np.asfortranarray, lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: np.repeat(a, 2, 1)[:, ::2], lambda a: a.astype(np.int32),
        lambda a: a.astype(np.uint64), lambda a: a.astype(">i8"),
    ],
)  # fmt: skip
def test_arrays_of_any_layout(made: Any) -> None:
    program, routing = two_experts()
    indices = made(choices(4))
    for bindings in ({routing: indices}, [{routing: one} for one in indices]):
        table = st.simulate_many(program, bindings, threads=1)
        expected = [st.simulate(program, bindings={routing: one}).cycles for one in indices]
        assert table["cycles"].to_pylist() == expected
    totals = st.prepare(program).run_many({routing: indices})
    assert [one.cycles for one in totals] == expected


@pytest.mark.parametrize("given", ["stacked", "listed"])
def test_arrays_that_are_filled_anew_meanwhile(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """Another thread may prepare the next runs in the arrays of these."""
    program, routing = two_experts()
    indices = choices(4)
    expected = st.simulate_many(program, {routing: indices}, threads=1)["cycles"]
    own = indices.copy()

    def run(*args: Any, **options: Any) -> Any:
        own.fill(10**15)
        return execute_batch(*args, **options)

    monkeypatch.setattr(many_runs, "execute_batch", run)
    bindings: Any = {routing: own} if given == "stacked" else [{routing: one} for one in own]
    table = st.simulate_many(program, bindings, threads=1)
    assert table["cycles"].equals(expected)


def test_the_engine_reads_no_array_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    program, routing = two_experts()
    indices = choices(4)
    batches: list[Any] = []
    run = batch_driver.engine_of("published")

    class Watched:
        make_ready = run.make_ready

        def __call__(self, state: Any, batch: Any) -> Any:
            batches.append(batch)
            return run(state, batch)

    watched = Watched()
    monkeypatch.setattr(batch_driver, "engine_of", lambda *what: watched)
    many = ManyRuns(st.prepare(program), 4, {routing: indices}, None, units=False)
    run_all([many], 1)
    assert batches
    assert not any(np.shares_memory(batch.values, indices) for batch in batches)


def test_without_bindings_there_is_one_run() -> None:
    table = st.simulate_many(centered(16))
    assert table["cycles"].to_pylist() == [st.simulate(centered(16)).cycles]
    assert_same(centered(16), [None, {}])


def test_routings_of_the_program_count_where_none_is_given() -> None:
    with st.Program("routed", compute_bw=64) as program:
        routing = st.routing([[0], [1], [1], [0]], experts=2)
        x = st.linear_load(st.spec(4, 8), (1, 8)).flatten(0, 1)
        for part in st.partition(x, routing.multihot()):
            st.linear_store(part)
    assert_same(program, [None, {routing: [[1], [1], [1], [0]]}, {}])


def test_deadlocks_are_rows_with_a_reason() -> None:
    table = assert_same(centered(2), [None], depths=[2, 16, 1])
    assert table["status"].to_pylist() == ["deadlock", "ok", "deadlock"]
    reasons = table["reason"].to_pylist()
    assert reasons[1] is None
    assert "waits for" in reasons[0]


def test_assumptions_are_checked_in_every_run() -> None:
    program, left, right = uneven()
    rows = [[[0], [0], [1], [1]], [[0], [1], [1], [1]]]
    bindings = [{left: a, right: b} for a in rows for b in rows]
    table = assert_same(program, bindings, threads=2)
    assert table["status"].to_pylist() == ["ok", "failed", "failed", "ok"]


@pytest.mark.parametrize(
    "limits", [st.Limits(max_cycles=1900), st.Limits(max_steps=105), st.Limits(max_cycles=100)]
)
def test_limits_end_some_runs(limits: st.Limits) -> None:
    program, routing = two_experts()
    bindings = [{routing: one} for one in choices(20)]
    table = assert_same(program, bindings, limits=limits)
    limited = [row for row in table.to_pylist() if row["status"] == "limit"]
    assert limited
    (name,) = [n for n in st.Limits.__slots__ if getattr(limits, n) is not None]
    assert {row["limit"] for row in limited} == {name}


@pytest.mark.parametrize("pause", [1, 40, 300])
def test_pauses_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch, pause: int) -> None:
    monkeypatch.setattr(many_runs, "execute_batch", partial(execute_batch, pause_steps=pause))
    program, routing = two_experts()
    assert_same(program, [{routing: one} for one in choices(6)], depths=[None, 1])


def test_a_limit_of_seconds_ends_the_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_runs, "execute_batch", partial(execute_batch, pause_steps=400))
    program, routing = two_experts()
    limits = st.Limits(max_wall_seconds=1e-12)
    table = st.simulate_many(program, {routing: choices(4)}, limits=limits, threads=1)
    assert set(table["status"].to_pylist()) == {"limit"}
    assert set(table["limit"].to_pylist()) == {"max_wall_seconds"}
    assert min(table["engine_steps"].to_pylist()) > 0
    assert "max_wall_seconds" in table["reason"][0].as_py()


def test_runs_that_need_more_room_and_runs_after_them() -> None:
    program, routing = buffered()
    few = np.zeros((3000, 1), int)
    many = np.ones((3000, 1), int)
    bindings = [{routing: one} for one in (few, many, few, many)]
    table = assert_same(program, bindings)
    assert set(table["status"].to_pylist()) == {"ok"}


def buffered() -> tuple[st.Program, st.graph.Routing]:
    """The second target is buffered as a whole before any of it is read."""
    with st.Program("buffered", compute_bw=64) as program:
        routing = st.routing(st.spec(3000, 1), experts=2)
        x = st.linear_load(st.spec(3000, 1), tile=(1, 1)).flatten(0, 1)
        first, second = st.partition(x, routing.multihot())
        first.consume()
        second.reshape(3000, pad=0).bufferize(1).streamify().consume()
    return program, routing


def test_tokens_that_do_not_fit_name_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    program, routing = buffered()
    monkeypatch.setattr("stepsim.kernels.driver.free_bytes", lambda: 0)
    few, many = np.zeros((3000, 1), int), np.ones((3000, 1), int)
    with pytest.raises(LoweringError, match=r"^bindings\[1\] on sda-1024 with FIFO depth"):
        st.simulate_many(program, [{routing: few}, {routing: many}])


class FailingEngine:
    """Raises in one run, and makes the others."""

    def __init__(self, at: int, error: Exception) -> None:
        self.run = batch_driver.engine_of("published")
        self.make_ready = self.run.make_ready
        self.at, self.error = at, error

    def __call__(self, state: Any, batch: Any) -> Any:
        control = batch.control[0]
        if control.run == self.at:
            raise self.error
        if control.run < self.at:
            last, control.runs = int(control.runs), self.at
            ended = self.run(state, batch)
            control.runs = last
            return ended
        return self.run(state, batch)


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("error", [MemoryError(), LoweringError("the engine raised")])
def test_what_goes_wrong_in_a_run_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, growing: bool, error: Exception
) -> None:
    few, many = np.zeros((3000, 1), int), np.ones((3000, 1), int)
    program, routing = buffered()
    expected = st.simulate(program, bindings={routing: few}).cycles

    def fail(work: Any) -> Any:
        raise error

    if growing:
        monkeypatch.setattr(batch_driver, "with_more_slots", fail)
    else:
        failing = FailingEngine(1, error)
        monkeypatch.setattr(batch_driver, "engine_of", lambda *what: failing)
    runs = ManyRuns(
        st.prepare(program), 3, {routing: np.stack([few, many, few])}, None, units=False
    )
    (outcomes,) = run_all([runs], 1)
    assert list(outcomes.errors) == [1]
    assert [runs.totals(outcomes, run).cycles for run in (0, 2)] == [expected] * 2
    named = str(error) or "MemoryError"
    with pytest.raises(LoweringError, match=rf"^program 'buffered': {named}") as caught:
        runs.totals(outcomes, 1)
    assert caught.value.__cause__ is error


def test_totals_of_many_runs_take_little_memory() -> None:
    """Their images are laid out when they are asked for."""
    program, routing = two_experts(rows=4000)
    prepared = st.prepare(program)
    indices = choices(40, rows=4000)
    prepared.run_many({routing: indices[:2]})
    tracemalloc.start()
    limits = st.Limits(max_steps=5)
    totals = [prepared.run_many({routing: indices}, limits=one) for one in (None, limits)]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    words = 40 * indices[0].nbytes
    assert held < 2 * words + len(totals) * 40 * 2000
    assert prepared.image({routing: indices[0]}).params.nbytes > 2 * indices[0].nbytes
    for many in totals:
        assert many[7].image_hash == prepared.run({routing: indices[7]}).image_hash


def test_a_table_of_units_is_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    program, routing = two_experts()
    bindings = {routing: choices(7)}
    _, whole = st.simulate_many(program, bindings, fifo_depths=[None, 2], units=True)
    units = whole.num_rows // 14
    monkeypatch.setattr(many_tables, "_ROWS", 3 * units)
    _, pieces = st.simulate_many(program, bindings, fifo_depths=[None, 2], units=True)
    assert pieces.equals(whole)
    assert whole["number"].num_chunks == 2
    assert pieces["number"].num_chunks == 6


def test_a_table_of_units_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before anything runs."""
    program, routing = two_experts()
    monkeypatch.setattr(simulate_many, "free_bytes", lambda: 1e5)
    monkeypatch.setattr(simulate_many, "run_all", None)
    units = st.simulate(program, bindings={routing: choices(1)[0]}).units.num_rows
    said = re.escape(
        f"units=True makes a table of {14 * units:,} rows (14 runs of {units:,} units)"
    )
    with pytest.raises(ArgError, match=rf"^program 'two_experts': {said}"):
        st.simulate_many(program, {routing: choices(7)}, fifo_depths=[None, 2], units=True)


def test_the_table_has_the_notes_on_its_machines() -> None:
    program, routing = two_experts()
    uneven = load_machine(overrides={"hbm.channels": 24})
    table = st.simulate_many(program, {routing: choices(1)}, machines=[uneven, "sda-hdl"])
    about = json.loads(table.schema.metadata[b"provenance"])
    noted = st.simulate(program, uneven, bindings={routing: choices(1)[0]}).notes
    assert about["notes"] == [list(noted), []]
    assert noted


def test_the_table_says_what_it_depended_on() -> None:
    program, routing = two_experts()
    table, units = st.simulate_many(program, {routing: choices(2)}, fifo_depths=[7], units=True)
    for one in (table, units):
        about = json.loads(one.schema.metadata[b"provenance"])
        assert about["program_hash"] == program.fingerprint()
        assert [machine["name"] for machine in about["machines"]] == ["sda-1024"]
        assert (about["fifo_depths"], about["model_version"]) == ([7], st.MODEL_VERSION)
        assert list(about["bindings"]) == ["routing"]
    other = st.simulate_many(program, {routing: choices(2, seed=5)})
    assert json.loads(other.schema.metadata[b"provenance"])["bindings"] != about["bindings"]
    for field in table.schema:
        assert field.metadata[b"definition"]


def test_the_state_of_the_engine_is_shared_by_no_threads() -> None:
    program, routing = two_experts()
    indices = choices(400)
    whole = st.simulate_many(program, {routing: indices}, threads=1)
    found: list[Any] = []

    def simulate() -> None:
        found.append(st.simulate_many(program, {routing: indices}, threads=3))

    threads = [threading.Thread(target=simulate) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one["cycles"].equals(whole["cycles"]) for one in found] == [True] * 3


def test_an_interrupt_ends_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that run are asked at the next pause, and those that wait do not begin."""
    calls: list[int] = []

    def run(*args: Any, cancelled: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        while not cancelled():
            pass
        return execute_batch(*args, cancelled=cancelled, **options)

    monkeypatch.setattr(many_runs, "execute_batch", run)
    program, routing = two_experts()
    with pytest.raises(KeyboardInterrupt):
        st.simulate_many(program, {routing: choices(80)}, threads=2)
    assert len(calls) <= 3


def test_processors() -> None:
    assert 1 <= usable_cpus() <= (os.cpu_count() or 1)


def refused(**changed: Any) -> str:
    program, routing = two_experts()
    given = changed.pop("bindings", lambda r: {r: choices(2)})
    with pytest.raises(StepSimError) as caught:
        st.simulate_many(program, given(routing), **changed)
    assert isinstance(caught.value, ArgError | MachineError)
    return str(caught.value)


@pytest.mark.parametrize(
    ("bindings", "message"),
    [
        (lambda r: [{r: choices(1)[0]}] * 17 + [{r: choices(1)[0] + 7}], "bindings[17]: <Routing"),
        (lambda r: [{r: choices(1)[0]}, 5], "bindings[1]: program 'two_experts': bindings must be"),
        (lambda r: [{r: choices(1)[0]}, {}], "bindings[1]: routing#"),
        (lambda r: [{r: choices(1)[0]}, {r: choices(1)[0] > 0}], "bindings[1]: <Routing"),
        (lambda r: [{r: choices(1)[0]}, {r: [[0], [0, 1]]}], "bindings[1]: <Routing"),
        (lambda r: [{r: choices(1)[0]}, {r: choices(1, 4)[0]}], "has shape (4, 1), expected"),
        (lambda r: {r: choices(9) - 1}, "bindings[0]: <Routing"),
        (lambda r: {r: choices(2)[0]}, "expected (runs, 10, 1)"),
        (lambda r: {r: choices(2) * 1.0}, "must be integers, found float64"),
        (lambda r: {r: choices(2)[0]}, "for one run use st.simulate, or pass array[None]"),
        (lambda r: {r: choices(0)}, "has no runs; pass at least one"),
        (lambda r: {r: []}, "has no runs; pass at least one"),
        (lambda r: {r: [*choices(2), choices(1, 9)[0]]}, "bindings[2]: <Routing"),
        (lambda r: {r: [*choices(2), choices(1, 9)[0]]}, "has shape (9, 1), expected (10, 1)"),
        (lambda r: {"routing": choices(2)}, "keys of bindings are Routing objects, found the text"),
        (lambda r: [{"routing": choices(1)[0]}], "Routing objects, found the text 'routing'; pass"),
        (lambda r: [], "bindings is empty"),
        (lambda r: iter(()), "bindings is empty"),
        (lambda r: iter([{r: choices(1)[0]}, 5]), "bindings[1]: program 'two_experts': bindings"),
        (lambda r: choices(2), "must be a list of mappings"),
        (lambda r: 7, "must be a list of mappings"),
        (lambda r: {}, "bindings is empty"),
        (lambda r: "routing", "must be a list of mappings"),
        (lambda r: None, "has no indices"),
    ],
)
def test_bindings_that_are_refused(bindings: Any, message: str) -> None:
    assert message in refused(bindings=bindings)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"machines": "sda-1024"}, "machines must be a list, found 'sda-1024'"),
        ({"machines": []}, "machines is empty"),
        (
            {"machines": ["sda-2026", "sda-1024", st.load_machine("sda-1024")]},
            "machines[2] is machines[1] again, 'sda-1024' with the same values",
        ),
        ({"machines": ["sda-1024", "sda"]}, "machines[1]: unknown machine 'sda'"),
        ({"fifo_depths": 7}, "fifo_depths must be a list, found 7"),
        ({"fifo_depths": [7, 0]}, "fifo_depths[1] must be an int from 1"),
        ({"threads": 0}, "threads must be an int from 1"),
        ({"units": 1}, "units must be True or False"),
        ({"limits": 7}, "limits must be Limits or None"),
    ],
)
def test_arguments_that_are_refused(changed: dict[str, Any], message: str) -> None:
    assert message in refused(**changed)


def test_several_routings_must_have_as_many_runs() -> None:
    program, left, right = uneven()
    with pytest.raises(ArgError, match="differ in the number of runs: 2 of <Routing"):
        st.simulate_many(program, {left: choices(2, 4), right: choices(3, 4)})


@pytest.mark.long
def test_plain_python_gives_the_same() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:benchmark", "-p", "no:xdist"]
    names = ("drawn_programs", "machines_depths_and_routings", "limits", "assumptions", "deadlocks")
    tests = " or ".join(names)
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "tests/simulation/test_many.py", "-k", tests],
        cwd=ROOT, env={**os.environ, "NUMBA_DISABLE_JIT": "1", "STEPSIM_DRAWS": "few"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
