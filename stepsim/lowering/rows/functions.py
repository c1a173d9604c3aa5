"""Units that apply a function of tiles: a published one, or one described by a record."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from stepsim.graph import ACCUMULATIONS, MAP_ACCUMULATIONS, MAPS, Record, matmul, write_address
from stepsim.kernels import kept_words
from stepsim.kernels.units import maps, reductions
from stepsim.lowering.rows.function_records import EncodedFunction, is_int
from stepsim.lowering.rows.row import Encoder, Parameters, Row, at_least, element_bits, refused

if TYPE_CHECKING:
    from stepsim.lowering.builder import ImageBuilder
    from stepsim.lowering.network import UnitSpec

_WRITE_ADDRESS: Final = "CacheWriteAddrGen"
_PRODUCTS: Final = ("Matmul", "DynMatmul")


@lru_cache
def _published_product(name: str, transposed: bool, bits: int | None, states: int) -> Record:
    if states:
        return MAP_ACCUMULATIONS[name](transposed=transposed, bits=bits)
    return matmul(name, transposed, bits)


_published_address = lru_cache(write_address)


def _record_of(spec: UnitSpec, known: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record of a unit's function, either given or under one of the ``known`` names."""
    fn = spec.params["fn"]
    if isinstance(fn, Mapping):
        for name in ("result_bpe", "stride"):
            if name in spec.params:
                raise refused(spec, f"{name} is for published functions; a record states it itself")
        return fn
    name, transposed = (fn, False) if isinstance(fn, str) else (fn[0], len(fn) > 1 and bool(fn[1]))
    fitting = [f for f in known if _elements(known[f]) >= len(spec.inputs)]
    if name not in fitting:
        raise refused(
            spec,
            f"unknown function {name!r}; known are "
            f"{', '.join(sorted(fitting))}. Any other function must be given as a record",
        )
    if name in _PRODUCTS:
        width = spec.params.get("result_bpe")
        bits = None if width is None else element_bits(spec, width)
        return _published_product(name, transposed, bits, int(known is MAP_ACCUMULATIONS))
    if name == _WRITE_ADDRESS:
        return _published_address(int(spec.params["stride"]))
    record: Record = known[name]
    return record


def _elements(record: Any) -> int:
    if isinstance(record, Mapping):
        return int(record["operands"]) - int(record["states"])
    return 2  # a product


_PUBLISHED_MAPS: Final = {**MAPS, _WRITE_ADDRESS: write_address(1)}


def _function(
    builder: ImageBuilder, spec: UnitSpec, known: Mapping[str, Any], reduces: bool
) -> tuple[EncodedFunction, dict[str, int]]:
    """The function of a unit, and the parameters that all such units have."""
    at, function = builder.function(spec, _record_of(spec, known))
    if (function.states > 0) is not reduces:
        what = "an accumulation, which has states" if reduces else "a map, which has no state"
        raise refused(spec, f"its function has {function.states} states, expected {what}")
    elements = function.operands - function.states
    if elements < len(spec.inputs):
        raise refused(
            spec,
            f"its function takes {elements} elements, fewer than the {len(spec.inputs)} inputs",
        )
    bandwidth = int(spec.params["bw"])
    if bandwidth < 1 and function.has_flops:
        raise refused(
            spec,
            f"compute bandwidth is {bandwidth} FLOPs per cycle; "
            f"function {_label(spec)} needs at least 1",
        )
    builder.private_words(kept_words(function.operands, function.results))
    return function, {
        "function": at,
        "operands": function.operands,
        "compute_bandwidth": max(bandwidth, 0),
        "write_back": int(spec.params["wb"]),
    }


def _label(spec: UnitSpec) -> str:
    fn = spec.params["fn"]
    if isinstance(fn, Mapping):
        return str(fn["name"])
    return str(fn if isinstance(fn, str) else fn[0])


def _map(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    function, common = _function(builder, spec, _PUBLISHED_MAPS, False)
    tiles = builder.add_slots(function.results)
    return {**common, "results": function.results, "tiles": tiles}


def _nary_map(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    if len(spec.inputs) < 3:
        raise refused(
            spec,
            f"{len(spec.inputs)} inputs, expected at least 3; fewer are a UnaryMap or a BinaryMap",
        )
    return _map(builder, spec)


def reduction(known: Mapping[str, Any]) -> Encoder:
    """Encoder of the units that keep states, with the functions ``known`` by a name."""

    def encode(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
        function, common = _function(builder, spec, known, True)
        states = _initial(spec, function.states)
        wb = common["write_back"]
        initial = [{"tile": [rows, cols, width, wb, rows]} for rows, cols, width in states]
        rank = at_least(spec, "rank", 1)
        tiles = builder.add_slots(function.states)
        builder.add_tokens(spec, [*initial, *initial])
        onchip = builder.timing.onchip_bytes_per_cycle
        sizes = [ceil(rows * cols * width) for rows, cols, width in states]
        return {
            **common,
            "states": function.states,
            "tiles": tiles,
            "rank": rank,
            "initial_store": sum(-(-size // onchip) for size in sizes),
        }

    return encode


def _initial(spec: UnitSpec, states: int) -> list[tuple[int, int, float]]:
    """Rows, columns and bytes per element of the initial states."""
    init = spec.params["init"]
    if len(init) == 2 and all(is_int(side) for side in init):
        found = [(init[0], init[1], spec.params["bpe"])]
    else:
        found = [tuple(state) for state in init]
        if any(len(state) != 3 for state in found):
            raise refused(
                spec,
                f"init is {init!r}, expected [rows, columns, bytes per element] of every state",
            )
        if "bpe" in spec.params:
            raise refused(spec, "bpe has no effect when init has the widths")
    if len(found) != states:
        raise refused(spec, f"init has {len(found)} states, its function {states}")
    return found


FUNCTION_UNITS: Final[Mapping[str, Row]] = {
    "UnaryMap": Row(maps.UNARY_MAP, _map),
    "BinaryMap": Row(maps.BINARY_MAP, _map),
    "NaryMap": Row(maps.NARY_MAP, _nary_map),
    "BinaryMapAccum": Row(reductions.MAP_ACCUM, reduction(MAP_ACCUMULATIONS)),
    "Accum": Row(reductions.ACCUM, reduction(ACCUMULATIONS)),
    "Scan": Row(reductions.SCAN, reduction(ACCUMULATIONS)),
}
"""Units that apply a function of tiles."""
