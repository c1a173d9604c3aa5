"""Traces for ui.perfetto.dev, read back."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import stepsim as st
from stepsim.errors import ArgError, OutputError
from stepsim.explain.path import critical_path
from stepsim.report.perfetto import write_perfetto
from stepsim.report.slices import MIXED, Slices, thinned, unit_slices
from stepsim.simulation import prepare
from tests.report.read_back import ReadBack
from tests.samples import sampled
from tests.simulation.chip_programs import chip_machine, reduced
from tests.simulation.drawn_programs import grown


@pytest.fixture(scope="module")
def result() -> st.Result:
    return moe().result(record=True)


def moe() -> Any:
    """Three lanes behind a partition."""
    with st.Program("lanes", compute_bw=64) as program:
        table = st.routing([[i % 3] for i in range(24)], 3)
        x = st.linear_load(st.spec(24, 64), tile=(1, 64)).flatten(0, 1)
        parts = st.partition(x, table.multihot(), label="route")
        for lane, part in enumerate(parts):
            part.map(st.fn.silu, label=f"act.{lane}").consume()
    return prepare(program, fifo_depth=2)


def units(result: st.Result) -> Iterator[dict[str, Any]]:
    yield from result.units.to_pylist()


def test_slices_add_up_to_the_stall_breakdown(tmp_path: Path) -> None:
    for seed in range(12):
        result = prepare(grown(Random(seed).randint, 16), fifo_depth=2).result(record=True)
        if result.status != "ok":
            continue
        path = tmp_path / f"{seed}.pftrace"
        made = write_perfetto(result, path)
        assert made.nbytes == path.stat().st_size
        assert made.remark == ""
        found = ReadBack(path)
        for unit in units(result):
            name = unit["name"]
            assert found.spent(name, "work") == unit["busy"]
            assert found.spent(name, "wait for a slot") == unit["wait_output"]
            assert found.spent(name, "off-chip access") == unit["wait_memory"]
            ends = [end for begin, end, *_ in found.slices[name]]
            begins = [begin for begin, *_ in found.slices[name]]
            assert begins[1:] == ends[:-1]
            assert max(ends, default=0) == unit["final_clock"]
        for fifo in result.fifos.to_pylist():
            values = [value for _, value in found.counts[fifo["name"]]]
            assert max(values, default=0) == fifo["peak_tokens"]


def test_of_a_deadlock_the_slices_follow_each_other(tmp_path: Path) -> None:
    with st.Program("loop", compute_bw=64, fifo_depth=2) as program:
        x = st.linear_load(st.spec(40, 1), tile=(1, 1)).flatten(0, 1)
        back = st.feedback(x.type, [40])
        back.connect(st.map(st.fn.add, x, back))
    result = st.simulate(program, record=True)
    assert result.status == "deadlock"
    write_perfetto(result, tmp_path / "loop.pftrace")
    in_turn(ReadBack(tmp_path / "loop.pftrace"), result.cycles)


def in_turn(found: ReadBack, cycles: int) -> None:
    """On no track two slices at one time, and none after the end of the run."""
    assert found.slices
    for track, slices in found.slices.items():
        if track == "run":
            continue
        ordered = sorted(slices)
        pairs = pairwise(ordered)
        assert all(before[1] <= after[0] for before, after in pairs), track
        assert max(end for _, end, _, _ in ordered) <= cycles, track


def test_waits_name_their_fifo(result: st.Result, tmp_path: Path) -> None:
    write_perfetto(result, tmp_path / "t.pftrace")
    found = ReadBack(tmp_path / "t.pftrace")
    assert {text for *_, name, text in found.slices["act.0#4"] if name == "wait for a token"} == {
        "route#3.0"
    }
    assert {text for *_, name, text in found.slices["act.0#4"] if name == "work"} == {""}


def test_tracks_stand_below_their_operator(result: st.Result, tmp_path: Path) -> None:
    write_perfetto(result, tmp_path / "t.pftrace")
    found = ReadBack(tmp_path / "t.pftrace")
    places = [found.path(uuid) for uuid in found.tracks]
    assert ["operators", "act.*", "act.1#6"] in places
    assert ["operators", "route#3"] in places
    assert ["memory and compute", "bandwidth"] in places
    assert ["FIFOs", "route#3.2"] in places


def test_the_memory_has_counters(result: st.Result, tmp_path: Path) -> None:
    write_perfetto(result, tmp_path / "t.pftrace")
    found = ReadBack(tmp_path / "t.pftrace")
    peak = max(value for _, value in found.counts["on-chip memory of operators"])
    assert peak == result.onchip_peak_bytes
    assert max(v for _, v in found.counts["bandwidth"]) == pytest.approx(
        max(result.timeline(2000)["offchip_bytes_per_cycle"].to_pylist())
    )


def test_arrows_follow_the_tokens_of_a_stream(result: st.Result, tmp_path: Path) -> None:
    made = write_perfetto(result, tmp_path / "t.pftrace", streams=["route#3.1"])
    found = ReadBack(tmp_path / "t.pftrace")
    assert made.arrows == len(found.flows) == 8
    fifo = result.events.fifos.index("route#3.1")
    own = result.events.tokens(fifo)
    expected = [
        [("route#3", sent), ("act.1#6", freed - 1)]
        for sent, freed in zip(result.events.sent[own], result.events.freed[own], strict=True)
    ]
    assert list(found.flows.values()) == expected


def test_the_critical_path_has_a_track(tmp_path: Path) -> None:
    prepared = moe()
    path = critical_path(prepared)
    write_perfetto(prepared.result(record=True), tmp_path / "t.pftrace", segments=path.segments)
    found = ReadBack(tmp_path / "t.pftrace").slices["critical path"]
    expected = [
        (row["begin"], row["end"], row["cause"], row["operator"] or "")
        for row in path.segments.to_pylist()
        if row["begin"] < row["end"]
    ]
    assert found == expected
    assert sum(end - begin for begin, end, *_ in found) == path.cycles


def test_a_span_of_cycles(result: st.Result, tmp_path: Path) -> None:
    first, after = result.cycles // 4, result.cycles // 2
    write_perfetto(result, tmp_path / "t.pftrace", span=(first, after))
    found = ReadBack(tmp_path / "t.pftrace")
    times = [t for slices in found.slices.values() for s in slices for t in s[:2]]
    times += [at for counts in found.counts.values() for at, _ in counts]
    assert min(times) == first
    assert max(times) == after
    assert found.facts["span"] == f"{first} to {after}"
    for fifo, name in enumerate(result.events.fifos):
        own = result.events.tokens(fifo)
        sent, freed = result.events.sent[own], result.events.freed[own]
        (at, value), *_ = found.counts[name] or [(first, 0)]
        assert value == ((sent <= at) & (at < freed)).sum()


@pytest.mark.parametrize("span", [(5, 5), (7, 3), (-1, 4), (1,), "1:2", 3])
def test_no_span(result: st.Result, tmp_path: Path, span: Any) -> None:
    with pytest.raises(ArgError, match="span: expected two"):
        write_perfetto(result, tmp_path / "t.pftrace", span=span)
    assert not list(tmp_path.iterdir())


def test_a_span_after_the_end(result: st.Result, tmp_path: Path) -> None:
    after = f"begins at cycle 1,000,000,000, but the run ends at cycle {result.cycles:,}"
    with pytest.raises(ArgError, match=after):
        write_perfetto(result, tmp_path / "t.pftrace", span=(10**9, 10**9 + 1))
    assert not list(tmp_path.iterdir())


def test_the_file_says_what_it_shows(result: st.Result, tmp_path: Path) -> None:
    write_perfetto(result, tmp_path / "t.pftrace")
    facts = ReadBack(tmp_path / "t.pftrace").facts
    assert facts["program"] == "lanes"
    assert facts["cycles"] == result.cycles
    assert facts["sampling"] == "none, every slice is shown"
    assert facts["machine"] == "sda-1024"


def long_run() -> st.Result:
    with st.Program("long", compute_bw=64) as program:
        x = st.linear_load(st.spec(4096, 256), tile=(1, 64)).flatten(0, 1)
        x.map(st.fn.silu).map(st.fn.silu).consume()
    return prepare(program, fifo_depth=2).result(record=True)


@pytest.mark.slow
@pytest.mark.parametrize("limit", sampled([600_000, 1_000_000, 2_000_000], 600_000))
def test_a_long_run_is_sampled_to_fit(tmp_path: Path, limit: int) -> None:
    result = long_run()
    path = tmp_path / "t.pftrace"
    made = write_perfetto(result, path, limit_bytes=limit, streams=["silu#2"])
    assert limit / 8 < path.stat().st_size <= limit
    assert made.grain > 1
    assert f"shorter than {made.grain:,} cycles" in made.remark
    found = ReadBack(path)
    assert found.facts["sampling"] == made.remark
    assert found.facts["grain (cycles)"] == made.grain
    # No time is lost, and counters show the highest value.
    for unit in units(result):
        spent = sum(end - begin for begin, end, *_ in found.slices[unit["name"]])
        assert spent == unit["final_clock"]
    for fifo in result.fifos.to_pylist():
        assert max(v for _, v in found.counts[fifo["name"]]) == fifo["peak_tokens"]
    assert made.flow_stride > 1
    assert len(found.flows) == made.arrows


def test_a_limit_that_is_too_small(result: st.Result, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="the limit is 1,000; allow more"):
        write_perfetto(result, tmp_path / "t.pftrace", limit_bytes=1000)


def test_short_slices_become_one_named_after_what_took_most() -> None:
    begin = np.array([0, 3, 5, 6, 40, 0])
    end = np.array([3, 5, 6, 40, 42, 9])
    made = thinned(
        Slices(
            np.array([0, 0, 0, 0, 0, 1]), begin, end, np.array([1, 0, 1, 2, 0, 0]),
            np.array([7, -1, 7, 8, -1, -1]),
        ),
        10,
    )  # fmt: skip
    assert made.begin.tolist() == [0, 6, 40, 0]
    assert made.end.tolist() == [6, 40, 42, 9]
    assert made.kind.tolist() == [1 + MIXED, 2, 0, 0]
    assert made.about.tolist() == [-1, 8, -1, -1]


def test_thinning_keeps_every_cycle_at_every_grain(result: st.Result) -> None:
    everything = unit_slices(result.events)
    counts = []
    for grain in (1, 2, 4, 8, 16, 64, 256, 1024):
        made = thinned(everything, grain)
        assert (made.end - made.begin).sum() == (everything.end - everything.begin).sum()
        assert ((made.begin[1:] == made.end[:-1]) | (made.track[1:] != made.track[:-1])).all()
        counts.append(len(made))
    assert counts[-1] < counts[0] / 4


def test_the_size_of_a_file_with_many_names_is_stated(tmp_path: Path) -> None:
    with st.Program("many", compute_bw=64) as program:
        for number in range(150):
            x = st.linear_load(st.spec(4, 4), tile=(4, 4), label=f"load_{number:0100}")
            x.consume()
    path = tmp_path / "many.pftrace"
    made = write_perfetto(st.simulate(program, record=True), path)
    assert made.nbytes == path.stat().st_size


def test_what_is_not_recorded_or_not_there(result: st.Result, tmp_path: Path) -> None:
    with pytest.raises(ArgError, match="was not recorded; use simulate"):
        write_perfetto(moe().result(), tmp_path / "t.pftrace")
    with pytest.raises(ArgError, match=r"there is no FIFO 'rout'.*did you mean 'rout"):
        write_perfetto(result, tmp_path / "t.pftrace", streams=["rout"])
    with pytest.raises(OutputError, match="cannot write"):
        write_perfetto(result, tmp_path / "no" / "t.pftrace")
    assert not list(tmp_path.iterdir())


def test_without_the_package(
    result: st.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with pytest.raises(OutputError, match=r"pip install 'stepsim\[perfetto\]'"):
        write_perfetto(result, tmp_path / "t.pftrace")


def _processor() -> str | None:
    """The trace processor of Perfetto: on the path, or as its package keeps it."""
    kept = Path.home() / ".local/share/perfetto/prebuilts"
    found = sorted(kept.glob("trace_processor_shell*")) if kept.is_dir() else []
    return shutil.which("trace_processor_shell") or (str(found[0]) if found else None)


@pytest.mark.skipif(_processor() is None, reason="no trace_processor_shell of Perfetto")
def test_the_trace_processor_reads_it(result: st.Result, tmp_path: Path) -> None:
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    path = tmp_path / "t.pftrace"
    made = write_perfetto(result, path, streams=["route#3.1"])
    config = TraceProcessorConfig(bin_path=_processor())
    with TraceProcessor(trace=os.fspath(path), config=config) as reader:
        (work,) = reader.query("select sum(dur) as spent from slice where name = 'work'")
        assert work.spent == sum(result.units["busy"].to_pylist())
        (arrows,) = reader.query("select count(*) as n from flow")
        assert arrows.n == made.arrows
        (errors,) = reader.query("select sum(value) as n from stats where severity = 'error'")
        assert not errors.n


def test_segments_are_columns_of_a_table(result: st.Result, tmp_path: Path) -> None:
    empty = pa.table({"begin": [], "end": [], "cause": [], "operator": []})
    write_perfetto(result, tmp_path / "t.pftrace", segments=empty)
    assert "critical path" not in ReadBack(tmp_path / "t.pftrace").slices
    for wrong, message in (
        ({"a": [1]}, "expected whole numbers in a column 'begin', .*, found no such column"),
        ({"begin": ["x"], "end": [2]}, "expected whole numbers in a column 'begin', .* string"),
        ({"begin": [1], "end": [2], "cause": [3]}, "expected texts in a column 'cause', .* int64"),
    ):
        with pytest.raises(ArgError, match=message):
            write_perfetto(result, tmp_path / "t.pftrace", segments=pa.table(wrong))


def _placed(rows: int = 256) -> st.Result:
    """Two streams that share the links of a row of tiles."""
    with st.Program("placed", compute_bw=1 << 20) as program:
        for name in "ab":
            x = st.linear_load(st.spec(rows, 64), tile=(16, 64), label=name).flatten(0, 1)
            x.map(st.fn.silu).consume()
    machine = st.load_machine("sda-1024", {"noc": "mesh", "noc.rows": 1, "noc.cols": 8})
    assert machine.noc is not None
    places = dict(zip(st.noc.placed_operators(program), [0, 2, 4, 6, 1, 3, 5, 7], strict=True))
    placement = st.noc.Placement(program, machine.noc, places)
    return st.simulate(program, machine, place=placement, record=True)


def test_links_have_tracks_of_their_flits(tmp_path: Path) -> None:
    result = _placed()
    write_perfetto(result, tmp_path / "placed.pftrace")
    found = ReadBack(tmp_path / "placed.pftrace")
    links = {link["link_name"]: link["link_flits"] for link in result.links().to_pylist()}
    used = {name for name, flits in links.items() if flits}
    assert used
    for name in used:
        assert found.spent(name, "flits") == links[name]
        assert {about for *_, about in found.slices[name]} <= set(result.fifos["name"].to_pylist())
    assert "out of 0" in found.slices
    assert not {name for name, flits in links.items() if not flits} & set(found.slices)
    waited = sum(unit["wait_memory"] for unit in units(result) if unit["operator"] != "OffChipLoad")
    spent = sum(found.spent(unit["name"], "wait for a packet") for unit in units(result))
    assert spent == waited > 0
    in_turn(found, result.cycles)


@pytest.mark.slow
def test_tracks_of_links_fit_the_limit(tmp_path: Path) -> None:
    result, limit = _placed(4096), 600_000
    whole = write_perfetto(result, tmp_path / "whole.pftrace")
    assert whole.nbytes > limit
    made = write_perfetto(result, tmp_path / "small.pftrace", limit_bytes=limit)
    assert made.grain > 1
    assert made.nbytes <= limit
    found = ReadBack(tmp_path / "small.pftrace")
    assert "mostly flits" in {name for _, _, name, *_ in found.slices["2 east"]}
    in_turn(found, result.cycles)


def test_chips_and_their_links_have_tracks(tmp_path: Path) -> None:
    result = st.simulate(reduced(4, rows=256), chip_machine(chips__gib_per_s=5), record=True)
    write_perfetto(result, tmp_path / "chips.pftrace")
    found = ReadBack(tmp_path / "chips.pftrace")
    for link in result.links().to_pylist():
        name = f"chip {link['from_device']} to chip {link['to_device']}"
        if link["link_messages"]:
            assert found.spent(name, "message") == link["link_busy_cycles"] > 0
            assert (
                len([one for one in found.slices[name] if one[2] == "message"])
                == (link["link_messages"])
            )
        else:
            assert name not in found.slices
    waited = sum(
        unit["wait_memory"] for unit in units(result) if unit["operator"] == "ReceiveMessage"
    )
    spent = sum(found.spent(unit["name"], "wait for a message") for unit in units(result))
    assert spent == waited > 0
    chips = {unit["name"]: unit["chip"] for unit in result.units.to_pylist()}
    paths = [path for path in map(found.path, found.tracks) if path[0] == "operators"]
    groups = {path[-1]: path for path in paths}
    for name, chip in chips.items():
        assert f"chip {chip}" in groups[name], name
    in_turn(found, result.cycles)
