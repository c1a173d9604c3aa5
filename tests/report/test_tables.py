"""Tables of runs for the terminal."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from stepsim.cli.console import show
from stepsim.report.busiest import BusyUnit, busiest_units
from stepsim.report.tables import comparison_table, run_table, units_table
from stepsim.report.terminal_table import Column, TerminalTable

RUN: dict[str, Any] = {
    "status": "ok",
    "cycles": 1_000,
    "offchip_bytes": 512_000,
    "onchip_bytes": 2_000_000,
    "flops": 3_000_000,
    "padded_flops": 750_000,
    "allocated_flops_per_cycle": 6_000,
    "compute_utilization": 0.5,
    "bandwidth_utilization": 0.5,
    "peak_bandwidth": 1024.0,
    "counting": "executed",
    "engine_steps": 5_000_000,
    "wall_seconds": 0.5,
}
UNKNOWN = {"padded_flops": None, "compute_utilization": None, "bandwidth_utilization": None}
EMPTY = {**RUN, **UNKNOWN, "status": "deadlock", "onchip_bytes": None, "wall_seconds": 0.0}


def rendered(table: object) -> str:
    stream = io.StringIO()
    Console(file=stream, width=120, color_system=None).print(table)
    return stream.getvalue()


def row(text: str, start: str) -> list[str]:
    """The words of the first line that begins with ``start``."""
    return next(line for line in text.splitlines() if line.startswith(start)).split()


def test_run_table_shows_the_numbers() -> None:
    text = rendered(run_table(RUN, "my run"))
    assert text.startswith("my run")
    assert row(text, "cycles") == ["cycles", "1,000"]
    assert row(text, "off-chip") == ["off-chip", "traffic", "512,000", "bytes"]
    assert row(text, "FLOPs") == ["FLOPs", "3,000,000", "25.0", "%", "on", "padding"]
    assert row(text, "bandwidth") == (
        ["bandwidth", "utilization", "50.0", "%", "of", "1024", "bytes/cycle"]
    )
    assert row(text, "counting") == ["counting", "executed", "of", "bytes", "and", "FLOPs"]
    assert row(text, "engine") == (
        ["engine", "steps", "5,000,000", "10.0", "M", "steps/s,", "0.50", "s"]
    )


def test_what_is_not_known_is_not_shown_as_a_number() -> None:
    text = rendered(run_table(EMPTY, "t"))
    assert row(text, "status") == ["status", "deadlock"]
    assert row(text, "on-chip")[-2:] == ["not", "known"]
    assert row(text, "FLOPs") == ["FLOPs", "3,000,000"]
    assert row(text, "compute util")[-1] == "-"
    assert row(text, "engine") == ["engine", "steps", "5,000,000"]


def units(*busy: int) -> dict[str, Any]:
    count = len(busy)
    return {
        "name": [f"u{i}" for i in range(count)],
        "operator": ["Map"] * count,
        "busy": np.array(busy),
        "wait_memory": [0] * count,
        "wait_input": [200] * count,
        "wait_output": [50] * count,
        "before": [20] * count,
        "after": [30] * count,
        "longest_wait": ["u9 on 'tiles'", None, *[None] * (count - 2)],
        "label": [None] * count,
        "function": ["silu", *[None] * (count - 1)],
        "source": ["model/m.py:3", *[None] * (count - 1)],
        "other": [1] * count,
    }


def test_busiest_units_are_sorted_and_ties_keep_their_order() -> None:
    found = busiest_units(units(5, 9, 9, 1, 7, 8), count=4)
    assert [unit.name for unit in found] == ["u1", "u2", "u5", "u4"]


def test_units_table_shows_shares_of_the_run() -> None:
    text = rendered(units_table(busiest_units(units(700, 250)), cycles=1_000))
    assert " ".join(row(text, "u0")) == (
        "u0 Map silu m.py:3 70.0 % 0.0 % 20.0 % 5.0 % 5.0 % u9 on 'tiles'"
    )
    assert row(text, "u1")[-1] == "-"


def test_units_table_of_an_empty_run() -> None:
    unit = BusyUnit("u", "Map", 0, 0, 0, 0, 0, 0, None)
    assert row(rendered(units_table([unit], cycles=0)), "u ") == ["u", "Map", *"-------"]


def test_names_are_not_markup() -> None:
    unit = BusyUnit("load[red]x[/red]", "Map", 1, 0, 0, 0, 0, 0, "[bold]y")
    text = rendered(units_table([unit], cycles=1))
    assert "load[red]x[/red]" in text
    assert "[bold]y" in text


def test_comparison_has_a_row_per_run_and_names_failures() -> None:
    text = rendered(comparison_table({"8": RUN, "dynamic": EMPTY}, "tile", "tilings"))
    assert row(text, "8 ") == (
        ["8", "1,000", "0.5", "2.0", "25.0", "%", "50.0", "%", "50.0", "%", "5,000,000", "0.50"]
    )
    assert row(text, "dynamic")[1:6] == ["deadlock", "0.5", "-", "-", "-"]


TABLES = {
    "run": run_table(RUN, "my run"),
    "deadlock": run_table(EMPTY, "t[red]"),
    "units": units_table(busiest_units(units(700, 250)), cycles=1_000),
    "comparison": comparison_table({"8": RUN, "dynamic": EMPTY}, "tile", "tilings"),
    "no rows": units_table((), cycles=1),
    "folded": units_table(
        [
            BusyUnit(
                f"unit#{i}", "Map", 1, 2, 3, 4, 5, 6, " ".join(["broadcast(x) to make room"] * i)
            )
            for i in range(1, 6)
        ],
        cycles=100,
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_without_rich_is_what_rich_prints(name: str) -> None:
    plain = TABLES[name].plain(120)
    assert plain is not None
    assert f"{plain}\n" == rendered(TABLES[name])


@pytest.mark.parametrize(
    ("title", "cell"),
    [("t", "x" * 118), ("a title that is too long", "x"), ("t", "\u00e9"), ("t", "two\nlines")],
    ids=["wide", "title", "not ASCII", "lines"],
)
def test_what_rich_folds_or_measures_otherwise_is_left_to_it(
    title: str, cell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = TerminalTable(title, [Column("a"), Column("b")])
    table.add(cell, "1")
    assert table.plain(120) is None
    show("before", table)
    assert capsys.readouterr().out == f"before\n{rendered(table)}"


def test_a_folded_heading_is_left_to_rich() -> None:
    table = TerminalTable("", [Column(" ".join(["heading"] * 16)), Column("b")])
    table.add("x", "1")
    assert table.plain(120) is None


def test_color_can_be_forced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    show(TABLES["run"])
    assert "\x1b[" in capsys.readouterr().out
