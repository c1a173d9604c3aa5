"""Tables of runs for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepsim.report.busiest import BusyUnit
from stepsim.report.terminal_table import Cell, Column, TerminalTable
from stepsim.results import line_of

_STYLES = {"ok": "green"}

Row = Mapping[str, Any]


def run_table(row: Row, title: str) -> TerminalTable:
    """The numbers of a run, one per line; ``row`` holds columns of ``stepsim.results.columns``."""
    columns = Column(style="bold"), Column(justify="right"), Column(style="dim")
    table = TerminalTable(title, columns, header=False)
    status = row["status"]
    table.add("status", Cell(status, _STYLES.get(status, "bold red")), "")
    time = row.get("milliseconds")
    table.add("cycles", _number(row["cycles"]), "" if time is None else f"{time:.4g} ms")
    if row.get("energy_joules") is not None:
        table.add("energy", f"{row['energy_joules']:.4g}", f"J: {energy_shares(row)}")
    if row.get("edp") is not None:
        table.add("energy-delay product", f"{row['edp']:.4g}", "J s")
    if row.get("tokens_per_second") is not None:
        table.add("speed", f"{row['tokens_per_second']:,.1f}", "tokens/s")
    table.add("off-chip traffic", _number(row["offchip_bytes"]), "bytes")
    known = row["onchip_bytes"] is not None
    table.add("on-chip memory", _number(row["onchip_bytes"]), "bytes" * known)
    if row.get("onchip_peak_bytes") is not None:
        table.add("on-chip memory in use", _number(row["onchip_peak_bytes"]), "bytes at most")
    padding = f"{_percent(_padding_share(row))} on padding" if row["padded_flops"] else ""
    table.add("FLOPs", _number(row["flops"]), padding)
    table.add("allocated compute", _number(row["allocated_flops_per_cycle"]), "FLOPs/cycle")
    table.add("compute utilization", _percent(row["compute_utilization"]), "")
    table.add(
        "bandwidth utilization",
        _percent(row["bandwidth_utilization"]),
        f"of {row['peak_bandwidth']:g} bytes/cycle",
    )
    table.add("counting", row["counting"], "of bytes and FLOPs")
    steps, seconds = row["engine_steps"], row["wall_seconds"]
    rate = f"{steps / seconds / 1e6:.1f} M steps/s, {seconds:.2f} s" if seconds else ""
    table.add("engine steps", _number(steps), rate)
    return table


def units_table(units: Sequence[BusyUnit], cycles: int) -> TerminalTable:
    """The busiest units: how much of the run they worked, and their waits.

    Waits are for their own memory requests, for input, or for room at the output; idle is the time
    before the first firing and after the last. The shares of a unit add up to the entire run.
    """
    shares_of = (Column(name, "right") for name in ("busy", "memory", "input", "output", "idle"))
    table = TerminalTable(
        "busiest units",
        [
            Column("unit"),
            Column("operator", style="dim"),
            Column("line", style="dim"),
            *shares_of,
            Column("waited longest for"),
        ],
    )
    for unit in units:
        idle = unit.before + unit.after
        shares = (unit.busy, unit.wait_memory, unit.wait_input, unit.wait_output, idle)
        table.add(
            unit.name,
            _operator(unit),
            line_of(unit.source) or "-",
            *(_percent(share / cycles if cycles else None) for share in shares),
            unit.longest_wait or "-",
        )
    return table


def _operator(unit: BusyUnit) -> str:
    """The operator with its function, unless the name of the unit states it: ``map silu``."""
    function = unit.function
    named = function is None or unit.name.rpartition("#")[0] == function
    return unit.operator if named else f"{unit.operator} {function}"


def comparison_table(rows: Mapping[str, Row], heading: str, title: str) -> TerminalTable:
    """Several runs for comparison, each a row with its label under ``heading``."""
    names = (
        "cycles", "off-chip MB", "on-chip MB", "padding", "compute", "bandwidth", "engine steps",
        "seconds",
    )  # fmt: skip
    numbers = (Column(name, "right") for name in names)
    table = TerminalTable(title, [Column(heading), *numbers])
    for label, row in rows.items():
        table.add(
            label,
            f"{row['cycles']:,}" if row["status"] == "ok" else row["status"],
            _megabytes(row["offchip_bytes"]),
            _megabytes(row["onchip_bytes"]),
            _percent(_padding_share(row)),
            _percent(row["compute_utilization"]),
            _percent(row["bandwidth_utilization"]),
            f"{row['engine_steps']:,}",
            f"{row['wall_seconds']:.2f}",
        )
    return table


def energy_shares(row: Row) -> str:
    """The shares of energy, in words; that of links between chips where messages cost any."""
    words = {
        "offchip": "off chip", "onchip": "on chip", "fifo": "FIFOs", "compute": "compute",
        "links": "links", "static": "static",
    }  # fmt: skip
    total = row["energy_joules"]
    joules = {part: row[f"energy_{part}_joules"] for part in words}
    return ", ".join(
        f"{_percent(joules[part] / total if total else None)} {word}"
        for part, word in words.items()
        if part != "links" or joules[part]
    )


def _padding_share(row: Row) -> float | None:
    known = row["padded_flops"] is not None and row["flops"]
    return row["padded_flops"] / row["flops"] if known else None


def _megabytes(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e6:,.1f}"


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
