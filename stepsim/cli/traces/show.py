"""How traces are shown: tables, and loads as columns of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import stepsim.trace_io
from stepsim.cli.console import note, show
from stepsim.deferred import deferred

if TYPE_CHECKING:
    import rich.table
    import rich.text

    from stepsim.trace_io import LayerLoad, RequestTrace, RoutingSummary, RoutingTable
else:
    rich = deferred("rich")

MAX_ROWS = 40
"""Most rows of a table on the terminal."""

_BLOCKS = " ▁▂▃▄▅▆▇█"
_CHART_WIDTH = 64
_CHART_HEIGHT = 4


def load_table(summary: RoutingSummary) -> rich.table.Table:
    """One row per layer."""
    table = rich.table.Table(box=None, pad_edge=False)
    headings = ("layer", "tokens", "experts", "idle", "max load", "mean", "max/mean", "cv")
    for heading in headings:
        table.add_column(heading, justify="right")
    for layer in summary.layers[:MAX_ROWS]:
        table.add_row(
            *(str(value) for value in (layer.layer, layer.tokens, summary.experts)),
            *(str(value) for value in (layer.idle, layer.max)),
            *(f"{value:.2f}" for value in (layer.mean, layer.imbalance, layer.cv)),
        )
    return table


def routing_lines(summary: RoutingSummary) -> list[str]:
    """The trace in a few words, and the loads of its most uneven layer."""
    worst = summary.worst
    layers = len(summary.layers)
    return [
        f"{layers} layers, {summary.steps} steps, {summary.tokens} tokens, "
        f"{summary.experts} experts, {summary.k} per token",
        f"imbalance (max/mean load) {summary.mean_imbalance:.2f}, at most {worst.imbalance:.2f} "
        f"in layer {worst.layer}; coefficient of variation {summary.mean_cv:.2f}; "
        f"{summary.idle} of {layers * summary.experts} experts idle",
        f"load of each expert of layer {worst.layer}, 0 to {worst.max} tokens, · is idle:",
        *load_chart(worst),
    ]


def load_chart(layer: LayerLoad) -> list[str]:
    """Loads as columns of blocks, one per expert, in bands of 64 experts."""
    top = max(1, layer.max)
    lines = []
    for first in range(0, len(layer.counts), _CHART_WIDTH):
        band = [int(load) for load in layer.counts[first : first + _CHART_WIDTH]]
        # An expert with any load shows at least the lowest block.
        levels = [
            0 if load == 0 else max(1, round(8 * _CHART_HEIGHT * load / top)) for load in band
        ]
        for row in range(_CHART_HEIGHT - 1, -1, -1):
            cells = (_BLOCKS[min(8, max(0, level - 8 * row))] for level in levels)
            text = "".join(
                "·" if row == 0 and level == 0 else cell
                for cell, level in zip(cells, levels, strict=True)
            )
            label = f"{first:>5} " if row == 0 else " " * 6
            lines.append(f"{label}{text}".rstrip())
    return lines


def routing_record(summary: RoutingSummary) -> dict[str, Any]:
    """The summary of a routing trace as JSON."""
    return {
        "layers": len(summary.layers),
        "steps": summary.steps,
        "tokens": summary.tokens,
        "rows": summary.rows,
        "experts": summary.experts,
        "k": summary.k,
        "idle": summary.idle,
        "imbalance": summary.mean_imbalance,
        "max_imbalance": summary.worst.imbalance,
        "cv": summary.mean_cv,
        "per_layer": [
            {
                "layer": layer.layer,
                "tokens": layer.tokens,
                "idle": layer.idle,
                "max_load": layer.max,
                "mean_load": layer.mean,
                "imbalance": layer.imbalance,
                "cv": layer.cv,
                "loads": layer.counts.tolist(),
            }
            for layer in summary.layers
        ],
    }


def table_record(table: RoutingTable, experts: int) -> dict[str, Any]:
    """One layer and step, loading a model with ``experts`` experts, as JSON."""
    statistics = stepsim.trace_io.routing_statistics(table, experts)
    return {
        "model": table.model,
        "layer": table.layer,
        "step": table.step,
        "tokens": table.tokens,
        "k": table.k,
        "weights": table.weights is not None,
        "experts": experts,
        "active": statistics.active,
        "max_load": statistics.max,
        "mean_load": statistics.mean,
        "std_load": statistics.std,
        "imbalance": statistics.imbalance,
        "loads": statistics.counts.tolist(),
        "identity": table.identity(),
    }


def show_tables(rows: list[dict[str, Any]]) -> None:
    """Print the records of `table_record`, one per row."""
    table = rich.table.Table(box=None, pad_edge=False)
    for heading in ("model", "layer", "step"):
        table.add_column(heading)
    headings = ("tokens", "k", "experts", "active", "max load", "mean", "std", "max/mean")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows[:MAX_ROWS]:
        table.add_row(
            rich.text.Text(row["model"] or "-"),
            str(row["layer"]),
            str(row["step"]),
            *(str(row[key]) for key in ("tokens", "k", "experts", "active", "max_load")),
            *(f"{row[key]:.2f}" for key in ("mean_load", "std_load", "imbalance")),
        )
    show(table)
    if len(rows) > MAX_ROWS:
        note(f"{len(rows) - MAX_ROWS} more tables; --layer and --step select one, --json shows all")


def request_record(trace: RequestTrace) -> dict[str, Any]:
    """A request trace in numbers, as JSON; None for what was not recorded."""
    arrival = trace.arrival_seconds
    return {
        "requests": len(trace),
        "seconds": None if arrival is None else float(arrival[-1]),
        "context_tokens": _spread(trace.context_tokens),
        "generated_tokens": _spread(trace.generated_tokens),
        "prefix_hashes": trace.prefix_hashes is not None,
        "identity": trace.identity(),
    }


def request_lines(trace: RequestTrace) -> list[str]:
    """A request trace in a few words."""
    lines = [f"{len(trace)} requests"]
    if trace.arrival_seconds is not None:
        seconds = float(trace.arrival_seconds[-1])
        rate = f", {len(trace) / seconds:.2f} per second" if seconds else ""
        lines[0] += f" in {seconds:.1f} s{rate}"
    for name, values in (
        ("context tokens", trace.context_tokens),
        ("generated tokens", trace.generated_tokens),
    ):
        spread = _spread(values)
        if spread is None:
            lines.append(f"{name}: not recorded")
            continue
        stdev = "-" if spread["stdev"] is None else f"{spread['stdev']:.2f}"
        lines.append(
            f"{name}: {spread['min']} to {spread['max']}, mean {spread['mean']:.2f}, "
            f"standard deviation {stdev}, sum {spread['sum']}"
        )
    if trace.prefix_hashes is not None:
        lines.append("prompt blocks: with hashes")
    return lines


def _spread(values: Any) -> dict[str, Any] | None:
    if values is None:
        return None
    return {
        "min": int(values.min()),
        "max": int(values.max()),
        "mean": float(values.mean()),
        "stdev": float(values.std(ddof=1)) if len(values) > 1 else None,
        "sum": int(values.sum()),
    }
