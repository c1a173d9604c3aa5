"""Everything that explains, disturbs, records or shows a run. What is exported is a finite number
or null, and agrees with the run."""

from __future__ import annotations

import io
import json
import math
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import stepsim as st
from stepsim.cli.main import main
from stepsim.explain import critical_path, stall_tree, what_if
from stepsim.report import write_perfetto
from stepsim.results import write_events
from stepsim.sizing import fix_deadlock, size_fifos
from tests.fuzz.script import Script

__all__ = ["LOOKS", "LOOKS_AT_ENDS", "Seen", "check_finite", "check_numbers", "check_table"]


@dataclass(frozen=True)
class Seen:
    """A run that is looked at; recorded, unless it is on several chips."""

    program: Any
    prepared: Any
    bindings: dict[Any, Any]
    limits: st.Limits
    result: st.Result

    @property
    def options(self) -> dict[str, Any]:
        return {"bindings": self.bindings, "limits": self.limits}


def check_finite(value: Any, where: str = "") -> None:
    """Every number is finite, and the whole can be JSON."""
    json.dumps(value, allow_nan=False, default=str)
    if isinstance(value, dict):
        for name, inner in value.items():
            check_finite(inner, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            check_finite(inner, f"{where}[{i}]")
    elif isinstance(value, float):
        assert math.isfinite(value), f"{where} is {value}"


def check_table(table: pa.Table, what: str) -> None:
    """Every number of a table is finite or null."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type):
            odd = pc.sum(pc.invert(pc.is_finite(column))).as_py()
            assert not odd, f"{what}.{name} has {odd} numbers that are not finite"


def check_numbers(result: st.Result) -> None:
    """All that a result exports."""
    for name in ("run", "units", "fifos"):
        check_table(result.to_arrow(name), name)
    for name in ("milliseconds", "energy_joules", "edp", "bandwidth_utilization"):
        value = getattr(result, name)
        assert value is None or math.isfinite(value), f"{name} is {value}"


def _why(script: Script, seen: Seen) -> None:
    found = script.exactly("result.why", seen.result.why)
    check_finite(found.to_dict(), "why")
    assert str(found)


def _path(script: Script, seen: Seen) -> None:
    found = script.exactly("critical_path", critical_path, seen.prepared, **seen.options)
    check_table(found.segments, "segments")
    rows = found.segments.to_pylist()
    for before, after in pairwise(rows):
        assert before["end"] == after["begin"], f"a gap in the path: {before}, {after}"
    assert all(row["end"] - row["begin"] == row["cycles"] for row in rows)
    spent = sum(row["cycles"] for row in rows)
    cycles = seen.result.cycles
    assert spent == cycles, f"segments of {spent} cycles, {cycles} in all"
    check_table(found.totals(), "totals")
    assert found.folded()


def _changes(script: Script, seen: Seen) -> None:
    found = script.exactly("what_if", what_if, seen.prepared, **seen.options, most=4, threads=1)
    check_finite(found.to_dict(), "what_if")
    assert found.cycles == seen.result.cycles
    assert str(found)
    for name, row in zip(found.variants, found.table.to_pylist(), strict=True):
        if script.rng.random() < 0.2:
            bindings = found.variants[name].bindings or seen.bindings
            made = found.variants[name].applied(seen.prepared).run(bindings, limits=seen.limits)
            assert row["cycles"] in (None, made.cycles), f"{name}: {made.cycles}, {row['cycles']}"


def _disturbed(script: Script, seen: Seen) -> None:
    found = script.exactly(
        "st.ensemble", st.ensemble, seen.prepared, **seen.options, runs=3, threads=1
    )
    check_finite(found.to_dict(), "ensemble")
    assert found.nominal == seen.result.cycles
    assert str(found)


def _sizes(script: Script, seen: Seen) -> None:
    found = script.exactly("size_fifos", size_fifos, seen.prepared, **seen.options)
    made = seen.prepared.changed(fifo_depths=found.depths).run(**seen.options)
    assert made.status in ("ok", "infeasible"), f"with its sizes the run is {made.status}"
    free = seen.prepared.changed(fifo_depths=dict.fromkeys(found.depths)).run(**seen.options)
    assert made.cycles <= 1.01 * free.cycles, f"{made.cycles} with sizes, {free.cycles} without"


def _fixed(script: Script, seen: Seen) -> None:
    found = script.exactly(
        "fix_deadlock", fix_deadlock, seen.prepared, **seen.options, max_runs=200
    )
    check_finite(found.to_dict(), "fix")
    stuck = seen.result.status == "deadlock"
    assert stuck == (found.status != "no deadlock"), f"{found.status} of {seen.result.status}"
    if found.status == "fixed":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "fix.yaml"
            found.save(path)
            made = seen.prepared.changed(fix=path).run(**seen.options)
        assert made.cycles == found.cycles, f"{made.cycles} with the fix, {found.cycles} found"
        assert made.status != "deadlock"


def _many(script: Script, seen: Seen) -> None:
    """Runs of a batch are those that are made alone."""
    (made,) = script.exactly(
        "prepared.run_many", seen.prepared.run_many, [seen.bindings], limits=seen.limits
    )
    for name in ("status", "cycles", "offchip_bytes", "flops", "tokens", "engine_steps"):
        one, alone = getattr(made, name), getattr(seen.result, name)
        assert one == alone, f"{name} of a batch is {one}, alone {alone}"


def _deeper(script: Script, seen: Seen) -> None:
    """A changed program is one that was prepared so."""
    depth = script.rng.choice([1, 3, 2000])
    made = seen.prepared.changed(fifo_depth=depth).image(seen.bindings)
    options = {"fifo_depth": depth, "place": seen.prepared.placement}
    again = st.prepare(seen.program, seen.prepared.machine, **options).image(seen.bindings)
    assert made.digest() == again.digest(), "a changed depth is not that of a program built so"


def _stalls(script: Script, seen: Seen) -> None:
    assert str(script.exactly("stall_tree", stall_tree, seen.result.units, seen.result.fifos))


def _events(script: Script, seen: Seen) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        script.exactly("write_events", write_events, seen.result, path)
        check_table(pq.read_table(path), "events")


def _timeline(script: Script, seen: Seen) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.pftrace"
        made = script.exactly("write_perfetto", write_perfetto, seen.result, path)
        assert path.stat().st_size == made.nbytes
    bins = script.rng.choice([1, 7, 100])
    check_table(script.exactly("result.timeline", seen.result.timeline, bins=bins), "timeline")


def _page(script: Script, seen: Seen) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, page = Path(folder) / "run.parquet", Path(folder) / "run.html"
        script.exactly("result.to_parquet", seen.result.to_parquet, path)
        try:
            with redirect_stdout(io.StringIO()):
                code = main(["report", str(path), "--out", str(page)])
        except SystemExit as ended:
            code = ended.code
        assert not code, f"report ended with {code}"
        text = page.read_text(encoding="utf-8")
        data = text.partition('id="document">')[2].partition("</script>")[0]
        json.loads(data, parse_constant=lambda name: pytest.fail(f"the page has {name}"))


Look = Callable[[Script, Seen], None]

LOOKS: tuple[Look, ...] = (
    _why, _path, _stalls, _events, _timeline, _page, _fixed, _many, _deeper,
)  # fmt: skip
"""Looks at every run."""

LOOKS_AT_ENDS: tuple[Look, ...] = (_changes, _disturbed, _sizes)
"""Looks that compare runs that end."""
