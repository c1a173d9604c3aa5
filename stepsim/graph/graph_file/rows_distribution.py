"""Operators added to the format in 2026, which distribute, repeat, filter, shuffle and mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepsim.graph.graph_file.messages import chosen
from stepsim.graph.graph_file.row import Row
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


def _write_static_reassemble(w: Writing, m: Any) -> None:
    m.merge_rank = w.params["rank"]
    m.switch_cycles.extend(w.params["switch"])


def _read_promote_outer(b: Building, m: Any, xs: Streams) -> Streams:
    return [unsqueeze(xs[0], xs[0].rank + 1, label=b.label)]


def _read_repeat_ref(b: Building, m: Any, xs: Streams) -> Streams:
    x, ref = xs
    if ref.rank > x.rank:
        b.agree(x.shape, ref.shape[: len(x.shape)])
    return [repeat_ref(x, ref, m.rank, label=b.label)]


def _write_repeat_ref(w: Writing, m: Any) -> None:
    m.rank = w.params["rank"]


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


def _write_shuffle(w: Writing, m: Any) -> None:
    m.rank, m.write_back_mu = w.params["rank"], w.params["wb"]


def _read_masked(b: Building, m: Any, xs: Streams) -> Streams:
    (x,) = xs
    pad = chosen(m.pad_func)
    b.require(pad in (None, "zero"), f"pad_func is {pad}; tiles are padded with zeros")
    b.require(
        m.input_stream_rank == x.rank,
        f"input_stream_rank is {m.input_stream_rank}, but the stream has rank {x.rank}",
    )
    if pad is not None:
        b.check_tile(x, (m.tile_row, m.tile_col))
    fill = None if pad is None else 0
    if m.have_pad_stream:
        return reshape(
            x, m.chunk_size, m.split_dim, fill, write_back=m.write_back_mu, mask=True,
            label=b.label,
        )  # fmt: skip
    return [reshape(x, m.chunk_size, m.split_dim, fill, write_back=m.write_back_mu, label=b.label)]


def _write_masked(w: Writing, m: Any) -> None:
    p = w.params
    w.require(not p["outer"], "ReshapePadStream of the format has no add_outer")
    m.split_dim, m.chunk_size, m.write_back_mu = p["s"], p["q"], p["wb"]
    m.input_stream_rank, m.have_pad_stream = p["ri"], True
    if "pad" in p:
        m.pad_func.zero.SetInParent()
        m.tile_row, m.tile_col = p["pad"]


def _nothing(w: Writing, m: Any) -> None:
    """Nothing to write: inputs and types determine everything."""


ROWS = {
    "FlatmapFilterRowStreamify": Row(("FlatmapFilterRowStreamify",), _read_filter_rows, _nothing),
    "ReshapePadStream": Row(("ReshapePadStream",), _read_masked, _write_masked),
    "PromoteOuter": Row(("PromoteOuter",), _read_promote_outer, _nothing),
    "RepeatRef": Row(("RepeatRef",), _read_repeat_ref, _write_repeat_ref),
    "StaticReassemble": Row(
        ("StaticReassemble",), _read_static_reassemble, _write_static_reassemble
    ),
    "TakeLast": Row(("TakeLast",), _read_take_last, _nothing),
    "Shuffle": Row(("Shuffle",), _read_shuffle, _write_shuffle),
}
