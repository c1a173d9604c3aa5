"""Bodies of sources, sinks, maps, reductions and Zip: one generator per kind of unit.

The order of the lines inside a body is the order of the primitives in the timing rules; it decides
when slots are freed and which clock an output sees.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.fabric import CLOSED, Abort, Payload, Steps, Token, Unit
from tests.oracle.functions import apply, initial
from tests.oracle.payloads import (
    integer,
    linear_levels,
    load_cycles,
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


def _together(results: list[Payload]) -> Payload:
    """What a unit with these results sends: several of them are a tuple."""
    return results[0] if len(results) == 1 else {"tuple": results}


def _stored(results: list[Payload], u: Unit) -> int:
    """Cycles to store results, one after the other."""
    onchip = u.timing.onchip_bytes_per_cycle
    return sum(store_cycles(y, onchip, u.p["wb"]) for y in results)


def _loaded(tokens: list[Token], u: Unit) -> int:
    return sum(load_cycles(token.payload, u.timing.onchip_bytes_per_cycle) for token in tokens)


def map_(u: Unit) -> Steps:
    """Maps of any number of streams."""
    while (tokens := (yield from head_all(u))) is not None:
        comp, results = apply(u.p, u.timing.model, [token.payload for token in tokens])
        u.add(max(_loaded(tokens, u), comp, _stored(results, u)))
        yield from u.emit(u.outs[0], _together(results), tokens[0].level)
        for channel in u.ins:
            yield from u.take(channel)


def head_all(u: Unit, match_levels: bool = True) -> Steps:
    """HEAD of every input, always in this order; None when all are CLOSED."""
    tokens = []
    for channel in u.ins:
        tokens.append((yield from u.head(channel)))
    if all(token is CLOSED for token in tokens):
        return None
    check_step(u, tokens, match_levels)
    return tokens


def check_step(u: Unit, tokens: list[Any], match_levels: bool = True) -> None:
    """Streams that are read in step must end together and have the same levels."""
    for token, channel in zip(tokens, u.ins, strict=False):  # a counter is read apart
        if token is CLOSED:
            raise Abort(
                f"unit {u.name}: channel {channel.name} ended before the other inputs; "
                "feed streams of equal length"
            )
    levels = [token.level for token in tokens]
    if match_levels and len(set(levels)) > 1:
        raise Abort(
            f"unit {u.name}: stop levels {' and '.join(map(str, levels))} differ; "
            "feed streams of equal shape"
        )


def zip_(u: Unit) -> Steps:
    while (pair := (yield from head_all(u))) is not None:
        both = {"tuple": [pair[0].payload, pair[1].payload]}
        yield from u.emit(u.outs[0], both, pair[0].level)
        yield from u.take(u.ins[0])
        yield from u.take(u.ins[1])


# -- reductions ---------------------------------------------------------------------------------


def reduction(u: Unit) -> Steps:
    """Accumulations of one stream, or of two in step."""
    b = u.p["rank"]
    start = acc = initial(u.p)
    while (tokens := (yield from head_all(u))) is not None:
        level = tokens[0].level
        payloads = [token.payload for token in tokens]
        comp, results = apply(u.p, u.timing.model, payloads, acc)
        ends = level >= b
        acc = start if ends else results
        u.add(max(_loaded(tokens, u), comp, _stored(start, u) if ends else 0))
        for channel in u.ins:
            yield from u.take(channel)
        if ends:
            yield from u.emit(u.outs[0], _together(results), level - b)


def scan(u: Unit) -> Steps:
    start = acc = initial(u.p)
    while (tokens := (yield from head_all(u))) is not None:
        level = tokens[0].level
        comp, results = apply(u.p, u.timing.model, [tokens[0].payload], acc)
        u.add(max(_loaded(tokens, u), comp, _stored(results, u)))
        yield from u.take(u.ins[0])
        acc = start if level >= u.p["rank"] else results
        yield from u.emit(u.outs[0], _together(results), level)


BASIC = {
    "Src": src,
    "At": at,
    "Paced": paced,
    "Gen": gen,
    "SelectGen": select_gen,
    "MetadataGen": metadata_gen,
    "Consumer": consumer,
    "Hold": hold,
    "UnaryMap": map_,
    "BinaryMap": map_,
    "NaryMap": map_,
    "Zip": zip_,
    "BinaryMapAccum": reduction,
    "Accum": reduction,
    "Scan": scan,
}
