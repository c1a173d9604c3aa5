"""Programs that run on drawn machines, and everything that explains, disturbs, records or shows
the run. What is exported is a finite number or null."""

from __future__ import annotations

import io
import json
import math
import random
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import stepsim as st
from stepsim.cli.main import main
from stepsim.explain import critical_path, stall_tree, what_if, why
from stepsim.report import write_perfetto
from stepsim.results import write_events
from tests.fuzz.api import grown_program
from tests.fuzz.laws import check_result
from tests.fuzz.machines import drawn_machine
from tests.fuzz.programs import Grown
from tests.fuzz.script import Refused, Script

__all__ = ["one"]

_STEPS = 5_000


def one(rng: random.Random) -> str:
    """A program without nasty arguments, a machine of any keys, and three looks at the run."""
    script = Script(rng, dirt=0.0)
    grown = Grown(script)
    try:
        program = grown_program(grown)
        name, changes = drawn_machine(rng)
        machine = script.exactly("st.load_machine", st.load_machine, name, changes)
        given = {
            "machine": machine,
            "bindings": dict(grown.routings),
            "fifo_depth": rng.choice([None, None, 1, 2, 64]),
            "limits": st.Limits(max_steps=_STEPS),
        }
        result = script.exactly("st.simulate", st.simulate, program, **given, record=True)
        check_result(result)
        check_numbers(result)
        looks = [_why, _path, _stalls, _events, _timeline, _page]
        if result.status == "ok":  # these compare runs that end
            looks += [_changes, _disturbed]
        for look in rng.sample(looks, 3):
            look(script, program, given, result)
    except Refused:
        return "refused"
    return "accepted"


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


def _why(script: Script, program: Any, given: dict[str, Any], result: st.Result) -> None:
    found = script.exactly("why", why, program, **given)
    check_finite(found.to_dict(), "why")
    assert str(found)


def _path(script: Script, program: Any, given: dict[str, Any], result: st.Result) -> None:
    found = script.exactly("critical_path", critical_path, program, **given)
    check_table(found.segments, "segments")
    spent = sum(found.segments["cycles"].to_pylist())
    assert spent == result.cycles, f"segments of {spent} cycles, {result.cycles} in all"
    check_table(found.totals(), "totals")
    assert found.folded()


def _changes(script: Script, program: Any, given: dict[str, Any], result: st.Result) -> None:
    found = script.exactly("what_if", what_if, program, **given, most=4, threads=1)
    check_finite(found.to_dict(), "what_if")
    assert str(found)


def _disturbed(script: Script, program: Any, given: dict[str, Any], result: st.Result) -> None:
    found = script.exactly("st.ensemble", st.ensemble, program, **given, runs=3, threads=1)
    check_finite(found.to_dict(), "ensemble")
    assert str(found)


def _stalls(script: Script, program: Any, given: dict[str, Any], result: st.Result) -> None:
    assert str(script.exactly("stall_tree", stall_tree, result.units, result.fifos))


def _events(script: Script, program: Any, given: dict[str, Any], result: st.Result) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        script.exactly("write_events", write_events, result, path)
        check_table(pq.read_table(path), "events")


def _timeline(script: Script, program: Any, given: dict[str, Any], result: st.Result) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.pftrace"
        made = script.exactly("write_perfetto", write_perfetto, result, path)
        assert path.stat().st_size == made.nbytes
    bins = script.rng.choice([1, 7, 100])
    check_table(script.exactly("result.timeline", result.timeline, bins=bins), "timeline")


def _page(script: Script, program: Any, given: dict[str, Any], result: st.Result) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, page = Path(folder) / "run.parquet", Path(folder) / "run.html"
        script.exactly("result.to_parquet", result.to_parquet, path)
        try:
            with redirect_stdout(io.StringIO()):
                code = main(["report", str(path), "--out", str(page)])
        except SystemExit as ended:
            code = ended.code
        assert not code, f"report ended with {code}"
        text = page.read_text(encoding="utf-8")
        data = text.partition('id="document">')[2].partition("</script>")[0]
        json.loads(data, parse_constant=lambda name: pytest.fail(f"the page has {name}"))
