"""Tables for the terminal, made with rich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from stepsim.report.summary import BusyUnit, RunSummary

__all__ = ["comparison_table", "run_table", "units_table"]

_STYLES = {"ok": "green"}


def run_table(summary: RunSummary, title: str) -> Table:
    """The numbers of a run, one per row."""
    program = summary.program
    table = Table(title=title, title_justify="left", box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    status = f"[{_STYLES.get(summary.status, 'bold red')}]{summary.status}"
    table.add_row("status", status, "")
    table.add_row("cycles", f"{summary.cycles:,}", "")
    table.add_row("off-chip traffic", f"{program.offchip_bytes:,}", "bytes")
    table.add_row("on-chip memory", f"{program.onchip_bytes:,}", "bytes")
    table.add_row("FLOPs", f"{program.flops:,}", _padding(program.flops, program.padded_flops))
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
    """The busiest units: how much of the run they worked, and what they waited for."""
    table = Table(title="busiest units", title_justify="left", box=None, pad_edge=False)
    table.add_column("unit")
    table.add_column("operator", style="dim")
    for heading in ("busy", "memory", "input", "output"):
        table.add_column(heading, justify="right")
    table.add_column("waited most for")
    for unit in units:
        shares = (unit.busy, unit.wait_memory, unit.wait_input, unit.wait_output)
        table.add_row(
            unit.name,
            unit.operator,
            *(_percent(share / cycles if cycles else None) for share in shares),
            unit.top_wait or "-",
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
        "padded FLOPs",
        "compute",
        "bandwidth",
        "engine steps",
        "seconds",
    ):
        table.add_column(column, justify="right")
    for label, summary in rows.items():
        program = summary.program
        padding = program.padded_flops - program.flops
        table.add_row(
            label,
            f"{summary.cycles:,}" if summary.status == "ok" else summary.status,
            f"{program.offchip_bytes / 1e6:,.1f}",
            f"{program.onchip_bytes / 1e6:,.1f}",
            _percent(padding / program.padded_flops if program.padded_flops else None),
            _percent(summary.compute_utilization),
            _percent(summary.bandwidth_utilization),
            f"{summary.engine_steps:,}",
            f"{summary.wall_seconds:.2f}",
        )
    return table


def _padding(flops: int, padded: int) -> str:
    return "no padding" if padded == flops else f"{padded:,} with padding"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
