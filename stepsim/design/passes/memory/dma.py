"""Layouts of tensors off chip: the passes ``pack`` and ``widen`` over loads and stores.

Weights are laid out offline, in the order of their loads. What one group stores and another loads
in the same order is laid out in that order; inputs, outputs and caches stay as they are, since the
host and the next step read them.
"""

from __future__ import annotations

from dataclasses import replace

from stepsim.design.dataflow.graph import DataflowGraph, Dma
from stepsim.design.dataflow.untyped import Untyped
from stepsim.dtypes import dtype_of, packed_bytes
from stepsim.errors import CompileError
from stepsim.typed import typed

BURST_BYTES = 4096
"""Bytes that a load of a packed tensor requests at a time: the longest burst of AXI4."""

PORT_BITS = 512
"""Bits of a word of a memory port."""


def pack(graph: DataflowGraph, burst_bytes: int = BURST_BYTES) -> DataflowGraph:
    """Store tensors tile after tile in the order of their loads, which then read in bursts.

    A load that goes over a tensor several times does so in each round; one that reads single tiles
    again in between is left as it is.

    Parameters
    ----------
    burst_bytes : most bytes that a load requests at a time, at least a tile; its buffer holds two.

    Raises
    ------
    CompileError : ``burst_bytes`` is below 1.
    """
    if burst_bytes < 1:
        raise CompileError(f"pack: burst_bytes must be at least 1, found {burst_bytes}")
    return graph.replaced(
        dmas=tuple(
            replace(dma, packed=True, burst=_burst(dma, burst_bytes))
            if _packable(graph, dma)
            else dma
            for dma in graph.dmas
        )
    )


def _packable(graph: DataflowGraph, dma: Dma) -> bool:
    if isinstance(dma.walk, Untyped) or dma.tiles != dma.walk.distinct_offsets:
        return False
    role = graph.operators.tensors[dma.tensor].role
    if role == "weight":
        return True
    if role != "intermediate":
        return False
    orders = {
        (other.window, other.walk.normal_form())
        for other in graph.dmas
        if other.tensor == dma.tensor
    }
    return len(orders) == 1


def _burst(dma: Dma, most: int) -> int:
    """Tiles of the largest burst: a divisor of their number, so that the last one is full."""
    if dma.direction == "store":
        return 1
    bits, tokens = dma.walk.token_bits, dma.tiles
    return max(n for n in range(1, tokens + 1) if n == 1 or (packed_bytes(n, bits) <= most
               and tokens % n == 0))  # fmt: skip


@typed
def widen(graph: DataflowGraph, port_bits: int = PORT_BITS) -> DataflowGraph:
    """Move packed tiles in words of the memory port; the last word of a tile may be padded.

    Raises
    ------
    CompileError : nothing is packed, or a word is not a whole number of elements.
    """
    if not any(dma.packed for dma in graph.dmas):
        raise CompileError(f"widen: no tensor of {graph.name} is packed; pack them first")
    made = []
    for dma in graph.dmas:
        if dma.packed:
            bits = dtype_of(dma.walk.dtype).bits
            if port_bits < bits or port_bits % bits:
                raise CompileError(
                    f"widen: a word of {port_bits} bits is not a whole number of elements of "
                    f"'{dma.tensor}', {dma.walk.dtype}; use a multiple of {bits}"
                )
            dma = replace(dma, word_bits=port_bits)
        made.append(dma)
    return graph.replaced(dmas=tuple(made))
