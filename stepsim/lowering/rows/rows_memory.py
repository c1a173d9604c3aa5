"""Rows of the registry for linear loads, affine reads of buffers and counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final

from stepsim.errors import LoweringError
from stepsim.kernels import INFINITY
from stepsim.kernels.units import affine, buffers, counters, offchip
from stepsim.lowering.rows.row import (
    Parameters,
    Row,
    at_least,
    element_bits,
    no_parameters,
    refused,
    tile_sides,
)

if TYPE_CHECKING:
    from stepsim.lowering.builder import ImageBuilder
    from stepsim.lowering.network import UnitSpec


def _load(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    bypassed = _bypassed(builder, spec)
    return {**bypassed, "transposed": int(spec.params.get("transposed", False))}


def _bypassed(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    view = [int(dim) for dim in spec.params["view"]]
    top = len(view) if spec.inputs or spec.params.get("lead", True) else len(view) - 1
    trigger = int(spec.params.get("trigger_rank", 0))
    if trigger and not spec.inputs:
        raise refused(spec, f"trigger_rank is {trigger}, there is no reference to trigger")
    return {
        **tile_sides(spec),
        "element_bits": element_bits(spec, spec.params["bpe"]),
        "trigger_rank": trigger,
        "top_level": top,
        "tiles": prod(view),
        "dim_count": len(view),
        "dims": view,
    }


def _walk(
    spec: UnitSpec, shape: Sequence[Any], stride: Sequence[Any]
) -> tuple[list[int], list[int]]:
    """Dims and strides of an affine walk, both empty if there is no walk."""
    dims, strides = [int(dim) for dim in shape], [int(step) for step in stride]
    if len(dims) != len(strides):
        raise refused(spec, f"{len(strides)} strides for {len(dims)} dims; give one each")
    last = sum(step * (dim - 1) for step, dim in zip(strides, dims, strict=True))
    if min(dims, default=1) < 1 or max(prod(dims), last) >= INFINITY:
        raise refused(
            spec,
            f"a walk over {dims} with strides {strides}; expected dims "
            "from 1, and fewer than 2**62 tiles",
        )
    return dims, strides


def _read(spec: UnitSpec) -> dict[str, int | list[int]]:
    """The read of a buffer: the rank is that of the walk, or of the buffer if there is no walk."""
    dims, strides = _walk(spec, spec.params.get("shape", ()), spec.params.get("stride", ()))
    rank = len(dims) if dims else at_least(spec, "rank", 1)
    return {
        "rank": rank,
        "tiles": prod(dims),
        "dim_count": len(dims),
        "walk": dims + strides,
    }


def _static_streamify(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    read = _read(spec)
    factors = [int(factor) for factor in spec.params["repeat"]]
    if min(factors, default=1) < 1 or prod(factors) >= INFINITY:
        raise refused(
            spec,
            f"repeats of {factors}; expected factors from 1, and fewer than 2**62 reads",
        )
    walk = read.pop("walk")
    assert isinstance(walk, list)
    return {
        **read,
        "reads": prod(factors),
        "factor_count": len(factors),
        "numbers": factors + walk,
    }


def _dyn_streamify(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {**_read(spec), "repeat_rank": int(spec.params["rr"])}


def _counter(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    count = int(spec.params["n"])
    if count < 1:
        raise LoweringError(f"Counter '{spec.name}': it counts to {count}, expected at least 1")
    lead = bool(spec.inputs) or spec.params.get("lead", True)
    return {"count": count, "top_level": int(lead)}


def _view_addresses(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    dims, strides = _walk(spec, spec.params["shape"], spec.params["stride"])
    slab = int(spec.params["slab"])
    if not dims or slab < 1:
        raise refused(
            spec,
            f"a view of {dims} in slabs of {slab} tiles; expected one "
            "dim or more, and a tile or more",
        )
    return {
        "base": int(spec.params["base"]),
        "slab": slab,
        "tiles": prod(dims),
        "dim_count": len(dims),
        "walk": dims + strides,
    }


MEMORY_ROWS: Final[Mapping[str, Row]] = {
    "OffChipLoad": Row(offchip.LOAD, _load, inputs=0),
    "DynOffChipLoad": Row(offchip.LOAD, _load, inputs=1),
    "BypassLoad": Row(offchip.BYPASS_LOAD, _bypassed, inputs=0),
    "DynBypassLoad": Row(offchip.BYPASS_LOAD, _bypassed, inputs=1),
    "StaticStreamify": Row(affine.STATIC_STREAMIFY, _static_streamify),
    "DynStreamify": Row(buffers.DYN_STREAMIFY, _dyn_streamify),
    "Counter": Row(counters.COUNTER, _counter, inputs=0),
    "DynCounter": Row(counters.COUNTER, _counter, inputs=1),
    "FlatmapCounter": Row(counters.LENGTH_COUNTER, no_parameters),
    "DynAddrGen": Row(counters.VIEW_ADDRESSES, _view_addresses),
}
