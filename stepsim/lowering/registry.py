"""The registry: one row per unit of the vocabulary, tying its name to a kind and its parameters.

An encoder turns the named parameters of a :class:`~stepsim.lowering.network.UnitSpec` into the
parameters that the declaration of the kind names, and asks the builder for the contents of private
slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Final

from stepsim.errors import LoweringError
from stepsim.kernels.functions.dispatch import FUNCTIONS, code_of
from stepsim.kernels.layout import INFINITY, MAX_TILE_SIDE
from stepsim.kernels.units import (
    buffers,
    flatmaps,
    maps,
    merge,
    offchip,
    reductions,
    routing,
    shape,
    sources,
)
from stepsim.lowering.row import Encoder, Parameters, Row, element_bits

if TYPE_CHECKING:
    from stepsim.lowering.builder import ImageBuilder
    from stepsim.lowering.network import UnitSpec

__all__ = ["REGISTRY", "function_name"]

_FUNCTION_NAMES: Final = tuple(FUNCTIONS)

_SIDES: Final = {
    "rows": flatmaps.SIDE_ROWS,
    "cols": flatmaps.SIDE_COLS,
    "valid": flatmaps.SIDE_VALID,
}


def _function(spec: UnitSpec, *uses: str) -> dict[str, int]:
    """The parameters of a unit that applies a function, where it can be used in one of ``uses``."""
    fn = spec.params["fn"]
    name, transposed = (fn, False) if isinstance(fn, str) else (fn[0], len(fn) > 1 and bool(fn[1]))
    known = [f for f in FUNCTIONS if any(use in FUNCTIONS[f].kernels for use in uses)]
    if name not in known:
        raise LoweringError(
            f"{spec.op} '{spec.name}': unknown function {name!r}; known are "
            f"{', '.join(sorted(known))}. A function that states its sizes= is compiled into the "
            "engine when a package offers it under the entry points 'stepsim.functions'"
        )
    bandwidth = int(spec.params["bw"])
    if bandwidth < 1 and not FUNCTIONS[name].constant_cycles:
        raise LoweringError(
            f"{spec.op} '{spec.name}': compute bandwidth is {bandwidth} FLOPs per cycle; "
            f"function {name} needs at least 1"
        )
    return {
        "function": code_of(name),
        "compute_bandwidth": max(bandwidth, 0),
        "write_back": int(spec.params["wb"]),
        "transposed": int(transposed),
    }


def function_name(code: int) -> str:
    """Name of the function with a code; codes depend on the plugins that are installed."""
    return _FUNCTION_NAMES[code]


def _result_bits(spec: UnitSpec) -> int:
    """Width of a product's elements; 0 when operands are equally wide and the result too."""
    width = spec.params.get("result_bpe")
    return 0 if width is None else element_bits(spec, width)


