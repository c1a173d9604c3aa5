"""Loads, stores and sources in the format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepsim.graph.graph_file.rows.row import Row
from stepsim.graph.ops.memory.linear_loads import linear_load
from stepsim.graph.ops.memory.offchip import LinearStore, linear_store
from stepsim.graph.ops.memory.random_access import random_load, random_store
from stepsim.graph.ops.sources import consume, printer
from stepsim.graph.types import DType, TensorSpec, Tile

if TYPE_CHECKING:
    from stepsim.graph.graph_file.building import Building
    from stepsim.graph.graph_file.writer import Writing
    from stepsim.graph.stream import Stream


def _tensor(b: Building, m: Any, dtype: DType) -> tuple[TensorSpec, tuple[int, int]]:
    """The stored tensor and its tile."""
    grid = list(m.tensor_shape_tiled)
    b.require(bool(grid), "tensor_shape_tiled is empty, expected the shape of the tensor in tiles")
    grid = grid if len(grid) > 1 else [1, *grid]
    tile = (m.tile_row, m.tile_col)
    shape = (*grid[:-2], grid[-2] * tile[0], grid[-1] * tile[1])
    path = m.npy_path if m.HasField("npy_path") else ""
    return b.tensor(shape, dtype, path), tile


def _put_tensor(w: Writing, m: Any, tensor: TensorSpec, tile: Tile) -> None:
    rows, cols = int(tile.rows), int(tile.cols)
    *outer, height, width = tensor.shape
    m.tensor_shape_tiled.extend([*outer, height // rows, width // cols])
    m.tile_row, m.tile_col = rows, cols
    w.require(
        tile.dtype.bits % 8 == 0,
        f"the format counts whole bytes for each element, {tile.dtype} has {tile.dtype.bits} bits",
    )
    m.n_byte = tile.dtype.bits // 8


def _read_load(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    tensor, tile = _tensor(b, m, b.stored_type(m.dtype, m.n_byte))
    shape, stride = list(m.out_shape_tiled), list(m.stride)
    if not xs and b.leads(len(shape)):
        shape, stride = [1, *shape], [0, *stride]
    return [
        linear_load(
            tensor, tile, shape=shape, stride=stride, ref=xs[0] if xs else None,
            trigger_rank=getattr(m, "trigger_rank", 0), transposed=getattr(m, "transposed", False),
            par_dispatch=b.dispatch(m), label=b.label,
        )
    ]  # fmt: skip


def _write_load(w: Writing, m: Any) -> None:
    op = w.operator
    _put_tensor(w, m, op.tensor, op.tile)
    m.par_dispatch = op.par()
    cut = 0
    if not op.inputs:
        cut = 1 if op.shape[0] == 1 and len(op.shape) > 1 else 0
        w.state_shape(leads=bool(cut))
    for name in ("transposed", "trigger_rank"):
        value = getattr(op, name)
        w.require(not value or hasattr(m, name), f"the format has no {name} here")
        if value:
            setattr(m, name, value)
    m.out_shape_tiled.extend(op.shape[cut:])
    m.stride.extend(op.stride[cut:])


def _read_random_load(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    tensor, tile = _tensor(b, m, b.stored_type(m.dtype, m.n_byte))
    b.refuse_set(m, "transposed")
    b.refuse_set(m, "track_traffic")
    return [
        random_load(
            xs[0], tensor, tile, base=m.base_addr_byte, par_dispatch=b.dispatch(m), label=b.label
        )
    ]


def _write_random_load(w: Writing, m: Any) -> None:
    op = w.operator
    _put_tensor(w, m, op.tensor, op.tile)
    m.base_addr_byte, m.par_dispatch = op.base, op.par()


def _read_random_store(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    kind = xs[1].type
    dtype = kind.dtype if isinstance(kind, Tile) else DType.f32
    tensor, tile = _tensor(b, m, dtype)
    b.refuse_set(m, "transposed")
    b.check_tile(xs[1], tile)
    b.check_bytes(dtype, m.n_byte)
    b.agree_counts(xs[0], xs[1])
    ack = "addr" if m.ack_based_on_waddr else "data"
    return [
        random_store(
            xs[0], xs[1], tensor, ack=ack, base=m.base_addr_byte, par_dispatch=b.dispatch(m),
            label=b.label,
        )
    ]  # fmt: skip


def _write_random_store(w: Writing, m: Any) -> None:
    op = w.operator
    _put_tensor(w, m, op.tensor, op.tile)
    m.base_addr_byte, m.par_dispatch = op.base, op.par()
    m.ack_based_on_waddr, m.has_done_stream = op.ack == "addr", True


def _read_store(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    b.check_tile(xs[0], (m.tile_row, m.tile_col))
    name = m.store_path if m.HasField("store_path") else None
    linear_store(xs[0], name or None, par_dispatch=b.dispatch(m), label=b.label)
    return []


def _write_store(w: Writing, m: Any) -> None:
    op: LinearStore = w.operator
    x = op.inputs[0]
    assert isinstance(x.type, Tile)
    m.tile_row, m.tile_col, m.par_dispatch = int(x.type.rows), int(x.type.cols), op.par()
    # Times do not depend on the shape, but a store without one ends the public simulator. A path
    # states that tiles have values; none are written, so there is no path either.
    sizes = [int(d) if d.is_static else 1 for d in x.shape]
    m.tensor_shape_tiled.extend([math.prod(sizes[:-1]), sizes[-1]])


def _read_sink(sink: Any) -> Any:
    def read(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
        sink(xs[0], label=b.label)
        return []

    return read


def _read_selector(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    return [b.selector(m.npy_path, m.is_multihot, list(getattr(m, "tensor_shape_tiled", ())))]


def _write_selector(w: Writing, m: Any) -> None:
    w.require(
        w.is_multihot(),
        "the public simulator has multi-hot selectors only, found lists of indices; leave out "
        "as_indices=True",
    )
    m.is_multihot = True
    w.keep_array(w.selectors(), m)


def _read_metadata(b: Building, m: Any, xs: Sequence[Stream]) -> Sequence[Stream]:
    return [b.metadata(m.npy_path, list(m.tensor_shape_tiled))]


def _write_metadata(w: Writing, m: Any) -> None:
    w.keep_array(w.operator.values, m)


def _nothing(w: Writing, m: Any) -> None:
    """Nothing to write: inputs and types determine everything."""


ROWS = {
    "LinearOffChipLoad": Row(("OffChipLoad",), _read_load, _write_load),
    "LinearOffChipLoadRef": Row(("DynOffChipLoad",), _read_load, _write_load),
    "RandomOffChipLoad": Row(("RandomOffChipLoad",), _read_random_load, _write_random_load),
    "RandomOffChipStore": Row(("RandomOffChipStore",), _read_random_store, _write_random_store),
    "OffChipStore": Row(("OffChipStore",), _read_store, _write_store),
    "SelectGen": Row(("SelectGen",), _read_selector, _write_selector),
    "MetadataGen": Row(("MetadataGen",), _read_metadata, _write_metadata),
    "ConsumerContext": Row(("Consumer",), _read_sink(consume), _nothing),
    "PrinterContext": Row(("Printer",), _read_sink(printer), _nothing),
}
