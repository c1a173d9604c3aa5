"""The program of a decoder layer, or of some of its parts.

The graph of figure 17 of the STeP paper is not published. This one has the known parts: the
batch split four ways for QKV generation and attention, expert parallelism, and the compute of every
stage. A barrier ends attention: what follows is loaded when the last region has computed its last
output.

A stage whose predecessor is not built reads that one's results from off chip, and one whose
successor is not built writes its own there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepsim.graph import Program, Routing
from stepsim.workloads.attention.build import (
    cache_padding_flops,
    counted,
    fewer_regions,
    reserved,
)
from stepsim.workloads.built import Built, Counted
from stepsim.workloads.checks import window_notes
from stepsim.workloads.decoder.layer import DecoderLayer
from stepsim.workloads.decoder.on_chips import build_on_chips
from stepsim.workloads.decoder.parts import ATTENTION, EXPERTS, OF_HEADS, QKV
from stepsim.workloads.inputs import Data
from stepsim.workloads.models import ATTENTION as OF_ATTENTION, EXPERTS as OF_EXPERTS, ROWS
from stepsim.workloads.parallel.machines import check_routing
from stepsim.workloads.parallel.network import padding
from stepsim.workloads.parameters import DYNAMIC

if TYPE_CHECKING:
    from stepsim.workloads.decoder.parameters import Decoder


class BuiltDecoder(Built):
    """A built layer.

    Attributes
    ----------
    routing : the routing of requests to experts, still to be bound; None without experts.
    sizes : values of the symbolic sizes of attention.
    """

    def __init__(
        self,
        program: Program,
        table: Routing | None,
        workload: Decoder,
        data: Data,
        sizes: Mapping[Any, Any],
    ) -> None:
        lengths = workload.attended(data)
        parts = workload.built_parts
        parameters: dict[str, Any] = {"left_out": parts.left_out(workload.model)}
        if ATTENTION in parts:
            parameters["max_length"] = reserved(workload.max_length, lengths, workload.kv_tile)
        super().__init__(program, parameters=parameters, notes=_notes(workload, data))
        self.routing = table
        self.workload = workload
        self.lengths = lengths
        self.sizes = sizes
        self._data = data

    def bindings(self, data: Data) -> Mapping[Any, Any]:
        workload = self.workload
        check_routing(workload.name, workload.split, workload.model, self._data, data)
        if self.routing is None or data.routing is None:
            return {}
        return {self.routing: data.routing}

    def symbols(self, data: Data) -> Mapping[Any, Any]:
        return {**self.bindings(data), **self.sizes}

    def tokens(self, data: Data) -> int:
        return data.rows

    def padded_flops(self, data: Data) -> int:
        workload, total = self.workload, 0
        if ATTENTION in workload.built_parts:
            heads = workload.heads.attention
            each = cache_padding_flops(heads, self.lengths, workload.kv_tile)
            total += heads.kv_heads * each
        if EXPERTS in workload.built_parts:
            assert workload.tile is not None
            model = workload.model
            split, dense = workload.split, model.experts is None
            for one in split.batches(data):
                total += padding(split, model.feed_forward, workload.tile, one, dense=dense)
        return workload.split.pp * total

    def published(self, data: Data) -> Counted:
        """As in the figure: idle experts are counted, and the sum over experts of dynamic tiles
        without shared regions is not."""
        bound = self.program.metrics(counting="published").bind(self.symbols(data))
        workload, total = self.workload, bound.allocated_compute
        plain = workload.expert_regions in (None, workload.model.feed_forward.experts)
        if self.routing is not None and plain and workload.tile == DYNAMIC:
            total -= workload.moe_bw
        return Counted(
            offchip_bytes=bound.off_chip_traffic,
            onchip_bytes=bound.on_chip_memory,
            flops=bound.flops,
            padded_flops=self.padded_flops(data),
            allocated_flops_per_cycle=total,
        )


def build_decoder(workload: Decoder, data: Data) -> BuiltDecoder:
    """The layer for the cached tokens of each request, in order; its routing is bound later."""
    chosen = [str(one) for one in (workload.tile, workload.strategy) if one is not None]
    title = "_".join(["decoder", workload.model.name, f"b{data.rows}", *chosen])
    with Program(title, compute_bw=workload.moe_bw, fifo_depth=workload.fifo_depth) as program:
        if workload.split.chips > 1:
            table, sizes = None, build_on_chips(workload, data, program)
        else:
            layer = DecoderLayer(workload, data, program)
            table, sizes = layer.build(), layer.sizes
    return BuiltDecoder(program, table, workload, data, sizes)


def _notes(workload: Decoder, data: Data) -> list[str]:
    """What a run says of the program: other heads, windows, fewer regions, what is not modeled."""
    parts, notes = workload.built_parts, []
    if workload.heads.name != workload.model.name:
        heads = workload.heads.attention
        notes.append(
            f"heads of {heads.head_dim} as in the published experiment, which is shape {heads.name}"
        )
    if ATTENTION in parts:
        notes += window_notes(workload.heads, workload.attention_layer)
    about = [kind for kind, part in ((OF_ATTENTION, ATTENTION), (ROWS, QKV)) if part in parts]
    notes += workload.heads.notes(*about)
    if EXPERTS in parts:
        notes += workload.model.notes(OF_EXPERTS)
    notes += workload.split.notes(workload.model)
    built = min(workload.attention_regions, data.rows)
    if parts.any(OF_HEADS) and built < workload.attention_regions:
        notes.append(
            fewer_regions(
                built,
                workload.attention_regions,
                counted(data.rows, "request"),
                "regions of QKV generation",
            )
        )
    return notes
