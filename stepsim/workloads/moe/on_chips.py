"""A mixture-of-experts layer on several chips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepsim.graph import Program, Stream, chip
from stepsim.workloads.built import Built
from stepsim.workloads.decoder.feed_forward import FeedForward
from stepsim.workloads.decoder.parts import EXPERTS as NETWORK, Parts
from stepsim.workloads.decoder.weights import Weights
from stepsim.workloads.inputs import Data
from stepsim.workloads.models import EXPERTS
from stepsim.workloads.moe.build import activations, store_rows
from stepsim.workloads.parallel.layers import Layers
from stepsim.workloads.parallel.machines import check_routing
from stepsim.workloads.parallel.network import padding

if TYPE_CHECKING:
    from stepsim.workloads.moe.parameters import Moe


class BuiltMoeOnChips(Built):
    """A built layer, for the routing that it was built from."""

    def __init__(self, program: Program, workload: Moe, data: Data) -> None:
        model = workload.model
        super().__init__(program, notes=[*model.notes(EXPERTS), *workload.split.notes(model)])
        self.workload = workload
        self._data = data

    def bindings(self, data: Data) -> Mapping[Any, Any]:
        workload = self.workload
        check_routing(workload.name, workload.split, workload.model, self._data, data)
        return {}

    def padded_flops(self, data: Data) -> int:
        workload = self.workload
        shape = workload.model.moe
        return padding(workload.split, shape, workload.tile, data, dense=False)


def build_on_chips(workload: Moe, data: Data) -> BuiltMoeOnChips:
    """The layer for the tokens of a routing, and the weights that a router left off chip."""
    split, shape = workload.split, workload.model.moe
    title = f"moe_{shape.name}_b{data.rows}_{workload.tile}_{split.chips}chips"
    routing = [split.routing(data, d, shape.experts, shape.active) for d in range(split.dp)]
    rows = [len(table) for table in routing]
    with Program(title, compute_bw=workload.compute_bw, fifo_depth=workload.fifo_depth) as program:
        layers = Layers(
            split, program, lambda d: _MoeLayer(workload, rows[d]), routing, shape.experts,
            workload.collective, residual=False,
        )  # fmt: skip
        for d, group in enumerate(layers.results()):
            for t, x in enumerate(group):
                with chip(split.chip(0, d, t)):
                    store_rows(x)
    return BuiltMoeOnChips(program, workload, data)


class _MoeLayer:
    """The part of a layer that one chip has: nothing before the experts."""

    def __init__(self, workload: Moe, rows: int) -> None:
        self.rows, self.sizes = rows, dict[Any, Any]()
        shape, types = workload.split.model(workload.model).moe, workload.types
        bandwidth = workload.pack_bw or workload.compute_bw
        self.network = FeedForward(
            shape, False, Parts((NETWORK,)), Weights(1, types), types, workload.tile,
            workload.tile_inter, workload.regions, bandwidth, bandwidth,
        )  # fmt: skip

    def hidden(self) -> list[Stream]:
        return []

    def regions_of(self, rows: Stream) -> list[Stream]:
        return []

    def attended(self, hidden: Sequence[Stream]) -> list[Stream]:
        return []

    def sums(self, hidden: Sequence[Stream], tiles: Sequence[Stream]) -> list[Stream]:
        return []

    def inputs(
        self, tiles: Sequence[Stream], experts: int | None
    ) -> tuple[Stream, Stream, Stream | None]:
        shape, types = self.network.shape, self.network.types
        rows = activations("activations", self.rows, shape, types)
        return rows, rows, None
