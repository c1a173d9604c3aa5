"""``stepsim run`` with --record, --perfetto and --events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import stepsim as st
from stepsim.explain import CriticalPath, critical_path
from stepsim.results.writing import neighbor
from stepsim.simulation.cases.case import Case


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_record_measures_occupancy(feed, tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    found = feed("--record", "--out", out, "--json").json()
    assert 0 < found["onchip_peak_bytes"] <= found["onchip_bytes"]
    assert names(tmp_path) == {
        f"run{part}.parquet" for part in ("", ".units", ".fifos", ".timeline", ".path")
    }
    timeline = pq.read_table(tmp_path / "run.timeline.parquet")
    assert len(timeline) == 100
    assert timeline["end"].to_pylist()[-1] == found["cycles"]
    fifos = pq.read_table(tmp_path / "run.fifos.parquet")
    assert fifos["mean_tokens"].null_count == 0
    assert pq.read_table(out)["onchip_peak_bytes"].to_pylist() == [found["onchip_peak_bytes"]]


def test_without_it_nothing_is_measured(feed, tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    assert feed("--out", out, "--json").json()["onchip_peak_bytes"] is None
    assert names(tmp_path) == {f"run{part}.parquet" for part in ("", ".units", ".fifos")}
    assert pq.read_table(tmp_path / "run.fifos.parquet")["peak_tokens"].null_count > 0


def test_what_an_earlier_run_left_goes(feed, tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    feed("--record", "--out", out)
    assert len(names(tmp_path)) == 5
    feed("--out", out, tile=8)
    assert names(tmp_path) == {f"run{part}.parquet" for part in ("", ".units", ".fifos")}


def test_the_path_of_a_run_that_stopped_elsewhere_is_left_out(
    feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(prepared: st.simulation.Prepared, **how: Any) -> CriticalPath:
        """As if the limit of wall time stopped the run, which takes longer when it is recorded."""
        return critical_path(prepared, bindings=how["bindings"], limits=st.Limits(max_cycles=100))

    monkeypatch.setattr("stepsim.explain.critical_path", stopped)
    outcome = feed("--record", "--out", tmp_path / "run.parquet", "--perfetto", tmp_path / "trace")
    assert outcome.code == 0
    assert outcome.err.count("no critical path: a limit stopped the run") == 1
    assert "run.path.parquet" not in names(tmp_path)
    assert b"critical path" not in (tmp_path / "trace").read_bytes()


@pytest.mark.parametrize("table", ["timeline", "path", "units", "fifos"])
def test_a_report_refuses_tables_of_another_run(cli, feed, tmp_path: Path, table: str) -> None:
    pytest.importorskip("plotly")
    one, other = tmp_path / "one.parquet", tmp_path / "other.parquet"
    feed("--record", "--out", one)
    feed("--record", "--out", other, tile=8)
    neighbor(other, table).replace(neighbor(one, table))
    outcome = cli("report", one, "--out", tmp_path / "page.html")
    assert outcome.code == 2
    assert f"expected the {table} of the run in one.parquet" in outcome.err.replace("\n", " ")


def test_the_table_shows_what_is_in_use(feed) -> None:
    assert "on-chip memory in use" in feed("--record").out
    assert "on-chip memory in use" not in feed().out


def test_files_of_timeline_and_events(feed, tmp_path: Path) -> None:
    trace, events = tmp_path / "run.pftrace", tmp_path / "events.parquet"
    outcome = feed("--perfetto", f"{trace},span=10:500", "--events", events, "--json")
    assert outcome.code == 0, outcome.err
    assert trace.stat().st_size > 1000
    kinds = set(pq.read_table(events)["event"].to_pylist())
    assert {"work", "wait", "access", "token"} <= kinds
    assert b"critical path" in trace.read_bytes()


def test_names_of_files_and_folders_may_have_commas(feed, tmp_path: Path) -> None:
    folder = tmp_path / "d,lr=0.1"
    folder.mkdir()
    trace = folder / "run,1.pftrace"
    assert feed("--perfetto", f"{trace},span=10:500").code == 0
    assert trace.exists()


def test_a_span_after_the_end_is_told_with_the_end(feed, tmp_path: Path) -> None:
    trace = tmp_path / "run.pftrace"
    cycles = feed("--json").json()["cycles"]
    outcome = feed("--perfetto", f"{trace},span={cycles}:{cycles + 9}")
    assert outcome.code == 2
    assert f"but the run ends at cycle {cycles:,}" in outcome.err.replace("\n", " ")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--span", "1:5"), "--span: is now part of --perfetto, as in --perfetto FILE,span="),
        (("--stream", "x"), "--stream: is now part of --perfetto, as in --perfetto FILE,stream="),
        (("--bins", 5), "--bins: is not an option any more: the table has 100 rows"),
        (("--perfetto", "t,span=5:1"), "--perfetto: span: expected two ascending cycles"),
        (("--perfetto", "t,span=5"), "--perfetto: span: expected two ascending cycles"),
        (("--perfetto", "t,span=1:5,span=2:6"), "--perfetto: span is given 2 times"),
        (("--perfetto", "t,bins=7"), "--perfetto: expected span= or stream= after the file"),
        (("--perfetto", "t,span=1:5,silu"), "span= or stream= after the file, found 'silu'"),
        (("--perfetto", "t,stream=a/b,c"), "span= or stream= after the file, found 'c'"),
        (("--perfetto", "no/t"), "no/t: cannot be written"),
        (("--events", "e.csv"), "expected a name that ends in .parquet"),
        (("--perfetto", "t,stream=nothing"), "--perfetto: stream: there is no FIFO 'nothing'"),
        (("--perfetto", "t,stream=matmul_up,stream=matmul_upp"), "did you mean 'matmul_up'?"),
        (("--perfetto", "f", "--events", "./f"), "--events: f is also the file of --perfetto"),
        (("--out", "a.parquet", "--events", "a.parquet"), "is also the file of --out"),
        (
            ("--out", "a.parquet", "--events", "a.timeline.parquet"),
            "is also the file of the timeline of --out",
        ),
    ],
)
def test_mistakes(
    feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[object, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Case, "result", lambda *given, **more: pytest.fail("it ran"))
    outcome = feed(*options)
    assert outcome.code != 0
    assert message in outcome.err.replace("\n", " ")
    assert names(tmp_path) == set()


def test_a_span_past_the_end_leaves_nothing(feed, tmp_path: Path) -> None:
    timeline = f"{tmp_path / 't.pftrace'},span=9000000:9000001"
    refused = feed("--record", "--out", tmp_path / "run.parquet", "--perfetto", timeline)
    assert refused.code == 2
    assert "span: begins at cycle 9,000,000" in refused.err
    assert not names(tmp_path)


def test_a_run_that_does_not_fit_has_its_path(feed, tmp_path: Path) -> None:
    found = feed("--set", "compute.flops_per_cycle=1", "--record", "--out", tmp_path / "r.parquet")
    assert found.code == 1
    assert "no critical path" not in found.err
    assert pq.read_table(tmp_path / "r.path.parquet").num_rows
