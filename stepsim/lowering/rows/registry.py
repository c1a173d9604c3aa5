"""The registry: one row per unit of the vocabulary, tying its name to a kind and its parameters.

An encoder turns the named parameters of a :class:`~stepsim.lowering.network.UnitSpec` into the
parameters that the declaration of the kind names, and asks the builder for the contents of private
slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels.units import (
    buffers,
    flatmaps,
    maps,
    merge,
    offchip,
    routing,
    shape,
    sources,
)
from stepsim.lowering.rows.functions import FUNCTION_UNITS
from stepsim.lowering.rows.pieces import encode_flat_map
from stepsim.lowering.rows.row import (
    Encoder,
    Parameters,
    Row,
    at_least,
    element_bits,
    no_parameters,
    refused,
    switch_costs,
    tile_sides,
)
from stepsim.lowering.rows.rows_2026 import ROWS_2026
from stepsim.lowering.rows.rows_carriers import CARRIER_ROWS
from stepsim.lowering.rows.rows_memory import MEMORY_ROWS
from stepsim.lowering.rows.rows_scans import SCAN_UNITS

if TYPE_CHECKING:
    from stepsim.lowering.builder import ImageBuilder
    from stepsim.lowering.network import UnitSpec


def _tokens(mode: int, times: Callable[[Mapping[str, Any], int], list[int]]) -> Encoder:
    def encode(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
        tokens = spec.params["tokens"]
        first = builder.sources.add(spec, tokens)
        tail = int(spec.params.get("tail", 0))
        clocks = times(spec.params, len(tokens))
        if mode != sources.STEP and len(clocks) != len(tokens):
            raise refused(spec, f"{len(clocks)} times for {len(tokens)} tokens")
        return _source(mode, len(tokens), first, tail, clocks)

    return encode


def _source(
    mode: int, count: int, first: int, tail: int = 0, times: list[int] | None = None
) -> Parameters:
    return {"mode": mode, "count": count, "first": first, "tail": tail, "times": times or []}


def _selector_source(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    width = spec.params["width"]
    selectors, levels = spec.params["selectors"], spec.params["levels"]
    if len(selectors) != len(levels):
        raise refused(spec, f"{len(levels)} levels for {len(selectors)} selectors")
    # Equal rows are one object, which is encoded once.
    known: dict[tuple[tuple[int, ...], int], dict[str, Any]] = {}
    tokens = [
        known.setdefault(
            (row := tuple(chosen), level),
            {"selector": row, "width": width, "rd": 0, "level": level},
        )
        for chosen, level in zip(selectors, levels, strict=True)
    ]
    return _source(sources.STEP, len(tokens), builder.sources.add(spec, tokens))


def _metadata_source(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    values = spec.params["values"]
    dims = spec.params["dims"]
    if prod(dims) != len(values):
        raise refused(spec, f"{len(values)} values do not fill dims {list(dims)}")
    top = len(dims) if spec.params.get("lead", True) else len(dims) - 1
    count = len(values)
    tile = {"rows": 1, "cols": 1, "bytes": 8, "rd": 0, "valid": 1}
    columns = {name: np.broadcast_to(np.int64(number), count) for name, number in tile.items()}
    columns["level"] = np.minimum(_trailing_ends(dims), top)
    columns["value"] = np.asarray(values)
    return _source(sources.COUNT, count, builder.sources.add_tiles(spec, columns, count))


def _trailing_ends(dims: list[int]) -> NDArray[np.int64]:
    """Number of trailing dims for which each element (row-major) is the last."""
    places = np.arange(1, prod(dims) + 1)
    spans = np.cumprod(dims[::-1], dtype=np.int64)
    ends = np.zeros(len(places), np.int64)
    for span in spans:
        ends += places % span == 0
    return ends


def _numbers(**names: str) -> Encoder:
    """Parameters of the kind that are plain numbers, with their names in a network."""

    def encode(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
        return {name: int(spec.params[given]) for name, given in names.items()}

    return encode


def _sink(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {"hold": 0, "pause": 1}


def _hold(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {"hold": int(spec.params["n"]), "pause": 0}


def _last_tile(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {"more": builder.selector_id(2, (1,)), "last": builder.selector_id(2, (0,))}


def _flatten(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    lo, hi = int(spec.params["lo"]), int(spec.params["hi"])
    if not 0 <= lo < hi:
        raise refused(spec, f"dims {lo}..{hi}, expected 0 <= lo < hi")
    return {"lo": lo, "hi": hi}


def _switched(ports: Callable[[UnitSpec], int], *, wb: bool) -> Encoder:
    def encode(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
        costs = switch_costs(spec, ports(spec))
        flags = {"write_back": int(spec.params["wb"])} if wb else {}
        return {"rank": at_least(spec, "rank", 0), **flags, "switch_cycles": costs}

    return encode


def _eager_merge(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    n = len(spec.inputs)
    return {
        "rank": at_least(spec, "rank", 0),
        "selectors": [builder.selector_id(n, (i,)) for i in range(n)],
    }


def _bufferize(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {"rank": at_least(spec, "rank", 1)}


def _streamify(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    factors = [int(factor) for factor in spec.params["repeat"]]
    return {"rank": at_least(spec, "rank", 1), "factor_count": len(factors), "factors": factors}


def _random_load(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {**tile_sides(spec), "element_bits": element_bits(spec, spec.params["bpe"])}


def _store(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return tile_sides(spec)


def _random_store(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {**tile_sides(spec), "level_from_address": int(spec.params["ack_addr"])}


_each = _tokens(sources.WORK, lambda params, count: [int(params["n"])] * count)


def _times(params: Mapping[str, Any], count: int) -> list[int]:
    return list(params["times"])


def _per_output(spec: UnitSpec) -> int:
    return len(spec.outputs)


def _per_chunk_input(spec: UnitSpec) -> int:
    return len(spec.inputs) - 1


REGISTRY: Final[Mapping[str, Row]] = {
    "Src": Row(sources.SOURCE, _each),
    "At": Row(sources.SOURCE, _tokens(sources.JUMP, _times)),
    "Paced": Row(sources.SOURCE, _tokens(sources.PACED, _times)),
    "Gen": Row(sources.SOURCE, _tokens(sources.STEP, lambda params, count: [])),
    "SelectGen": Row(sources.SOURCE, _selector_source),
    "MetadataGen": Row(sources.SOURCE, _metadata_source),
    "Consumer": Row(sources.CONSUMER, _sink),
    "Printer": Row(sources.CONSUMER, _sink),
    "Hold": Row(sources.CONSUMER, _hold),
    **FUNCTION_UNITS,
    **SCAN_UNITS,
    "Zip": Row(maps.ZIP, no_parameters),
    "ExpertAddrGen": Row(flatmaps.EXPERT_ADDR, _numbers(tiles_per_expert="n", base="base")),
    "CacheReadAddrGen": Row(flatmaps.CACHE_READ_ADDR, _numbers(stride="stride")),
    "FilterLastTile": Row(flatmaps.LAST_TILE, _last_tile),
    "FlatMap": Row(flatmaps.FLAT_MAP, encode_flat_map),
    "Flatten": Row(shape.FLATTEN, _flatten),
    "Promote": Row(shape.PROMOTE, _numbers(position="p")),
    "Reassemble": Row(routing.REASSEMBLE, _switched(_per_chunk_input, wb=True)),
    "EagerMerge": Row(merge.EAGER_MERGE, _eager_merge),
    "Broadcast": Row(routing.BROADCAST, no_parameters),
    "Parallelize": Row(routing.PARALLELIZE, _switched(_per_output, wb=False)),
    "Bufferize": Row(buffers.BUFFERIZE, _bufferize),
    "Streamify": Row(buffers.STREAMIFY, _streamify),
    "RandomOffChipLoad": Row(offchip.RANDOM_LOAD, _random_load),
    "OffChipStore": Row(offchip.STORE, _store),
    "RandomOffChipStore": Row(offchip.RANDOM_STORE, _random_store),
    **MEMORY_ROWS,
    **CARRIER_ROWS,
    **ROWS_2026,
}
