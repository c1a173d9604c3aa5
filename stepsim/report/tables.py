"""Tables for the terminal, made with rich. Names are the user's and are never read as markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from stepsim.report.summary import BusyUnit, ProgramNumbers, RunSummary

__all__ = ["comparison_table", "run_table", "units_table"]

_STYLES = {"ok": "green"}


def run_table(summary: RunSummary, title: str) -> Table:
    """The numbers of a run, one per row."""
    program = summary.program
    table = Table(title=title, title_justify="left", box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    status = Text(summary.status, _STYLES.get(summary.status, "bold red"))
    table.add_row("status", status, "")
    table.add_row("cycles", f"{summary.cycles:,}", "")
    table.add_row("off-chip traffic", f"{program.offchip_bytes:,}", "bytes")
    table.add_row("on-chip memory", f"{program.onchip_bytes:,}", "bytes")
    table.add_row("FLOPs", f"{program.flops:,}", _padding(program))
    table.add_row("allocated compute", f"{program.allocated_flops_per_cycle:,}", "FLOPs/cycle")
    table.add_row("compute utilisation", _percent(summary.compute_utilization), "")
    table.add_row(
        "bandwidth utilisation",
        _percent(summary.bandwidth_utilization),
        f"of {summary.peak_bandwidth:g} bytes/cycle",
    )
    speed = summary.steps_per_second
    rate = "" if speed is None else f"{speed / 1e6:.1f} M steps/s, {summary.wall_seconds:.2f} s"
    table.add_row("engine steps", f"{summary.engine_steps:,}", rate)
    return table


def units_table(units: Sequence[BusyUnit], cycles: int) -> Table:
    """The busiest units: how much of the run they worked, and what they waited for.

    Waits are for own memory requests, for input, for room at the output; idle is the time before
    the first firing and after the last. The shares of a unit add up to the whole run.
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


def comparison_table(rows: Mapping[str, RunSummary], heading: str, title: str) -> Table:
    """Several runs side by side, each a row with its label under ``heading``."""
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
    for label, summary in rows.items():
        program = summary.program
        table.add_row(
            label,
            f"{summary.cycles:,}" if summary.status == "ok" else summary.status,
            f"{program.offchip_bytes / 1e6:,.1f}",
            f"{program.onchip_bytes / 1e6:,.1f}",
            _percent(_padding_share(program)),
            _percent(summary.compute_utilization),
            _percent(summary.bandwidth_utilization),
            f"{summary.engine_steps:,}",
            f"{summary.wall_seconds:.2f}",
        )
    return table


def _padding_share(program: ProgramNumbers) -> float | None:
    return program.padded_flops / program.flops if program.flops else None


def _padding(program: ProgramNumbers) -> str:
    return f"{_percent(_padding_share(program))} on padding" if program.padded_flops else ""


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
