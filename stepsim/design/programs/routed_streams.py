"""Kernels of routed rows as operators of a program, in the manner of ``st.nn.moe``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from stepsim.design.dataflow.buffer_walks import tile_of
from stepsim.design.dataflow.graph import Dma, Kernel
from stepsim.design.dataflow.untyped import Untyped
from stepsim.design.operators.routed import expert_slots
from stepsim.design.passes.memory.layout import tile_walk
from stepsim.design.programs.kernel_streams import mapped
from stepsim.design.programs.streams import regrouped
from stepsim.graph import (
    Layer,
    Routing,
    Stream,
    TensorSpec,
    fn,
    linear_load,
    packed_rows,
    partition,
    picked_scores,
    reassemble,
    summed_results,
    unpacked_rows,
)


@dataclass(frozen=True, slots=True)
class RoutedOutputs:
    """The outputs of a kernel.

    Attributes
    ----------
    streams : of a dispatch by expert; else one, under None.
    held : streams within the kernel, by name, whose FIFOs hold all rows that an expert may get.
    """

    streams: Mapping[int | None, Stream]
    held: Mapping[str, Stream] = field(default_factory=dict)


def routed_outputs(
    kernel: Kernel,
    streams: Mapping[int, Stream],
    table: Routing | None,
    again: Mapping[tuple[str, int], tuple[Dma, TensorSpec]],
) -> RoutedOutputs:
    """A kernel of rows that a routing chooses, as operators.

    Parameters
    ----------
    streams : by number of the operand.
    table : the routing that the operator reads; None between dispatch and combination.
    again : loads for each tile of rows, by kernel and number of the operand.
    """
    if table is None:
        return RoutedOutputs({None: _through(kernel, streams, again)})
    if kernel.op.kind == "dispatch":
        return RoutedOutputs(dict(enumerate(_dispatched(kernel, streams[0], table))))
    if kernel.op.kind == "choose":
        return RoutedOutputs({None: _chosen(kernel, streams[0], table)})
    results = [streams[slot] for slot in expert_slots(kernel.op)]
    made, held = _combined(kernel, streams[0], results, table)
    return RoutedOutputs({None: made}, held)


def _dispatched(kernel: Kernel, x: Stream, table: Routing) -> list[Stream]:
    """Tiles of the rows of each expert; the last one of an expert is filled up with padding."""
    rows = regrouped(x, (table.rows,), kernel.name)
    layer = Layer("dispatch", {"x": rows}, kernel.name)
    parts = partition(rows, table.multihot(label=layer.part("route")), label=layer.part("dispatch"))
    step = kernel.output.tile[0]
    return [packed_rows(layer, e, part, step) for e, part in enumerate(parts)]


def _chosen(kernel: Kernel, scores: Stream, table: Routing) -> Stream:
    """Of the scores of each row those of its experts, in the order of the table."""
    rows = regrouped(scores, (table.rows,), kernel.name)
    layer = Layer("choose", {"x": rows}, kernel.name)
    picked = picked_scores(layer, rows, table)
    # A row of scores goes to its experts at once, and comes back in another order.
    deep = [one.with_depth(table.k) for one in picked]
    selector = table.onehot(label=layer.part("collect"))
    made = reassemble(deep, selector, label=layer.part("chosen"))
    return regrouped(made, (table.rows, table.k), kernel.name)


def _combined(
    kernel: Kernel, weights: Stream, results: Sequence[Stream], table: Routing
) -> tuple[Stream, dict[str, Stream]]:
    """The results of the experts of each row, times its weights, added up.

    Also the streams, by name, whose FIFOs hold all rows that an expert may get. As long as they do,
    no expert waits for room for its results, and no weight for the results of other experts.
    """
    each = regrouped(weights, (table.rows, table.k), kernel.name)
    layer = Layer("combine", {"weights": each}, kernel.name, kernel.compute_bw)
    parts = partition(each, table.onehot(label=layer.part("route")), label=layer.part("weights"))
    most = max(table.max_rows or table.rows, 2)
    weighed: list[Stream] = []
    held: dict[str, Stream] = {}
    for e, (tiles, part) in enumerate(zip(results, parts, strict=True)):
        factors, rows = part.with_depth(most), unpacked_rows(layer, e, tiles).with_depth(most)
        held |= {f"{kernel.name}/weights.{e}": factors, f"{kernel.name}/rows.{e}": rows}
        weighed.append(layer.map(f"weigh.{e}", fn.mul, factors, rows))
    return summed_results(layer, weighed, table), held


def _through(
    kernel: Kernel,
    streams: Mapping[int, Stream],
    again: Mapping[tuple[str, int], tuple[Dma, TensorSpec]],
) -> Stream:
    """A kernel over the tiles of rows of one expert; ``again``: loads repeated for each tile."""
    inner = kernel.loops[1:]
    turns = prod(loop.trip for loop in inner)
    lead = streams[min(streams)]
    inputs = []
    for slot in range(len(kernel.inputs)):
        if slot in streams:
            x = streams[slot]
            inputs.append(x.repeat(turns, label=kernel.name) if inner else x)
            continue
        dma, spec = again[kernel.name, slot]
        assert isinstance(dma.walk, Untyped)
        shape, stride = tile_walk(replace(dma, walk=dma.walk.each))
        tile = tile_of(dma.walk.element)
        label = f"load_{dma.tensor}"
        x = linear_load(spec, tile, shape=shape, stride=stride, ref=lead, label=label)
        x = x.flatten(0, len(shape) - int(bool(inner)), label=label) if x.rank > bool(inner) else x
        inputs.append(x)
    made = mapped(kernel, inputs, min(streams))
    return made.accum(fn.pack_cols, rank=1, label=kernel.name) if inner else made
