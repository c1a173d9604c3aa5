"""Routings of files that a model with experts can be sized over: ``stepsim compile --routing``."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike

from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.operators.routed import ROUTED, bounds_of, routing_of
from stepsim.errors import ArgError, CompileError
from stepsim.trace_io import RoutingTable, routing_parts
from stepsim.typed import typed


@typed
def routing_windows(
    graph: OperatorGraph, files: Iterable[str | PathLike[str]], most: int
) -> list[RoutingTable]:
    """Windows of as many tokens as the model takes, spread evenly over all layers and steps.

    Parameters
    ----------
    files : routing traces, as :func:`stepsim.trace_io.read_routing` takes.
    most : of windows; further ones are left out.

    Raises
    ------
    ArgError : ``most`` is below 1, or no layer and step has so many tokens.
    CompileError : the model has no experts, or none of one routing.
    TraceError : a file cannot be read, or has other experts.
    """
    if most < 1:
        raise ArgError(f"--routings: expected a whole number from 1, found {most}")
    names = {routing_of(op) for op in graph.ops if op.kind in ROUTED}
    if len(names) != 1:
        raise CompileError(
            f"{graph.name} has {len(names)} routings, expected one; leave --routing out"
        )
    (name,) = names
    rows, k = graph.tensors[name].shape
    experts, _ = bounds_of(graph, name)
    windows = []
    longest = 0
    for file in files:
        for part in routing_parts(file, experts=experts, k=k):
            longest = max(longest, part.tokens)
            windows += [(part, number) for number in range(part.tokens // rows)]
    if not windows:
        raise ArgError(
            f"--routing: expected traces with at least {rows} tokens of a layer and step, which "
            f"{graph.name} takes, found {longest}; --tokens and --batch make it smaller"
        )
    count = min(most, len(windows))
    chosen = [windows[i * len(windows) // count] for i in range(count)]
    return [part.read_window(number, rows) for part, number in chosen]
