"""Bodies of sources, sinks, maps, reductions and Zip: one generator per kind of unit.

The order of the lines inside a body is the order of the primitives in the timing rules; it decides
when slots are freed and which clock an output sees.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.fabric import CLOSED, Abort, Payload, Steps, Token, Unit
from tests.oracle.functions import (
    accumulate,
    apply_binary,
    apply_unary,
    initial,
    map_accumulate,
)
from tests.oracle.payloads import (
    integer,
    linear_levels,
    load_cycles,
    members,
    selector,
    store_cycles,
)

__all__ = ["BASIC"]


def _payload(token: dict[str, Any]) -> Payload:
    return {key: value for key, value in token.items() if key != "level"}


# -- sources ------------------------------------------------------------------------------------


def src(u: Unit) -> Steps:
    for token in u.p["tokens"]:
        u.add(u.p["n"])
        yield from u.emit(u.outs[0], _payload(token), token["level"])
    u.add(u.p.get("tail", 0))


def at(u: Unit) -> Steps:
    for t, token in zip(u.p["times"], u.p["tokens"], strict=True):
        u.up_busy(t)
        yield from u.emit(u.outs[0], _payload(token), token["level"])
    u.add(u.p.get("tail", 0))


def paced(u: Unit) -> Steps:
    for t, token in zip(u.p["times"], u.p["tokens"], strict=True):
        u.up_busy(t)
        u.h = max(u.h, t)
        yield from u.emit(u.outs[0], _payload(token), token["level"])
    u.add(u.p.get("tail", 0))


def gen(u: Unit) -> Steps:
    for token in u.p["tokens"]:
        yield from u.emit(u.outs[0], _payload(token), token["level"], t=u.clk + 1)
        u.add(1)


def select_gen(u: Unit) -> Steps:
    for indices, level in zip(u.p["selectors"], u.p["levels"], strict=True):
        chosen = selector(indices, u.p["width"])
        yield from u.emit(u.outs[0], chosen, level, t=u.clk + 1)
        u.add(1)


def metadata_gen(u: Unit) -> Steps:
    dims = u.p["dims"]
    highest = len(dims) if u.p.get("lead", True) else len(dims) - 1
    elements = zip(u.p["values"], linear_levels(dims), strict=True)
    for i, (value, level) in enumerate(elements):
        yield from u.emit(u.outs[0], integer(value), min(level, highest), t=i)


# -- sinks --------------------------------------------------------------------------------------


def consumer(u: Unit) -> Steps:
    while (yield from u.take(u.ins[0])) is not CLOSED:
        u.add(1)


def hold(u: Unit) -> Steps:
    while (yield from u.head(u.ins[0])) is not CLOSED:
        u.add(u.p["n"])
        yield from u.take(u.ins[0])


# -- maps ---------------------------------------------------------------------------------------


def unary_map(u: Unit) -> Steps:
    fn, bw, wb = u.p["fn"], u.p["bw"], u.p["wb"]
    onchip = u.timing.onchip_bytes_per_cycle
    while (token := (yield from u.head(u.ins[0]))) is not CLOSED:
        x = token.payload
        if isinstance(fn, str):
            comp, y = apply_unary(fn, x, bw, wb)
        else:
            first, second = members(x)
            comp, y = apply_binary(list(fn), first, second, bw, wb, u.p)
        u.add(max(load_cycles(x, onchip), comp, store_cycles(y, onchip, wb)))
        yield from u.emit(u.outs[0], y, token.level)
        yield from u.take(u.ins[0])


def head_both(u: Unit, match_levels: bool = True) -> Steps:
    """HEAD of both inputs, always in this order; None when both are CLOSED."""
    first = yield from u.head(u.ins[0])
    second = yield from u.head(u.ins[1])
    if first is CLOSED and second is CLOSED:
        return None
    check_pair(u, first, second, match_levels)
    return first, second


def check_pair(u: Unit, first: Any, second: Any, match_levels: bool = True) -> None:
    """Two streams that are read in step must end together and have the same levels."""
    for ended, channel in ((first, u.ins[0]), (second, u.ins[1])):
        if ended is CLOSED:
            raise Abort(
                f"unit {u.name}: channel {channel.name} ended before the other input; "
                "feed streams of equal length"
            )
    if match_levels and first.level != second.level:
        raise Abort(
            f"unit {u.name}: stop levels {first.level} and {second.level} differ; "
            "feed streams of equal shape"
        )


def binary_map(u: Unit) -> Steps:
    bw, wb, onchip = u.p["bw"], u.p["wb"], u.timing.onchip_bytes_per_cycle
    while (pair := (yield from head_both(u))) is not None:
        x1, x2 = pair[0].payload, pair[1].payload
        comp, y = apply_binary(list(u.p["fn"]), x1, x2, bw, wb, u.p)
        load = load_cycles(x1, onchip) + load_cycles(x2, onchip)
        u.add(max(load, comp, store_cycles(y, onchip, wb)))
        yield from u.emit(u.outs[0], y, pair[0].level)
        yield from u.take(u.ins[0])
        yield from u.take(u.ins[1])


def zip_(u: Unit) -> Steps:
    while (pair := (yield from head_both(u))) is not None:
        both = {"tuple": [pair[0].payload, pair[1].payload]}
        yield from u.emit(u.outs[0], both, pair[0].level)
        yield from u.take(u.ins[0])
        yield from u.take(u.ins[1])


# -- reductions ---------------------------------------------------------------------------------


def binary_map_accum(u: Unit) -> Steps:
    bw, wb, b = u.p["bw"], u.p["wb"], u.p["rank"]
    onchip = u.timing.onchip_bytes_per_cycle
    start = acc = initial(u.p)
    while (pair := (yield from head_both(u))) is not None:
        x1, x2, level = pair[0].payload, pair[1].payload, pair[0].level
        comp, y = map_accumulate(list(u.p["fn"]), x1, x2, acc, bw, wb, u.p)
        load = load_cycles(x1, onchip) + load_cycles(x2, onchip)
        if level < b:
            acc = y
            u.add(max(load, comp))
            yield from u.take(u.ins[0])
            yield from u.take(u.ins[1])
        else:
            acc = start
            u.add(max(load, comp, store_cycles(start, onchip, wb)))
            yield from u.take(u.ins[0])
            yield from u.take(u.ins[1])
            yield from u.emit(u.outs[0], y, level - b)


def accum(u: Unit) -> Steps:
    bw, wb, b = u.p["bw"], u.p["wb"], u.p["rank"]
    onchip = u.timing.onchip_bytes_per_cycle
    start = acc = initial(u.p)
    while (token := (yield from u.head(u.ins[0]))) is not CLOSED:
        x, level = token.payload, token.level
        comp, y = accumulate(u.p["fn"], x, acc, bw, wb)
        load = load_cycles(x, onchip)
        if level < b:
            acc = y
            u.add(max(load, comp))
            yield from u.take(u.ins[0])
        else:
            acc = start
            u.add(max(load, comp, store_cycles(start, onchip, wb)))
            yield from u.take(u.ins[0])
            yield from u.emit(u.outs[0], y, level - b)


def scan(u: Unit) -> Steps:
    bw, wb, b = u.p["bw"], u.p["wb"], u.p["rank"]
    onchip = u.timing.onchip_bytes_per_cycle
    start = acc = initial(u.p)
    while isinstance(token := (yield from u.head(u.ins[0])), Token):
        x, level = token.payload, token.level
        comp, y = accumulate(u.p["fn"], x, acc, bw, wb)
        u.add(max(load_cycles(x, onchip), comp, store_cycles(y, onchip, wb)))
        yield from u.take(u.ins[0])
        acc = start if level >= b else y
        yield from u.emit(u.outs[0], y, level)


BASIC = {
    "Src": src,
    "At": at,
    "Paced": paced,
    "Gen": gen,
    "SelectGen": select_gen,
    "MetadataGen": metadata_gen,
    "Consumer": consumer,
    "Hold": hold,
    "UnaryMap": unary_map,
    "BinaryMap": binary_map,
    "Zip": zip_,
    "BinaryMapAccum": binary_map_accum,
    "Accum": accum,
    "Scan": scan,
}
