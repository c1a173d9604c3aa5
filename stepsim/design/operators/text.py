"""Operator graphs as text: one line for each tensor from off chip and each operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.design.operators.expressions import expression_text

if TYPE_CHECKING:
    from stepsim.design.operators.graph import OperatorGraph
    from stepsim.design.operators.types import Op


def text_of(graph: OperatorGraph) -> str:
    """Head, tensors from off chip, operators, with the sizes of dims and tensors."""
    about = ", ".join(f"{name} {value}" for name, value in graph.attributes.items())
    lines = [
        f"{graph.name}" + (f" ({about})" if about else ""),
        f"{len(graph.ops)} operators, {graph.flops:,} FLOPs, {graph.parameters:,} parameters",
    ]
    lines += [f"  {tensor}" for tensor in graph.with_role("input", "weight", "state")]
    width = max((len(op.name) for op in graph.ops), default=0)
    for op in graph.ops:
        made = graph.tensors[op.output.tensor]
        sign = " -> output" if made.role == "output" else ""
        lines.append(f"  {op.name:{width}} : {text_of_op(op)}{sign}")
    return "\n".join(lines) + "\n"


def text_of_op(op: Op) -> str:
    """``y[m, n] += x[m, k] * w[n, k] over m 16, n 64, sum k 64``."""
    sign = {None: "=", "sum": "+=", "max": "max="}[op.combine]
    inputs = [str(operand) for operand in op.inputs]
    if op.body is not None:
        value = expression_text(op.body, inputs)
    else:
        more = [f"{name}={_shown(v)}" for name, v in op.attributes.items()]
        value = f"{op.kind}({', '.join((*inputs, *more))})"
    dims = [
        f"{op.combine or 'all'} {dim.name} {dim.size}"
        if dim.kind == "reduction"
        else f"{dim.name} {dim.size}"
        for dim in op.dims
    ]
    over = f" over {', '.join(dims)}" if dims else ""
    return f"{op.output} {sign} {value}{over}{_tiling(op)}"


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def _tiling(op: Op) -> str:
    if op.tiling is None:
        return ""
    tile = op.tiling.tile
    loops = [f"{dim}/{tile[dim]}" if dim in tile else dim for dim in op.tiling.order]
    return f" [loops {' '.join(loops)}, unroll {op.tiling.unroll}]"
