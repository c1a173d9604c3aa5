"""Shape, on-chip memory and routing operators in the format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepsim.graph.graph_file.messages import chosen
from stepsim.graph.graph_file.rows.row import Row, written
from stepsim.graph.ops.memory.onchip import bufferize, streamify
from stepsim.graph.ops.routing.merging import eager_merge, reassemble
from stepsim.graph.ops.routing.partitioning import parallelize, partition
from stepsim.graph.ops.shape.chunks import reshape
from stepsim.graph.ops.shape.levels import flatten, unsqueeze
from stepsim.graph.ops.shape.repeats import expand, repeat
from stepsim.graph.ops.sources import broadcast
from stepsim.graph.types import Buffer

if TYPE_CHECKING:
    from stepsim.graph.graph_file.building import Building
    from stepsim.graph.graph_file.writer import Writing
    from stepsim.graph.stream import Stream

Streams = Sequence["Stream"]


def _read_flatten(b: Building, m: Any, xs: Streams) -> Streams:
    return [flatten(xs[0], m.min_rank, m.max_rank, label=b.label)]


def read_pad(b: Building, m: Any, x: Stream) -> int | None:
    """What a reshape pads with, None for no padding; its message is checked against the stream."""
    pad = chosen(m.pad_func)
    b.require(pad in (None, "zero"), f"pad_func is {pad}; tiles are padded with zeros")
    if hasattr(m, "input_stream_rank"):
        rank = m.input_stream_rank
        b.require(rank == x.rank, f"input_stream_rank is {rank}, but the stream has rank {x.rank}")
    if pad is None:
        return None
    b.check_tile(x, (m.tile_row, m.tile_col))
    return 0


def write_chunks(w: Writing, m: Any) -> None:
    """The chunks of a reshape and their padding."""
    p = w.params
    m.split_dim, m.chunk_size, m.write_back_mu = p["s"], p["q"], p["wb"]
    if "pad" in p:
        m.pad_func.zero.SetInParent()
        m.tile_row, m.tile_col = p["pad"]


def _read_reshape(b: Building, m: Any, xs: Streams) -> Streams:
    return [
        reshape(
            xs[0], m.chunk_size, m.split_dim, read_pad(b, m, xs[0]),
            add_outer=getattr(m, "add_outer_dim", False), write_back=m.write_back_mu,
            label=b.label,
        )
    ]  # fmt: skip


def _write_reshape(w: Writing, m: Any) -> None:
    write_chunks(w, m)
    p = w.params
    if hasattr(m, "input_stream_rank"):
        m.input_stream_rank, m.add_outer_dim = p["ri"], p["outer"]
        return
    w.require(
        p["ri"] == 0 or "pad" not in p,
        f"generation A of the format pads streams of rank 0 only, found rank {p['ri']}",
    )
    w.require(not p["outer"], "generation A of the format has no add_outer")


def _read_promote(b: Building, m: Any, xs: Streams) -> Streams:
    rank = xs[0].rank
    b.require(
        m.promote_rank <= rank,
        f"promote_rank is {m.promote_rank}, but the stream has rank {rank}; an outermost dim is "
        "added by PromoteOuter",
    )
    return [unsqueeze(xs[0], m.promote_rank, label=b.label)]


def _read_repeat(b: Building, m: Any, xs: Streams) -> Streams:
    return [repeat(xs[0], m.repeat_factor, label=b.label)]


def _write_repeat(w: Writing, m: Any) -> None:
    factor = w.params["f"]
    if isinstance(factor, list):
        w.require(len(factor) == 1, f"the format repeats by one factor, found {factor}")
        (factor,) = factor
    m.repeat_factor = factor


def _read_expand(b: Building, m: Any, xs: Streams) -> Streams:
    x, ref = xs
    keep = len(x.shape) - m.expand_rank
    if x.rank == ref.rank and keep > 0:
        b.agree(x.shape[:keep], ref.shape[:keep])
    return [expand(x, ref, m.expand_rank, label=b.label)]


def _read_bufferize(b: Building, m: Any, xs: Streams) -> Streams:
    return [bufferize(xs[0], m.rank, label=b.label)]


def _write_bufferize(w: Writing, m: Any) -> None:
    buffers = w.operator.buffers
    w.require(buffers == 2, f"the format has bufferize of two buffers, found {buffers}")
    m.rank = w.params["rank"]


def _check_buffer(b: Building, x: Stream, rank: int) -> None:
    held = len(x.type.dims) if isinstance(x.type, Buffer) else None
    b.require(
        held in (None, rank), f"the rank of the buffers is stated as {rank}, but they have {held}"
    )


def _read_streamify(b: Building, m: Any, xs: Streams) -> Streams:
    _check_buffer(b, xs[0], m.rank)
    factors = list(m.repeat_factor)
    # The simulator of 2025 reads one factor after the other; their sum is not a shape.
    b.require(
        len(factors) <= 1,
        f"repeat_factor is {factors}; the public simulators read several factors differently, "
        "state them as a StaticStreamify",
    )
    return [streamify(xs[0], repeat=factors or None, label=b.label)]


def _read_dyn_streamify(b: Building, m: Any, xs: Streams) -> Streams:
    x, ref = xs
    _check_buffer(b, x, m.bufferized_rank)
    repeated = m.repeat_rank + 1
    keep = len(x.shape) - repeated
    b.require(
        keep >= 0 and all(d.is_one() for d in x.shape[keep:]) and ref.rank == x.rank,
        f"repeat_rank is {m.repeat_rank}: expected {repeated} unit dims in the buffers' stream "
        f"{x!r}, and a reference of its rank, found {ref!r}",
    )
    b.agree(x.shape[:keep], ref.shape[:keep])
    return [streamify(x, ref, label=b.label)]


def _write_dyn_streamify(w: Writing, m: Any) -> None:
    w.require("shape" not in w.params, "the format has no affine reads for a reference")
    m.bufferized_rank, m.repeat_rank = w.params["rank"], w.params["rr"]


def _read_broadcast(b: Building, m: Any, xs: Streams) -> Streams:
    return broadcast(xs[0], m.num_consumers, label=b.label)


def _write_broadcast(w: Writing, m: Any) -> None:
    m.num_consumers = len(w.unit.outputs)


def _switch(m: Any) -> list[int]:
    return list(m.switch_cycles)


def _read_partition(b: Building, m: Any, xs: Streams) -> Streams:
    x, selector = xs
    keep = len(x.shape) - m.partition_rank
    if keep == len(selector.shape):
        b.agree(x.shape[:keep], selector.shape)
    return partition(
        x, selector, rank=m.partition_rank, outputs=m.num_consumers, switch_cycles=_switch(m),
        write_back=m.write_back_mu, label=b.label,
    )  # fmt: skip


def _write_partition(w: Writing, m: Any) -> None:
    m.partition_rank, m.num_consumers = w.params["rank"], len(w.unit.outputs)
    m.switch_cycles.extend(w.params["switch"])
    m.write_back_mu = w.params["wb"]


def _read_reassemble(b: Building, m: Any, xs: Streams) -> Streams:
    *inputs, selector = xs
    b.agree_inner(inputs)
    return [
        reassemble(
            inputs, selector, rank=m.reassemble_rank, switch_cycles=_switch(m),
            write_back=m.write_back_mu, label=b.label,
        )
    ]  # fmt: skip


def _read_parallelize(b: Building, m: Any, xs: Streams) -> Streams:
    b.refuse_set(m, "write_back_mu")
    return parallelize(
        xs[0], m.num_consumers, rank=m.parallelize_rank, switch_cycles=_switch(m), label=b.label
    )


def _write_parallelize(w: Writing, m: Any) -> None:
    m.parallelize_rank, m.num_consumers = w.params["rank"], len(w.unit.outputs)
    m.switch_cycles.extend(w.params["switch"])


def _read_merge(b: Building, m: Any, xs: Streams) -> Streams:
    b.agree_inner(xs)
    return eager_merge(xs, rank=m.input_rank, label=b.label)


ROWS = {
    "Flatten": Row(("Flatten",), _read_flatten, written(min_rank="lo", max_rank="hi")),
    "Reshape": Row(("Reshape",), _read_reshape, _write_reshape),
    "Promote": Row(("Promote",), _read_promote, written(promote_rank="p")),
    "RepeatStatic": Row(("RepeatStatic",), _read_repeat, _write_repeat),
    "ExpandRef": Row(("ExpandRef",), _read_expand, written(expand_rank="e")),
    "Bufferize": Row(("Bufferize",), _read_bufferize, _write_bufferize),
    "Streamify": Row(("Streamify",), _read_streamify, written(rank="rank", repeat_factor="repeat")),
    "DynStreamify": Row(("DynStreamify",), _read_dyn_streamify, _write_dyn_streamify),
    "Broadcast": Row(("Broadcast",), _read_broadcast, _write_broadcast),
    "FlatPartition": Row(("Partition",), _read_partition, _write_partition),
    "FlatReassemble": Row(
        ("Reassemble",),
        _read_reassemble,
        written(reassemble_rank="rank", write_back_mu="wb", switch_cycles="switch"),
    ),
    "Parallelize": Row(("Parallelize",), _read_parallelize, _write_parallelize),
    "EagerMerge": Row(("EagerMerge",), _read_merge, written(input_rank="rank")),
}