def _tokens(mode: int, times: Callable[[Mapping[str, Any], int], list[int]]) -> Encoder:
    def encode(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
        tokens = spec.params["tokens"]
        first = builder.add_tokens(spec, tokens)
        tail = int(spec.params.get("tail", 0))
        clocks = times(spec.params, len(tokens))
        if mode != sources.STEP and len(clocks) != len(tokens):
            raise LoweringError(
                f"{spec.op} '{spec.name}': {len(clocks)} times for {len(tokens)} tokens"
            )
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
        raise LoweringError(
            f"SelectGen '{spec.name}': {len(levels)} levels for {len(selectors)} selectors"
        )
    tokens = [
        {"selector": list(chosen), "width": width, "rd": 0, "level": level}
        for chosen, level in zip(selectors, levels, strict=True)
    ]
    return _source(sources.STEP, len(tokens), builder.add_tokens(spec, tokens))


def _metadata_source(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    values = spec.params["values"]
    dims = spec.params["dims"]
    if prod(dims) != len(values):
        raise LoweringError(
            f"MetadataGen '{spec.name}': {len(values)} values do not fill dims {list(dims)}"
        )
    top = len(dims) if spec.params.get("lead", True) else len(dims) - 1
    tokens = [
        {"tile": [1, 1, 8, 0, 1], "value": value, "level": min(_trailing_ends(i, dims), top)}
        for i, value in enumerate(values)
    ]
    return _source(sources.COUNT, len(tokens), builder.add_tokens(spec, tokens))


def _trailing_ends(index: int, dims: list[int]) -> int:
    """Number of trailing dims for which element ``index`` (row-major) is the last."""
    span, level = 1, 0
    for dim in reversed(dims):
        span *= dim
        if (index + 1) % span:
            break
        level += 1
    return level


def _unary_map(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    common = _function(spec, "unary", "binary")
    fn = spec.params["fn"]
    operands = 1 if "unary" in FUNCTIONS[fn if isinstance(fn, str) else fn[0]].kernels else 2
    return {**common, "operands": operands, "stride": 0, "result_bits": _result_bits(spec)}


def _binary_map(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {
        **_function(spec, "binary"),
        "stride": int(spec.params.get("stride", 0)),
        "result_bits": _result_bits(spec),
    }


def _reduction(use: str) -> Encoder:
    def encode(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
        common = _function(spec, use)
        rows, cols = spec.params["init"]
        initial = {"tile": [rows, cols, spec.params["bpe"], common["write_back"], rows]}
        builder.set_private(spec, "accumulator", initial)
        builder.set_private(spec, "initial", initial)
        return {**common, "rank": _rank(spec, 1), "result_bits": _result_bits(spec)}

    return encode


def _rank(spec: UnitSpec, least: int) -> int:
    rank = int(spec.params["rank"])
    if rank < least:
        raise LoweringError(f"{spec.op} '{spec.name}': rank is {rank}, expected at least {least}")
    return rank


def _numbers(**names: str) -> Encoder:
    """Parameters of the kind that are plain numbers, and what they are called in a network."""

    def encode(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
        return {name: int(spec.params[given]) for name, given in names.items()}

    return encode


def _sink(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {"hold": 0, "pause": 1}


def _hold(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {"hold": int(spec.params["n"]), "pause": 0}


def _last_tile(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {"more": builder.selector_id(2, (1,)), "last": builder.selector_id(2, (0,))}


def _flat_map(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    def side(value: int | str) -> int:
        return _SIDES[value] if isinstance(value, str) else int(value)

    rows, cols = spec.params["tile"]
    dims = [side(dim) for dim in spec.params["dims"]]
    largest = prod(dim if dim >= 0 else MAX_TILE_SIDE for dim in dims)
    if largest >= INFINITY:
        raise LoweringError(
            f"FlatMap '{spec.name}': up to {largest} pieces per token; fewer than 2**62 can be "
            "counted"
        )
    return {
        "cycles": int(spec.params.get("cycles", 0)),
        "rows": side(rows),
        "cols": side(cols),
        "dim_count": len(dims),
        "dims": dims,
    }


def _repeat(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    factor = int(spec.params["f"])
    if factor < 1:
        raise LoweringError(f"RepeatStatic '{spec.name}': factor is {factor}, expected at least 1")
    return {"factor": factor}


def _flatten(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    lo, hi = int(spec.params["lo"]), int(spec.params["hi"])
    if not 0 <= lo < hi:
        raise LoweringError(f"Flatten '{spec.name}': dims {lo}..{hi}, expected 0 <= lo < hi")
    return {"lo": lo, "hi": hi}


def _reshape(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    params = spec.params
    pad = params.get("pad")
    if pad is not None:
        tile = [pad[0], pad[1], params["bpe"], int(params.get("wb", False)), 0]
        builder.set_private(spec, "pad", {"tile": tile})
    if int(params["q"]) < 1:
        raise LoweringError(f"Reshape '{spec.name}': chunk is {params['q']}, expected at least 1")
    return {
        "dim": int(params["s"]),
        "chunk": int(params["q"]),
        "has_pad": int(pad is not None),
        "input_rank": int(params.get("ri", 0)),
        "outer": int(params.get("outer", False)),
    }


def _switched(ports: Callable[[UnitSpec], int], *, wb: bool) -> Encoder:
    def encode(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
        costs = [int(cost) for cost in spec.params["switch"]]
        if len(costs) != ports(spec):
            raise LoweringError(
                f"{spec.op} '{spec.name}': {len(costs)} switch costs, expected {ports(spec)}"
            )
        flags = {"write_back": int(spec.params["wb"])} if wb else {}
        return {"rank": _rank(spec, 0), **flags, "switch_cycles": costs}

    return encode


def _eager_merge(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    n = len(spec.inputs)
    return {
        "rank": _rank(spec, 0),
        "selectors": [builder.selector_id(n, (i,)) for i in range(n)],
    }


def _bufferize(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {"rank": _rank(spec, 1)}


def _streamify(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    factors = [int(factor) for factor in spec.params["repeat"]]
    return {"rank": _rank(spec, 1), "factor_count": len(factors), "factors": factors}


def _tile(spec: UnitSpec) -> dict[str, int]:
    rows, cols = spec.params["tile"]
    return {"rows": int(rows), "cols": int(cols)}


def _load(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    view = [int(dim) for dim in spec.params["view"]]
    top = len(view) if spec.inputs or spec.params.get("lead", True) else len(view) - 1
    return {
        **_tile(spec),
        "element_bits": element_bits(spec, spec.params["bpe"]),
        "top_level": top,
        "tiles": prod(view),
        "dim_count": len(view),
        "dims": view,
    }


def _random_load(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {**_tile(spec), "element_bits": element_bits(spec, spec.params["bpe"])}


def _store(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return _tile(spec)


def _random_store(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {**_tile(spec), "level_from_address": int(spec.params["ack_addr"])}


def _none(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {}


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
    "UnaryMap": Row(maps.UNARY_MAP, _unary_map),
    "BinaryMap": Row(maps.BINARY_MAP, _binary_map),
    "BinaryMapAccum": Row(reductions.MAP_ACCUM, _reduction("map_accumulate")),
    "Accum": Row(reductions.ACCUM, _reduction("accumulate")),
    "Scan": Row(reductions.SCAN, _reduction("accumulate")),
    "Zip": Row(maps.ZIP, _none),
    "RetileStreamify": Row(flatmaps.RETILE, _numbers(split_row="split_row", drop_padding="filter")),
    "ExpertAddrGen": Row(flatmaps.EXPERT_ADDR, _numbers(tiles_per_expert="n", base="base")),
    "CacheReadAddrGen": Row(flatmaps.CACHE_READ_ADDR, _numbers(stride="stride")),
    "FilterLastTile": Row(flatmaps.LAST_TILE, _last_tile),
    "FlatMap": Row(flatmaps.FLAT_MAP, _flat_map),
    "ExpandRef": Row(shape.EXPAND_REF, _numbers(inner_dims="e")),
    "RepeatStatic": Row(shape.REPEAT, _repeat),
    "Flatten": Row(shape.FLATTEN, _flatten),
    "Promote": Row(shape.PROMOTE, _numbers(position="p")),
    "Reshape": Row(shape.RESHAPE, _reshape),
    "Partition": Row(routing.PARTITION, _switched(_per_output, wb=True)),
    "Reassemble": Row(routing.REASSEMBLE, _switched(_per_chunk_input, wb=True)),
    "EagerMerge": Row(merge.EAGER_MERGE, _eager_merge),
    "Broadcast": Row(routing.BROADCAST, _none),
    "Parallelize": Row(routing.PARALLELIZE, _switched(_per_output, wb=False)),
    "Bufferize": Row(buffers.BUFFERIZE, _bufferize),
    "Streamify": Row(buffers.STREAMIFY, _streamify),
    "DynStreamify": Row(buffers.DYN_STREAMIFY, _numbers(rank="rank", repeat_rank="rr")),
    "OffChipLoad": Row(offchip.LOAD, _load, inputs=0),
    "DynOffChipLoad": Row(offchip.LOAD, _load, inputs=1),
    "RandomOffChipLoad": Row(offchip.RANDOM_LOAD, _random_load),
    "OffChipStore": Row(offchip.STORE, _store),
    "RandomOffChipStore": Row(offchip.RANDOM_STORE, _random_store),
}
