"""Tables for the terminal, made with rich. Users' names are never interpreted as markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from stepsim.report.busiest import BusyUnit

_STYLES = {"ok": "green"}

Row = Mapping[str, Any]


def run_table(row: Row, title: str) -> Table:
    """The numbers of a run, one per line; ``row`` holds columns of ``stepsim.results.columns``."""
    table = Table(title=title, title_justify="left", box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    status = row["status"]
    table.add_row("status", Text(status, _STYLES.get(status, "bold red")), "")
    time = row.get("milliseconds")
    table.add_row("cycles", _number(row["cycles"]), "" if time is None else f"{time:.4g} ms")
    if row.get("energy_joules") is not None:
        table.add_row("energy", f"{row['energy_joules']:.4g}", f"J: {_energy_shares(row)}")
    if row.get("edp") is not None:
        table.add_row("energy-delay product", f"{row['edp']:.4g}", "J s")
    if row.get("tokens_per_second") is not None:
        table.add_row("speed", f"{row['tokens_per_second']:,.1f}", "tokens/s")
    table.add_row("off-chip traffic", _number(row["offchip_bytes"]), "bytes")
    known = row["onchip_bytes"] is not None
    table.add_row("on-chip memory", _number(row["onchip_bytes"]), "bytes" * known)
    if row.get("onchip_peak_bytes") is not None:
        table.add_row("on-chip memory in use", _number(row["onchip_peak_bytes"]), "bytes at most")
    padding = f"{_percent(_padding_share(row))} on padding" if row["padded_flops"] else ""
    table.add_row("FLOPs", _number(row["flops"]), padding)
    table.add_row("allocated compute", _number(row["allocated_flops_per_cycle"]), "FLOPs/cycle")
    table.add_row("compute utilization", _percent(row["compute_utilization"]), "")
    table.add_row(
        "bandwidth utilization",
        _percent(row["bandwidth_utilization"]),
        f"of {row['peak_bandwidth']:g} bytes/cycle",
    )
    table.add_row("counting", row["counting"], "of bytes and FLOPs")
    steps, seconds = row["engine_steps"], row["wall_seconds"]
    rate = f"{steps / seconds / 1e6:.1f} M steps/s, {seconds:.2f} s" if seconds else ""
    table.add_row("engine steps", _number(steps), rate)
    return table


def units_table(units: Sequence[BusyUnit], cycles: int) -> Table:
    """The busiest units: how much of the run they worked, and their waits.

    Waits are for their own memory requests, for input, or for room at the output; idle is the time
    before the first firing and after the last. The shares of a unit add up to the entire run.
    """
    table = Table(title="busiest units", title_justify="left", box=None, pad_edge=False)
    table.add_column("unit")
    table.add_column("operator", style="dim")
    for heading in ("busy", "memory", "input", "output", "idle"):
        table.add_column(heading, justify="right")
    table.add_column("waited longest for")
    for unit in units:
        idle = unit.before + unit.after
        shares = (unit.busy, unit.wait_memory, unit.wait_input, unit.wait_output, idle)
        table.add_row(
            Text(unit.name),
            Text(unit.operator),
            *(_percent(share / cycles if cycles else None) for share in shares),
            Text(unit.longest_wait or "-"),
        )
    return table


def comparison_table(rows: Mapping[str, Row], heading: str, title: str) -> Table:
    """Several runs for comparison, each a row with its label under ``heading``."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column(heading)
    for column in (
        "cycles",
        "off-chip MB",
        "on-chip MB",
        "padding",
        "compute",
        "bandwidth",
        "engine steps",
        "seconds",
    ):
        table.add_column(column, justify="right")
    for label, row in rows.items():
        table.add_row(
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


def _energy_shares(row: Row) -> str:
    """The shares of energy, in words."""
    parts = ("offchip", "onchip", "fifo", "compute", "static")
    words = ("off chip", "on chip", "FIFOs", "compute", "static")
    total = row["energy_joules"]
    return ", ".join(
        f"{_percent(row[f'energy_{part}_joules'] / total if total else None)} {word}"
        for part, word in zip(parts, words, strict=True)
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
