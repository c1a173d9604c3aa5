"""The registry: one row per unit of the vocabulary, tying its name to a kernel and its parameters.

An encoder turns the named parameters of a :class:`~stepsim.lowering.network.UnitSpec` into the
integers that the step function of its kind reads, and asks the builder for private token storage.
To add a unit: a step function in ``kernels/units``, a member of ``Kind``, one encoder and one row
here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

from stepsim.errors import LoweringError
from stepsim.kernels.layout import INFINITY, MAX_TILE_SIDE, Fn, Kind
from stepsim.kernels.units import flatmaps, sources

if TYPE_CHECKING:
    from stepsim.lowering.builder import ImageBuilder
    from stepsim.lowering.network import UnitSpec

__all__ = ["REGISTRY", "Row", "element_bits"]

_Encoder = Callable[["ImageBuilder", "UnitSpec"], list[int]]


@dataclass(frozen=True, slots=True)
class Row:
    """How one unit of the vocabulary is laid out.

    Attributes
    ----------
    kind : the step function.
    encode : parameters as integers.
    inputs, outputs : how many channels, ``None`` for one or more.
    hands : private token slots.
    port : "read", "write" or None: kind of memory port.
    """

    kind: Kind
    encode: _Encoder
    inputs: int | None
    outputs: int | None
    hands: int = 0
    port: str | None = None


_UNARY: Final = {"Silu": Fn.SILU, "Exp": Fn.EXP, "RowWiseSum": Fn.ROW_SUM}
_BINARY: Final = {
    "Matmul": Fn.MATMUL,
    "DynMatmul": Fn.DYN_MATMUL,
    "Mul": Fn.ELEMENTWISE,
    "Div": Fn.ELEMENTWISE,
    "Add": Fn.ELEMENTWISE,
    "RowWiseAppend": Fn.APPEND_ROW,
    "SetOffset": Fn.SET_OFFSET,
    "CacheWriteAddrGen": Fn.WRITE_ADDRESS,
}
_CONSTANT_CYCLES: Final = {
    Fn.APPEND_ROW,
    Fn.SET_OFFSET,
    Fn.WRITE_ADDRESS,
    Fn.SIGNAL,
    Fn.RETILE_ROW,
    Fn.RETILE_COL,
}
_ACCUM: Final = {
    "Add": Fn.ELEMENTWISE,
    "Mul": Fn.ELEMENTWISE,
    "RetileRow": Fn.RETILE_ROW,
    "RetileCol": Fn.RETILE_COL,
    "SignalReqAllRead": Fn.SIGNAL,
}
_MAP_ACCUM: Final = {"Matmul": Fn.MATMUL, "DynMatmul": Fn.DYN_MATMUL}
_SIDES: Final = {
    "rows": flatmaps.SIDE_ROWS,
    "cols": flatmaps.SIDE_COLS,
    "valid": flatmaps.SIDE_VALID,
}


def _function(spec: UnitSpec, table: Mapping[str, Fn]) -> tuple[Fn, int]:
    """Code and transposed flag of the unit's function."""
    fn = spec.params["fn"]
    name, transposed = (fn, False) if isinstance(fn, str) else (fn[0], len(fn) > 1 and bool(fn[1]))
    if name not in table:
        known = ", ".join(sorted(table))
        raise LoweringError(
            f"{spec.op} '{spec.name}': unknown function {name!r}; known are {known}"
        )
    return table[name], int(transposed)


def _bandwidth(spec: UnitSpec, fn: Fn) -> int:
    bw = int(spec.params["bw"])
    if bw < 1 and fn not in _CONSTANT_CYCLES:
        raise LoweringError(
            f"{spec.op} '{spec.name}': compute bandwidth is {bw} FLOPs per cycle; "
            f"function {fn.name.lower()} needs at least 1"
        )
    return max(bw, 0)


def element_bits(spec: UnitSpec, width: float) -> int:
    """Bits of an element that is ``width`` bytes wide: networks speak of bytes, the engine of bits.

    Raises
    ------
    LoweringError
        The width is neither whole bytes up to 1024 nor half a byte.
    """
    if width != 0.5 and not (1 <= width <= 1024 and width == int(width)):
        raise LoweringError(
            f"{spec.op} '{spec.name}': {width} bytes per element, expected 0.5 or 1..1024"
        )
    return int(8 * width)


def _result_bits(spec: UnitSpec) -> int:
    """Width of a product's elements; 0 when operands are equally wide and the result too."""
    width = spec.params.get("result_bpe")
    return 0 if width is None else element_bits(spec, width)


