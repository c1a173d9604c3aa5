"""Maps, accumulations and stream functions in the format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepsim.graph import fn
from stepsim.graph.graph_file.element_types import DTYPES
from stepsim.graph.graph_file.functions import (
    put_accumulation,
    put_function,
    put_init,
    read_accumulation,
    read_function,
    read_init,
)
from stepsim.graph.graph_file.messages import chosen
from stepsim.graph.graph_file.rows.row import Row, written
from stepsim.graph.ops.flat_map.flat_maps import flat_map
from stepsim.graph.ops.higher_order.group_results import accum_buffer
from stepsim.graph.ops.higher_order.maps import map_
from stepsim.graph.ops.higher_order.reductions import accum, map_accum
from stepsim.graph.types import Tile

if TYPE_CHECKING:
    from stepsim.graph.graph_file.building import Building
    from stepsim.graph.graph_file.writer import Writing
    from stepsim.graph.stream import Stream
    from stepsim.graph.types import DType


def _read_map(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    function = read_function(m.func, b.where)
    if len(xs) == 2:
        set_ = hasattr(m, "st_from_input") and m.HasField("st_from_input")
        b.require(not set_, "st_from_input has no unit that times it")
        b.agree(xs[0].shape, xs[1].shape)
    options = {"compute_bw": m.compute_bw, "write_back": m.write_back_mu, "label": b.label}
    return [map_(function, *xs, **options)]


def _write_map(w: Writing, m: Any) -> None:
    op = w.operator
    dynamic = not all(t.is_static for t in op.operands())
    put_function(m.func, op.fn, dynamic, w.where)
    m.compute_bw, m.write_back_mu = op.unit_bw(), op.write_back


def _state_type(b: Building, message: Any, x: Stream) -> DType | None:
    """Scalar type of a state that differs from that of the elements."""
    name = chosen(message)
    if name not in DTYPES or not isinstance(x.type, Tile):
        return None
    stated = b.mocked(DTYPES[name])
    return None if stated is x.type.dtype else stated


def _read_accum(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    function = read_accumulation(m.func, b.where)
    sides = m.tile_row, m.tile_col
    init = read_init(m.init_func, sides, _state_type(b, m.dtype_b, xs[0]), function, b.where)
    return [
        accum(
            xs[0], function, m.rank, init, compute_bw=m.compute_bw, write_back=m.write_back_mu,
            label=b.label,
        )
    ]  # fmt: skip


def _put_state(w: Writing, m: Any) -> None:
    op = w.operator
    put_init(m.init_func, op.init, w.where)
    m.tile_row, m.tile_col, m.rank = op.init.rows, op.init.cols, op.rank
    m.compute_bw, m.write_back_mu = op.unit_bw(), op.write_back


def _read_accum_buffer(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    function = read_accumulation(m.func, b.where)
    init = read_init(m.init_func, (m.tile_row, m.tile_col), None, function, b.where)
    kept = list(m.buffer_shape)
    made = accum_buffer(
        xs[0], function, m.rank, len(kept), init, compute_bw=m.compute_bw,
        write_back=m.write_back_mu, label=b.label,
    )  # fmt: skip
    dims = [int(d) for d in xs[0].shape[len(xs[0].shape) - len(kept) :]]
    b.require(dims == kept, f"buffer_shape is {kept}, the innermost dims are {dims}")
    return [made]


def _write_accum_buffer(w: Writing, m: Any) -> None:
    put_accumulation(m.func, w.operator.fn, w.where)
    m.buffer_shape.extend(w.params["dims"])
    _put_state(w, m)


def _write_accum(w: Writing, m: Any) -> None:
    put_accumulation(m.func, w.operator.fn, w.where)
    _put_state(w, m)


def _read_map_accum(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    function = read_function(m.func, b.where)
    init = read_init(m.init_func, (m.tile_row, m.tile_col), None, function, b.where)
    b.agree(xs[0].shape, xs[1].shape)
    return [
        map_accum(
            function, xs[0], xs[1], m.rank, init, compute_bw=m.compute_bw,
            write_back=m.write_back_mu, label=b.label,
        )
    ]  # fmt: skip


def _write_map_accum(w: Writing, m: Any) -> None:
    op = w.operator
    dynamic = op.init.kind == "empty" or not all(t.is_static for t in op.operands())
    put_function(m.func, op.fn, dynamic, w.where)
    _put_state(w, m)


def _read_retile(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    if m.split_row:
        chunk = getattr(m, "chunk", 0)
        made = fn.unpack_rows(drop_padding=m.filter_mask, chunk=chunk if chunk > 1 else None)
    elif hasattr(m, "chunk"):
        # The format ignores the filter where columns are split.
        made = fn.unpack_cols(chunk=max(m.chunk, 1))
    else:
        made = fn.unpack_cols()
    return [flat_map(xs[0], made, label=b.label)]


def _write_retile(w: Writing, m: Any) -> None:
    rows, chunk = w.params["split_row"], w.params.get("chunk")
    m.split_row, m.filter_mask = rows, w.params["filter"]
    if not hasattr(m, "chunk"):
        w.require(chunk is None, "generation A of the format cuts single rows and columns")
        return
    w.require(
        rows or chunk is not None,
        "generation B of the format cuts upright columns; pass chunk=1 to unpack_cols, or write "
        "generation A, which lays columns out as rows",
    )
    if chunk is not None:
        m.chunk = chunk


def _read_addresses(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    made = fn.expert_addresses(m.num_tile_per_expert, m.expert_addr_base)
    return [flat_map(xs[0], made, label=b.label)]


def _read_cache_read(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    b.agree(xs[0].shape, xs[1].shape)
    made = fn.cache_read_addresses(m.offset_per_idx)
    return [flat_map(xs[0], made, xs[1], label=b.label)]


def _read_last_tile(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    return [flat_map(xs[0], fn.last_tile_filter(), label=b.label)]


ROWS = {
    "BinaryMap": Row(("BinaryMap",), _read_map, _write_map),
    "UnaryMap": Row(("UnaryMap",), _read_map, _write_map),
    "Accum": Row(("Accum",), _read_accum, _write_accum),
    "AccumBuffer": Row(("AccumBuffer",), _read_accum_buffer, _write_accum_buffer),
    "BinaryMapAccum": Row(("BinaryMapAccum",), _read_map_accum, _write_map_accum),
    "RetileStreamify": Row(("RetileStreamify",), _read_retile, _write_retile),
    "ExpertAddrGen": Row(
        ("ExpertAddrGen",),
        _read_addresses,
        written(num_tile_per_expert="n", expert_addr_base="base"),
    ),
    "CacheReadAddrGen": Row(
        ("CacheReadAddrGen",), _read_cache_read, written(offset_per_idx="stride")
    ),
    "FilterLastTile": Row(("FilterLastTile",), _read_last_tile, written()),
}
