"""The second half of a decoder layer: norm, router, and experts or a dense network.

Rows run in the order of requests. Where several operators read them, they wait in FIFOs as deep as
the batch: a tile of one expert may be complete only with the last row, and until then no row of the
result leaves, nor what is added to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepsim.graph import (
    Routing,
    Stream,
    fn,
    map as map_stream,
    nn,
    reassemble,
    routing,
    selector,
    spec,
)
from stepsim.workloads.decoder.parts import NORMS, RESIDUALS, ROUTER, Parts
from stepsim.workloads.decoder.weights import Weights
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.models import MoEShape
from stepsim.workloads.moe.build import (
    combine,
    dispatch,
    pack,
    routed_experts,
    store_rows,
    stored_scales,
    with_shared,
)
from stepsim.workloads.moe.regions import shared_experts
from stepsim.workloads.parameters import DYNAMIC


def in_order(tiles: Sequence[Stream], regions: np.ndarray[Any, Any], what: str = "") -> Stream:
    """``[rows]`` of one row each, from the tiles of the ``regions`` that have them.

    ``what`` is put before the names of the operators.
    """
    own = f"{what}_rows" if what else "result_rows"
    rows = [x.flat_map(fn.unpack_rows(), label=f"{own}.{r}") for r, x in enumerate(tiles)]
    if len(rows) == 1:
        return rows[0]
    name = f"_{what}" if what else ""
    turns = selector(np.eye(len(rows), dtype=int)[regions], label=f"turns{name}_rows")
    joined = reassemble(rows, turns, rank=0, label=f"join{name}_rows")
    return joined.flatten(0, 1, label=f"request{name}_rows")


@dataclass(frozen=True)
class FeedForward:
    """Experts, or a dense network as the only expert, and what surrounds them.

    Attributes
    ----------
    shape : the experts; a dense network is one.
    dense : there is no choice of experts, and no weights of their results.
    tile : rows of a tile, or ``dynamic``.
    tile_inter : columns of a tile of the inner dimension.
    regions : regions that experts share; None for one for each expert.
    compute_bw : FLOPs per cycle of each operator but the router's product.
    router_bw : FLOPs per cycle of the router's product.
    """

    shape: MoEShape
    dense: bool
    parts: Parts
    weights: Weights
    types: ElementTypes
    tile: int | str
    tile_inter: int
    regions: int | None
    compute_bw: int
    router_bw: int

    def store(self, rows: Stream) -> Routing | None:
        """Write the results of ``[requests]`` rows off chip; returns the routing, to be bound."""
        result, table = self.results(rows)
        store_rows(result)
        return table

    def results(
        self, rows: Stream, normed: Stream | None = None, scores: Stream | None = None
    ) -> tuple[Stream, Routing | None]:
        """The results of ``[requests]`` rows, in their order, and the routing, to be bound.

        ``normed`` are the rows behind the norm and ``scores`` their products with the matrix of the
        router, where these were made before.
        """
        batch = int(rows.dim(0))
        rows, x = self.inputs(rows, normed)
        table = None
        if self.dense:
            (result,) = self.experts(pack([x], ["0"], self.tile, self.compute_bw))
        else:
            table = routing(spec(batch, self.shape.active), self.shape.experts)
            done = self.experts(dispatch(x, table, self.tile, self.compute_bw))
            scales = self._scales(x, scores, table)
            result = combine(done, scales, table)
        if self.shape.shared_inner:
            result = with_shared(
                result, x, self.shape, self.types, self.tile, self.tile_inter, self.compute_bw
            )
        if RESIDUALS in self.parts:
            result = map_stream(fn.add, rows, result, label="experts_residual")
        return result, table

    def inputs(self, rows: Stream, normed: Stream | None = None) -> tuple[Stream, Stream]:
        """Rows, and the same behind the norm, in FIFOs that hold all of them."""
        batch = int(rows.dim(0))
        several = any(name in self.parts for name in (RESIDUALS, ROUTER)) or self.shape.shared_inner
        if several:
            rows = rows.with_depth(max(batch, 2))
        x = rows if normed is None else normed.with_depth(max(batch, 2))
        if normed is None and NORMS in self.parts:
            factors = self.weights.vector("experts_norm", self.shape.model_dim)
            x = nn.rms_norm(rows, self._each(factors, batch), label="experts_norm")
            x = x.with_depth(max(batch, 2)) if several else x
        return rows, x

    def experts(self, blocks: list[Stream], names: Sequence[str] | None = None) -> list[Stream]:
        """Packed tiles of every expert to its result rows; names are numbers by default."""
        shape, dynamic = self.shape, self.tile == DYNAMIC
        if self.regions is None or self.regions == shape.experts:
            return routed_experts(
                blocks, shape, self.types, self.tile_inter, dynamic=dynamic, names=names
            )
        return shared_experts(
            blocks, shape, self.types, self.regions, self.tile_inter, dynamic=dynamic
        )

    def _scales(self, x: Stream, scores: Stream | None, table: Routing) -> list[Stream]:
        """Weights of the rows of each expert: those of the router, or left off chip by it."""
        if ROUTER not in self.parts:
            return stored_scales(table, self.types)
        if scores is None:
            scores = self.scores(x)
        return nn.router(scores, None, table, label="router")

    def scores(self, x: Stream, experts: int | None = None) -> Stream:
        """The products of rows with the matrix of the router, as many columns as experts."""
        matrix = self._each(self.router_matrix(experts), int(x.dim(0)))
        return self.products(x, matrix, "matmul_router")

    def router_matrix(self, experts: int | None = None) -> Stream:
        """The matrix of the router, ``[1]``: of its own experts, or of so many on all chips."""
        size = (self.shape.model_dim, experts or self.shape.experts)
        return self.weights.tiles("router_weights", 1, size)

    def products(self, x: Stream, matrix: Stream, label: str) -> Stream:
        """Tiles of rows times the matrix of the router, which comes once for each."""
        return map_stream(fn.matmul, x, matrix, compute_bw=self.router_bw, label=label)

    @staticmethod
    def _each(x: Stream, times: int) -> Stream:
        """``[times]`` of the element of a stream ``[1]``."""
        return x.repeat(times).flatten(0, 1)