def _tokens(mode: int, times: Callable[[Mapping[str, Any], int], list[int]]) -> _Encoder:
    def encode(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
        tokens = spec.params["tokens"]
        first = builder.add_tokens(spec, tokens)
        tail = int(spec.params.get("tail", 0))
        clocks = times(spec.params, len(tokens))
        if mode != sources.STEP and len(clocks) != len(tokens):
            raise LoweringError(
                f"{spec.op} '{spec.name}': {len(clocks)} times for {len(tokens)} tokens"
            )
        return [mode, len(tokens), first, tail, *clocks]

    return encode


def _selector_source(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
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
    return [sources.STEP, len(tokens), builder.add_tokens(spec, tokens), 0]


def _metadata_source(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
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
    return [sources.COUNT, len(tokens), builder.add_tokens(spec, tokens), 0]


def _trailing_ends(index: int, dims: list[int]) -> int:
    """Number of trailing dims for which element ``index`` (row-major) is the last."""
    span, level = 1, 0
    for dim in reversed(dims):
        span *= dim
        if (index + 1) % span:
            break
        level += 1
    return level


def _unary_map(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    fn, transposed = _function(spec, {**_UNARY, **_BINARY})
    return [fn, _bandwidth(spec, fn), int(spec.params["wb"]), transposed, _result_bits(spec)]


def _binary_map(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    fn, transposed = _function(spec, _BINARY)
    stride = int(spec.params.get("stride", 0))
    wb = int(spec.params["wb"])
    return [fn, _bandwidth(spec, fn), wb, transposed, stride, _result_bits(spec)]


def _reduction(table: Mapping[str, Fn]) -> _Encoder:
    def encode(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
        fn, transposed = _function(spec, table)
        rows, cols = spec.params["init"]
        wb = int(spec.params["wb"])
        initial = {"tile": [rows, cols, spec.params["bpe"], wb, rows]}
        builder.set_hand(spec, 0, initial)
        builder.set_hand(spec, 2, initial)
        return [fn, _bandwidth(spec, fn), wb, transposed, _rank(spec, 1), _result_bits(spec)]

    return encode


def _rank(spec: UnitSpec, least: int) -> int:
    rank = int(spec.params["rank"])
    if rank < least:
        raise LoweringError(f"{spec.op} '{spec.name}': rank is {rank}, expected at least {least}")
    return rank


def _numbers(*names: str) -> _Encoder:
    def encode(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
        return [int(spec.params[name]) for name in names]

    return encode


def _sink(hold: int, pause: int) -> _Encoder:
    def encode(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
        return [int(spec.params.get("n", hold)) if hold < 0 else hold, pause]

    return encode


def _last_tile(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    return [builder.selector_id(2, (1,)), builder.selector_id(2, (0,))]


def _flat_map(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
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
    return [int(spec.params.get("cycles", 0)), side(rows), side(cols), len(dims), *dims]


def _repeat(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    factor = int(spec.params["f"])
    if factor < 1:
        raise LoweringError(f"RepeatStatic '{spec.name}': factor is {factor}, expected at least 1")
    return [factor]


def _flatten(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    lo, hi = int(spec.params["lo"]), int(spec.params["hi"])
    if not 0 <= lo < hi:
        raise LoweringError(f"Flatten '{spec.name}': dims {lo}..{hi}, expected 0 <= lo < hi")
    return [lo, hi]


def _reshape(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    params = spec.params
    pad = params.get("pad")
    if pad is not None:
        tile = [pad[0], pad[1], params["bpe"], int(params.get("wb", False)), 0]
        builder.set_hand(spec, 1, {"tile": tile})
    if int(params["q"]) < 1:
        raise LoweringError(f"Reshape '{spec.name}': chunk is {params['q']}, expected at least 1")
    outer = int(params.get("outer", False))
    return [
        int(params["s"]),
        int(params["q"]),
        int(pad is not None),
        int(params.get("ri", 0)),
        outer,
    ]


def _switched(ports: Callable[[UnitSpec], int], *, wb: bool) -> _Encoder:
    def encode(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
        costs = [int(cost) for cost in spec.params["switch"]]
        if len(costs) != ports(spec):
            raise LoweringError(
                f"{spec.op} '{spec.name}': {len(costs)} switch costs for {ports(spec)} ports"
            )
        flags = [int(spec.params["wb"])] if wb else []
        return [_rank(spec, 0), *flags, *costs]

    return encode


def _eager_merge(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    n = len(spec.inputs)
    return [_rank(spec, 0), *(builder.selector_id(n, (i,)) for i in range(n))]


def _bufferize(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    builder.set_state(spec, "a", -1)
    return [_rank(spec, 1)]


def _streamify(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    repeat = [int(factor) for factor in spec.params["repeat"]]
    return [_rank(spec, 1), len(repeat), *repeat]


def _tile(spec: UnitSpec) -> list[int]:
    rows, cols = spec.params["tile"]
    return [int(rows), int(cols)]


def _load(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    view = [int(dim) for dim in spec.params["view"]]
    top = len(view) if spec.inputs or spec.params.get("lead", True) else len(view) - 1
    return [*_tile(spec), element_bits(spec, spec.params["bpe"]), top, prod(view), len(view), *view]


def _random_load(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    return [*_tile(spec), element_bits(spec, spec.params["bpe"])]


def _store(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    return _tile(spec)


def _random_store(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    return [*_tile(spec), int(spec.params["ack_addr"])]


def _none(builder: ImageBuilder, spec: UnitSpec) -> list[int]:
    return []


_each = _tokens(sources.WORK, lambda params, count: [int(params["n"])] * count)


def _times(params: Mapping[str, Any], count: int) -> list[int]:
    return list(params["times"])


REGISTRY: Final[Mapping[str, Row]] = {
    "Src": Row(Kind.SOURCE, _each, 0, 1),
    "At": Row(Kind.SOURCE, _tokens(sources.JUMP, _times), 0, 1),
    "Paced": Row(Kind.SOURCE, _tokens(sources.PACED, _times), 0, 1),
    "Gen": Row(Kind.SOURCE, _tokens(sources.STEP, lambda params, count: []), 0, 1),
    "SelectGen": Row(Kind.SOURCE, _selector_source, 0, 1),
    "MetadataGen": Row(Kind.SOURCE, _metadata_source, 0, 1),
    "Consumer": Row(Kind.CONSUMER, _sink(0, 1), 1, 0),
    "Printer": Row(Kind.CONSUMER, _sink(0, 1), 1, 0),
    "Hold": Row(Kind.CONSUMER, _sink(-1, 0), 1, 0),
    "UnaryMap": Row(Kind.UNARY_MAP, _unary_map, 1, 1, hands=1),
    "BinaryMap": Row(Kind.BINARY_MAP, _binary_map, 2, 1, hands=1),
    "BinaryMapAccum": Row(Kind.MAP_ACCUM, _reduction(_MAP_ACCUM), 2, 1, hands=3),
    "Accum": Row(Kind.ACCUM, _reduction(_ACCUM), 1, 1, hands=3),
    "Scan": Row(Kind.SCAN, _reduction(_ACCUM), 1, 1, hands=3),
    "Zip": Row(Kind.ZIP, _none, 2, 1, hands=1),
    "RetileStreamify": Row(Kind.RETILE, _numbers("split_row", "filter"), 1, 1, hands=2),
    "ExpertAddrGen": Row(Kind.EXPERT_ADDR, _numbers("n", "base"), 1, 1, hands=1),
    "CacheReadAddrGen": Row(Kind.CACHE_READ_ADDR, _numbers("stride"), 2, 1, hands=1),
    "FilterLastTile": Row(Kind.LAST_TILE, _last_tile, 1, 1, hands=1),
    "FlatMap": Row(Kind.FLAT_MAP, _flat_map, 1, 1, hands=2),
    "ExpandRef": Row(Kind.EXPAND_REF, _numbers("e"), 2, 1),
    "RepeatStatic": Row(Kind.REPEAT, _repeat, 1, 1),
    "Flatten": Row(Kind.FLATTEN, _flatten, 1, 1, hands=1),
    "Promote": Row(Kind.PROMOTE, _numbers("p"), 1, 1, hands=1),
    "Reshape": Row(Kind.RESHAPE, _reshape, 1, 1, hands=2),
    "Partition": Row(
        Kind.PARTITION, _switched(lambda s: len(s.outputs), wb=True), 2, None, hands=1
    ),
    "Reassemble": Row(
        Kind.REASSEMBLE, _switched(lambda s: len(s.inputs) - 1, wb=True), None, 1, hands=1
    ),
    "EagerMerge": Row(Kind.EAGER_MERGE, _eager_merge, None, 2, hands=1),
    "Broadcast": Row(Kind.BROADCAST, _none, 1, None, hands=1),
    "Parallelize": Row(
        Kind.PARALLELIZE, _switched(lambda s: len(s.outputs), wb=False), 1, None, hands=1
    ),
    "Bufferize": Row(Kind.BUFFERIZE, _bufferize, 1, 1),
    "Streamify": Row(Kind.STREAMIFY, _streamify, 1, 1),
    "DynStreamify": Row(Kind.DYN_STREAMIFY, _numbers("rank", "rr"), 2, 1),
    "OffChipLoad": Row(Kind.LOAD, _load, 0, 1, port="read"),
    "DynOffChipLoad": Row(Kind.LOAD, _load, 1, 1, port="read"),
    "RandomOffChipLoad": Row(Kind.RANDOM_LOAD, _random_load, 1, 1, port="read"),
    "OffChipStore": Row(Kind.STORE, _store, 1, 0, port="write"),
    "RandomOffChipStore": Row(Kind.RANDOM_STORE, _random_store, 2, 1, port="write"),
}
