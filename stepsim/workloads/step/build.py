"""The program of a layer of a step, of the head, or of both.

The stages are those of a decoder layer, with blocks of new tokens in place of requests: a region of
QKV generation multiplies all rows of its blocks by every tile of a matrix. A barrier ends
attention, as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepsim.graph import Program, Routing
from stepsim.workloads.attention.build import counted, fewer_regions
from stepsim.workloads.built import Built
from stepsim.workloads.checks import window_notes
from stepsim.workloads.inputs import Data
from stepsim.workloads.models import ATTENTION, EXPERTS, ROWS
from stepsim.workloads.moe.build import store_rows
from stepsim.workloads.parallel.machines import check_routing
from stepsim.workloads.parallel.network import padding
from stepsim.workloads.step.blocks import Numbers, StepBlocks
from stepsim.workloads.step.layer import StepLayer, blocks_of
from stepsim.workloads.step.on_chips import build_on_chips

if TYPE_CHECKING:
    from stepsim.workloads.step.parameters import Step


class BuiltStep(Built):
    """A built layer of a step.

    Attributes
    ----------
    routing : the routing of new tokens to experts, still to be bound; None without experts.
    sizes : values of the symbolic sizes of attention.
    """

    def __init__(
        self,
        program: Program,
        table: Routing | None,
        workload: Step,
        data: Data,
        sizes: Mapping[Any, Any],
    ) -> None:
        self.blocks: list[StepBlocks] = []
        if workload.has_layer:
            split = workload.split
            self.blocks = [
                blocks_of(workload, split.data(one, d))
                for one in split.batches(data)
                for d in range(split.dp)
            ]
        super().__init__(program, notes=_notes(workload, data, self.blocks))
        self.routing = table
        self.workload = workload
        self.sizes = sizes
        self._data = data

    def bindings(self, data: Data) -> Mapping[Any, Any]:
        workload = self.workload
        check_routing(workload.name, workload.split, workload.layer_model, self._data, data)
        if self.routing is None or data.routing is None:
            return {}
        return {self.routing: data.routing}

    def integers(self, data: Data) -> dict[str, Numbers]:
        """What the program of data with the same new tokens sends in place of some of its integers,
        by label of ``st.metadata``: all that depends on cached tokens, but for the size of caches.
        """
        heads = self.workload.layer_model.attention.kv_heads
        return blocks_of(self.workload, data).integers(heads) if self.workload.has_layer else {}

    def symbols(self, data: Data) -> Mapping[Any, Any]:
        return {**self.bindings(data), **self.sizes}

    def tokens(self, data: Data) -> int:
        return data.tokens

    def padded_flops(self, data: Data) -> int:
        if not self.blocks:
            return 0
        heads = self.workload.model.attention
        # A score, its exponential (4), the weighted value and the sum of weights.
        per_pair = 2 * heads.head_dim + 4 + 2 * heads.value_width + 1
        pairs = sum(one.computed_pairs - one.pairs for one in self.blocks)
        layer, split = self.workload.layer_model, self.workload.split
        shape, tile, dense = layer.feed_forward, self.workload.tile, layer.experts is None
        rows = sum(padding(split, shape, tile, one, dense=dense) for one in split.batches(data))
        return split.pp * (heads.heads * per_pair * pairs + rows)


def build_step(workload: Step, data: Data) -> BuiltStep:
    """The program for the new and cached tokens of each request; its routing is bound later, unless
    it is on several chips."""
    title = f"step_{workload.model.name}_{workload.part.replace('+', '_')}_b{data.rows}"
    with Program(title, compute_bw=workload.network_bw, fifo_depth=workload.fifo_depth) as program:
        if workload.split.chips > 1:
            table, sizes = None, build_on_chips(workload, data, program)
        else:
            table, sizes = _build(workload, data, program)
    return BuiltStep(program, table, workload, data, sizes)


def _build(workload: Step, data: Data, program: Program) -> tuple[Routing | None, dict[Any, Any]]:
    """The routing to be bound, and values of the symbolic sizes."""
    layer = StepLayer(workload, data, program)
    if not workload.has_layer:
        layer.head()
        return None, {}
    hidden = layer.hidden()
    sums = layer.sums(hidden, layer.attended(hidden))
    rows, table = layer.network.results(*layer.inputs(sums))
    if workload.has_head:
        layer.head(rows)
    store_rows(rows)
    return table, layer.sizes


def _notes(workload: Step, data: Data, blocks: Sequence[StepBlocks]) -> list[str]:
    """What a run says of the program: windows, regions without work, and what is not modeled."""
    model, notes = workload.model, []
    if workload.has_layer:
        notes += window_notes(model, workload.attention_layer)
        notes += model.notes(ATTENTION, ROWS)
        notes += workload.layer_model.notes(EXPERTS) if workload.layer_model.experts else []
        notes += workload.split.notes(workload.layer_model)
    asked, regions = workload.attention_regions, "regions of QKV generation"
    built, shares = max((len(one.shares) for one in blocks), default=0), " of new tokens"
    if not workload.has_layer:
        built, shares, regions = min(data.rows, asked), " with a row", "regions of the head"
    if built < asked:
        of = "block" if workload.has_layer else "request"
        notes.append(fewer_regions(built, asked, counted(built, of) + shares, regions))
    return notes
