"""Text of programs: listing, Graphviz and Mermaid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepsim.graph.operator import Operator
from stepsim.graph.sizes.formulas import fold_sum, shorten

if TYPE_CHECKING:
    from stepsim.graph.metrics import Metrics
    from stepsim.graph.programs.program import Program

# Columns of a listing.
TITLE_COLUMNS = 34
MOST_INPUTS = 3
OUTPUT_COLUMNS = 62
SIZE_COLUMNS = 26


def _inputs(op: Operator) -> str:
    if len(op.inputs) > MOST_INPUTS:
        return f"({len(op.inputs)} inputs)"
    names = (
        f"#{s.producer.id}" + (f".{s.output}" if len(s.producer.outputs) > 1 else "")
        for s in op.inputs
    )
    return f"({', '.join(names)})"


def _output(op: Operator) -> str:
    if not op.outputs:
        return "-"
    first = op.outputs[0]
    sizes = (str(d) if d.is_ragged else fold_sum(d.size) for d in first.shape)
    more = f" (+{len(op.outputs) - 1} outputs)" if len(op.outputs) > 1 else ""
    kind = shorten(f" of {first.type}", OUTPUT_COLUMNS // 2)
    shape = shorten(f"Stream[{', '.join(sizes)}]", OUTPUT_COLUMNS - len(kind))
    return f"{shape}{kind}{more}"


def listing(metrics: Metrics) -> str:
    """One line for each operator: id, name, inputs, first output, traffic and memory, and the chip
    in programs on several.

    The first line names the counting: the numbers in the lines add up to the totals of ``metrics``.
    Long formulas and lists of inputs are truncated, so that lines stay below 210 columns.
    """
    several = any(op.chip for op in metrics.program.operators)
    rows = [
        (
            (f"chip {row.operator.chip}: " if several else "")
            + shorten(row.operator.called(), TITLE_COLUMNS),
            _inputs(row.operator),
            _output(row.operator),
            shorten(f"T={fold_sum(row.sizes[0])}", SIZE_COLUMNS),
            shorten(f"M={fold_sum(row.sizes[1])}", SIZE_COLUMNS),
        )
        for row in metrics.table()
    ]
    widths = [max((len(r[i]) for r in rows), default=0) for i in range(4)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]])
        for row in rows
    ]
    head = (
        f"Program '{metrics.program.name}': {len(rows)} operators (T: off-chip traffic in bytes, "
        f"M: on-chip memory in bytes, counted as {metrics.counting})"
    )
    return "\n".join([head, *lines])


def _edges(program: Program) -> Iterator[tuple[int, int, str]]:
    for op in program.operators:
        for stream in op.inputs:
            yield stream.producer.id, op.id, stream.describe()
        connected = op.loops_back()
        if connected is not None:
            yield connected.producer.id, op.id, connected.describe()


def _label(op: Operator) -> str:
    chip = f" on chip {op.chip}" if op.chip else ""
    return op.called().replace('"', "'") + chip


def to_dot(program: Program) -> str:
    """Graphviz digraph; edges carry shape and type."""
    lines = ["digraph program {", "  rankdir=TB;", "  node [shape=box];"]
    lines += [f'  n{op.id} [label="{_label(op)}"];' for op in program.operators]
    lines += [f'  n{a} -> n{b} [label="{text}"];' for a, b, text in _edges(program)]
    return "\n".join([*lines, "}"])


def to_mermaid(program: Program) -> str:
    """Mermaid flowchart; edges carry shape and type."""
    lines = ["flowchart TB"]
    lines += [f'  n{op.id}["{_label(op)}"]' for op in program.operators]
    lines += [f'  n{a} -- "{text}" --> n{b}' for a, b, text in _edges(program)]
    return "\n".join(lines)
