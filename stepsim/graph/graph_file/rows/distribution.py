"""Operators added to the format in 2026, which distribute, repeat, filter, shuffle and mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepsim.graph.graph_file.rows.row import Row, written
from stepsim.graph.graph_file.rows.shape import read_pad, write_chunks
from stepsim.graph.ops.routing.fixed_order import static_reassemble
from stepsim.graph.ops.routing.selecting import filter_rows, shuffle
from stepsim.graph.ops.shape.chunks import reshape
from stepsim.graph.ops.shape.levels import unsqueeze
from stepsim.graph.ops.shape.references import repeat_ref, take_last

if TYPE_CHECKING:
    from stepsim.graph.graph_file.building import Building
    from stepsim.graph.graph_file.writer import Writing
    from stepsim.graph.stream import Stream

Streams = Sequence["Stream"]


def _read_static_reassemble(b: Building, m: Any, xs: Streams) -> Streams:
    b.agree_inner(xs)
    # The format has a write_back_mu here, which has no effect.
    return [static_reassemble(xs, m.merge_rank, switch_cycles=list(m.switch_cycles), label=b.label)]


def _read_promote_outer(b: Building, m: Any, xs: Streams) -> Streams:
    return [unsqueeze(xs[0], xs[0].rank + 1, label=b.label)]


def _read_repeat_ref(b: Building, m: Any, xs: Streams) -> Streams:
    x, ref = xs
    if ref.rank > x.rank:
        b.agree(x.shape, ref.shape[: len(x.shape)])
    return [repeat_ref(x, ref, m.rank, label=b.label)]


def _read_take_last(b: Building, m: Any, xs: Streams) -> Streams:
    return [take_last(xs[0], label=b.label)]


def _read_filter_rows(b: Building, m: Any, xs: Streams) -> Streams:
    if len(xs) == 2:
        b.agree(xs[0].shape, xs[1].shape)
    return [filter_rows(xs[0], xs[1] if len(xs) == 2 else None, label=b.label)]


def _read_shuffle(b: Building, m: Any, xs: Streams) -> Streams:
    x, index = xs
    keep = len(index.shape)
    if len(x.shape) >= keep:
        b.agree(x.shape[:keep], index.shape)
    return shuffle(x, index, m.rank, write_back=m.write_back_mu, label=b.label)


def _read_masked(b: Building, m: Any, xs: Streams) -> Streams:
    (x,) = xs
    fill = read_pad(b, m, x)
    if m.have_pad_stream:
        return reshape(
            x, m.chunk_size, m.split_dim, fill, write_back=m.write_back_mu, mask=True,
            label=b.label,
        )  # fmt: skip
    return [reshape(x, m.chunk_size, m.split_dim, fill, write_back=m.write_back_mu, label=b.label)]


def _write_masked(w: Writing, m: Any) -> None:
    w.require(not w.params["outer"], "ReshapePadStream of the format has no add_outer")
    write_chunks(w, m)
    m.input_stream_rank, m.have_pad_stream = w.params["ri"], True


ROWS = {
    "FlatmapFilterRowStreamify": Row(("FlatmapFilterRowStreamify",), _read_filter_rows, written()),
    "ReshapePadStream": Row(("ReshapePadStream",), _read_masked, _write_masked),
    "PromoteOuter": Row(("PromoteOuter",), _read_promote_outer, written()),
    "RepeatRef": Row(("RepeatRef",), _read_repeat_ref, written(rank="rank")),
    "StaticReassemble": Row(
        ("StaticReassemble",),
        _read_static_reassemble,
        written(merge_rank="rank", switch_cycles="switch"),
    ),
    "TakeLast": Row(("TakeLast",), _read_take_last, written()),
    "Shuffle": Row(("Shuffle",), _read_shuffle, written(rank="rank", write_back_mu="wb")),
}
