"""Converters of one buffer, where the second is not worth its memory: the pass ``single_buffers``.

A refinement of the converters of StreamTensor.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import inf, prod
from typing import TypeVar

from stepsim.design.dataflow.graph import DataflowGraph, Dma, Edge
from stepsim.errors import CompileError, did_you_mean
from stepsim.itensor import Converter
from stepsim.typed import typed

Owner = TypeVar("Owner", Edge, Dma)


@typed
def single_buffers(
    graph: DataflowGraph, names: Collection[str] | None = None, *, slack: float = 0.005
) -> DataflowGraph:
    """Give converters one buffer in place of two, which halves their memory.

    Such a converter is not filled while it is drained, so a turn of its shared loops takes the sum
    of both, not the longer one. By default those that lose little by it: what is filled once has
    nothing to overlap; between kernels also those that are drained faster than filled, where all
    drains together last no longer than a share of the work of the slowest kernel of the graph.
    A converter that several edges share is one.

    Parameters
    ----------
    names : edges and loads, in place of this choice; also converters for which it is slow.
    slack : this share. 0: only what is filled once.

    Raises
    ------
    CompileError : an edge or load has no such name, or no converter, or ``slack`` is negative.
    """
    if not 0 <= slack < inf:
        raise CompileError(f"single_buffers: slack is a share from 0, found {slack}")
    owners: dict[str, Edge | Dma] = {dma.name: dma for dma in graph.dmas if dma.direction == "load"}
    owners |= {edge.name: edge for edge in graph.edges}
    if names is None:
        most = slack * max(
            (kernel.firings * kernel.interval for kernel in graph.kernels), default=0
        )
        chosen = {name for name, owner in owners.items() if _is_cheap(graph, owner, most)}
    else:
        chosen = set(names)
    for name in sorted(chosen):
        if name not in owners:
            near = did_you_mean(name, owners)
            raise CompileError(f"single_buffers: no edge or load is '{name}'{near}")
        if names is not None and _converter(owners[name]) is None:
            raise CompileError(
                f"single_buffers: {name} is a FIFO without a converter; name one whose streams "
                "differ"
            )
    shared = {
        (edge.producer, edge.shared)
        for edge in graph.edges
        if edge.name in chosen and edge.shared is not None
    }
    return graph.replaced(
        edges=tuple(
            _single(edge) if edge.name in chosen or (edge.producer, edge.shared) in shared else edge
            for edge in graph.edges
        ),
        dmas=tuple(_single(dma) if dma.name in chosen else dma for dma in graph.dmas),
    )


def _converter(owner: Edge | Dma) -> Converter | None:
    found = owner.converter
    return None if found is None or found.kind == "fifo" else found


def _single(owner: Owner) -> Owner:
    found = _converter(owner)
    return owner if found is None else replace(owner, converter=replace(found, buffers=1))


def _is_cheap(graph: DataflowGraph, owner: Edge | Dma, most: float) -> bool:
    found = _converter(owner)
    if found is None or found.reuse == 1:
        return found is not None
    if isinstance(owner, Dma):  # How fast a load fills it, the machine says.
        return False
    fill = prod(loop.trip for loop in found.fill) * graph.kernel(owner.producer).ii
    drain = prod(loop.trip for loop in found.drain) * graph.kernel(owner.consumer).interval
    return drain < fill and found.reuse * drain <= most
