"""Every exported number is finite or null, also where several tiles share one request."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.cli.main import main
from stepsim.explain import critical_path
from stepsim.report import write_perfetto
from stepsim.results import write_events
from stepsim.simulation.running.lone_access import access_parts

on_dram = pytest.mark.slow  # compiles the engines of that memory

MACHINES = (
    pytest.param("hdl-dram", marks=on_dram),
    pytest.param("hdl-read-ahead", marks=on_dram),
    pytest.param("hdl-arbiter", marks=on_dram),
    "sda-1024",
    "sda-1024-energy",
)
SHAPES = ((4, 4, (2, 4)), (16, 16, (1, 16)), (64, 64, (4, 16)), (1, 1, (1, 1)))


def program(rows: int, columns: int, tile: tuple[int, int]) -> st.Program:
    with st.Program("copied", compute_bw=64) as made:
        x = st.linear_load(st.spec(rows, columns), tile=tile)
        st.linear_store(x.map(st.fn.exp), "out")
    return made


def odd(value: Any, where: str = "") -> Iterator[tuple[str, float]]:
    """The numbers that are neither finite nor null."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from odd(inner, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from odd(inner, f"{where}[{i}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield where, value


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("shape", SHAPES)
def test_exported_numbers_are_finite_or_null(
    machine: str, shape: tuple[int, int, tuple[int, int]], tmp_path: Path
) -> None:
    made = program(*shape)
    result = st.simulate(made, machine, record=True)
    exported = {
        "row": result.to_arrow(),
        "units": result.units,
        "fifos": result.fifos,
        "timeline": result.timeline(),
        "path": critical_path(made, machine).segments,
    }
    for name, table in exported.items():
        assert not list(odd(table.to_pydict())), name
    assert not list(odd(st.why(made, machine).to_dict()))
    write_events(result, tmp_path / "events.parquet")


@on_dram
def test_all_bytes_of_small_tiles_are_in_the_timeline() -> None:
    made = program(4, 4, (2, 4))
    table = st.simulate(made, "hdl-dram", record=True).timeline()
    lengths = zip(table["begin"].to_pylist(), table["end"].to_pylist(), strict=True)
    rates = table["offchip_bytes_per_cycle"].to_pylist()
    moved = sum(rate * (end - begin) for rate, (begin, end) in zip(rates, lengths, strict=True))
    assert moved == pytest.approx(st.simulate(made, "hdl-dram").offchip_bytes)


@pytest.mark.slow  # compiles an engine of its own
def test_an_access_without_a_request_of_its_own_waits_for_another() -> None:
    timing = st.prepare(program(4, 4, (2, 4)), machine="hdl-dram").timing
    parts = access_parts(timing, 0, 1, 3)
    assert (sum(parts), parts.transfer, parts.queue) == (3, 0, 0)


@on_dram
def test_counters_of_perfetto_are_numbers(tmp_path: Path) -> None:
    pytest.importorskip("perfetto")
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    result = st.simulate(program(4, 4, (2, 4)), "hdl-dram", record=True)
    write_perfetto(result, tmp_path / "run.perfetto")
    trace = Trace()
    trace.ParseFromString((tmp_path / "run.perfetto").read_bytes())
    values = [
        packet.track_event.double_counter_value
        for packet in trace.packet
        if packet.HasField("track_event") and packet.track_event.HasField("double_counter_value")
    ]
    assert values
    assert all(map(math.isfinite, values))


@on_dram
def test_a_recorded_run_of_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "import stepsim as st\n\ndef copied():\n"
        "    with st.Program('copied', compute_bw=64) as made:\n"
        "        x = st.linear_load(st.spec(4, 4), tile=(2, 4))\n"
        "        st.linear_store(x.map(st.fn.exp), 'out')\n"
        "    return made\n"
    )
    out = ("--record", "--out", str(tmp_path / "run.parquet"))
    with pytest.raises(SystemExit) as ended:
        main(["run", f"{file}:copied", "--machine", "hdl-dram", "--json", "--why", *out])
    assert ended.value.code == 0
    assert not list(odd(json.loads(capsys.readouterr().out)))
