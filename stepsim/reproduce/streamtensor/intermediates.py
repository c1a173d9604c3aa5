"""Memory of the intermediates of a block, before and after fusion (StreamTensor, figure 10a).

Before fusion every result of an operator is a tensor off chip. After fusion the remaining memory is
on chip: converters, each with both halves of its buffer, and FIFOs at their sized depths. Weights,
inputs and the buffers of loads count in neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stepsim.design import (
    Choices,
    Plan,
    block,
    compile,
    fold_unit_dims,
    fuse_elementwise,
    stream_tokens,
)
from stepsim.dtypes import packed_bytes

PROMPT = 128
"""Tokens of the prompt: the longest of figure 9. The paper does not state those of figure 10a."""

TILE, ROWS = 64, 16


@dataclass(frozen=True, slots=True)
class Intermediates:
    """Bytes of the intermediates of one block.

    Attributes
    ----------
    unfused : of all tensors that one operator makes and another reads, each once.
    outputs : the part that leaves the block in any case: keys and values for the cache.
    converters, fifos : of those that remain on chip.
    groups : number of groups of kernels; tensors between groups are off chip again.
    onchip : on-chip memory of the largest group, buffers and FIFOs of loads included.
    fits : whether every group fits the machine.
    """

    model: str
    tokens: int
    dtype: str
    unfused: int
    outputs: int
    converters: int
    fifos: int
    groups: int
    onchip: int | None
    fits: bool

    @property
    def fused(self) -> int:
        return self.converters + self.fifos

    @property
    def share(self) -> float:
        """Memory after fusion as a fraction of that before fusion."""
        return self.fused / self.unfused


def intermediates(plan: Plan) -> Intermediates:
    """Memory of the intermediates of a plan with sized FIFOs."""
    graph = plan.graph
    operators = graph.operators
    made = [operators.tensors[name] for name in {edge.tensor for edge in operators.edges}]
    fifos = 0
    for edge in graph.inner_edges:
        if edge.folded:
            fifos += packed_bytes(1, edge.target.token_bits)
            continue
        fifos += packed_bytes(edge.fifo_depth, edge.fifo_bits)
        if not edge.matched and edge.depth_before is not None:
            fifos += packed_bytes(edge.depth_before, edge.source.token_bits)
    about = operators.attributes
    return Intermediates(
        str(about.get("model", graph.name)), int(about.get("tokens", 0)),
        ", ".join(sorted({one.dtype for one in made})), sum(one.bytes for one in made),
        sum(one.bytes for one in made if one.role == "output"),
        graph.converter_bytes, fifos, len(graph.groups),
        max((one.memory_bytes or 0 for one in plan.groups), default=0) or None,
        plan.infeasible is None,
    )  # fmt: skip


@cache
def intermediates_of_block(model: str, tokens: int = PROMPT) -> Intermediates:
    """Intermediates of the prefill of a block through which tokens stream, 16 at a time.

    The printed order, reductions outermost, needs more memory after fusion than before it: nearly
    every edge has a double-buffered converter of the whole tensor. The block stays one group even
    if it does not fit the U55C: buffers and FIFOs of loads take most of a design and are not
    counted.
    """
    folded = fuse_elementwise(fold_unit_dims(block(model, "prefill", tokens)))
    tiled = stream_tokens(folded, TILE, ROWS)
    tiles = {op.name: op.tiling.tile for op in tiled.ops if op.tiling is not None}
    made = compile(
        model, phase="prefill", tokens=tokens, tiles=tiles, order="tokens_outermost",
        unroll=Choices.unroll, reuse_bytes=8 << 20, sizing="recorded", placed=False, fit=False,
    )  # fmt: skip
    return intermediates(made.plan)
