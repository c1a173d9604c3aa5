"""Loops in which the stages of a block overlap: the order ``tokens_outermost``.

The printed order, reductions outermost (StreamTensor, on the tiling space), makes a stage send its
first tile after the last turn of its sums, when all tokens of a prompt have come, so that stages
run one after another. With tokens outermost a stage sends the results of a few tokens while it
works on the next ones, and a block is a pipeline of its stages; only attention waits for the keys
of all tokens. In decoding the rows of the cache take the place of tokens: they are used in the
order in which they are loaded.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from stepsim.design.operators.graph import Op, OperatorGraph
from stepsim.errors import CompileError

Heads: TypeAlias = Literal["inside", "outside"]


def stream_orders(graph: OperatorGraph, heads: Heads = "inside") -> dict[str, tuple[str, ...]]:
    """Dims of every operator, outermost first: tokens, or rows of the cache, then sums.

    The graph has inputs ``x``, or ``k_cache`` and ``v_cache``, as those of
    :func:`stepsim.design.block`.

    Parameters
    ----------
    heads : whether attention of a prompt finishes a few tokens in all heads (``inside``), so that
        what follows begins early, or a head for all tokens (``outside``), so that the keys of a
        head are used in one go while queries and results wait in converters.

    Raises
    ------
    CompileError : no operator works on tokens.
    """
    tokens = passes_tokens(graph)
    dims = streamed_dims(graph)
    if not dims:
        raise CompileError(
            f"permute: no operator of {graph.name} works on rows of 'x', 'k_cache' or 'v_cache', "
            "which streamed designs and order 'tokens_outermost' need; leave streamed out, or use "
            "'reductions_outermost'"
        )
    orders = {}
    for op in graph.ops:
        dim = dims.get(op.name)
        outside = _before(op, dim) if heads == "outside" and tokens else []
        orders[op.name] = _order(op, dim, outside)
    return orders


def passes_tokens(graph: OperatorGraph) -> bool:
    """Whether several tokens pass the graph in one run, unlike decoding of single tokens."""
    return "x" in _starts(graph)


def _starts(graph: OperatorGraph) -> dict[str, int]:
    """Axes of the tensors at which streams begin."""
    x = graph.tensors.get("x")
    rows = x.shape[-2] if x is not None and len(x.shape) > 1 else 1
    if x is not None and min(rows, graph.attributes.get("tokens", rows)) > 1:
        return {"x": len(x.shape) - 2}
    found = (graph.tensors.get(name) for name in ("k_cache", "v_cache"))
    return {tensor.name: len(tensor.shape) - 2 for tensor in found if tensor is not None}


def streamed_dims(graph: OperatorGraph) -> dict[str, str]:
    """The dim of every operator along which the stream passes it.

    A stream goes from an axis of a tensor through the operators that read it to those of their
    results. An operator of which several operands are streams follows the first of them.
    """
    axes = _starts(graph)
    dims: dict[str, str] = {}
    for op in graph.ops:
        for operand in op.inputs:
            axis = axes.get(operand.tensor)
            terms = operand.access[axis].terms if axis is not None else ()
            if terms:
                # Of several dims along an axis the one with the largest step moves least often.
                dims[op.name] = max(terms, key=lambda term: abs(term[1]))[0]
                break
        else:
            continue
        for axis, index in enumerate(op.output.access):
            if index.coefficient(dims[op.name]):
                axes[op.output.tensor] = axis
    return dims


def _order(op: Op, dim: str | None, outside: list[str]) -> tuple[str, ...]:
    """The order of loops: those outside of the stream, the stream, reductions, then the others."""
    names = {one.name: one.kind for one in op.dims}
    first = [*outside, *([] if dim is None else [dim])]
    sums = [name for name, kind in names.items() if kind == "reduction" and name not in first]
    return (*first, *sums, *(name for name in names if name not in (*first, *sums)))


def _before(op: Op, dim: str | None) -> list[str]:
    """Parallel dims of axes before that of the stream, in the operands that it passes: heads."""
    if dim is None:
        return []
    found: dict[str, None] = {}
    parallel = {one.name for one in op.dims if one.kind == "parallel"}
    for operand in (op.output, *op.inputs):
        place = [axis for axis, at in enumerate(operand.access) if at.coefficient(dim)]
        if place:
            for index in operand.access[: place[0]]:
                found.update(dict.fromkeys(name for name, _ in index.terms if name in parallel))
    return [name for name in found if name != dim]
