"""Bodies of the further scans and reductions, and of the maps that make or take selectors.

Written from the timing rules of the public simulator of 2026 alone.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tests.oracle.fabric import CLOSED, Abort, Payload, Steps, Unit
from tests.oracle.functions import apply, initial
from tests.oracle.payloads import ceil_div, integer, load_cycles, nbytes, selector, store_cycles
from tests.oracle.units_basic import check_step

__all__ = ["SCAN"]


def _together(results: list[Payload]) -> Payload:
    return results[0] if len(results) == 1 else {"tuple": results}


def _later(u: Unit, record: dict[str, Any], operands: list[Payload]) -> tuple[int, list[Payload]]:
    """The second function of a unit."""
    return apply({**u.p, "fn": record}, u.timing.model, operands)


def _stores(u: Unit, results: list[Payload]) -> int:
    return sum(store_cycles(y, u.timing.onchip_bytes_per_cycle, u.p["wb"]) for y in results)


def general_scan(u: Unit) -> Steps:
    second, b = u.p["second"], u.p["rank"]
    data = u.ins[:-1] if u.p["counted"] else u.ins
    start = acc = initial(u.p)
    seen = wanted = 0
    while True:
        tokens = []
        for channel in data:
            tokens.append((yield from u.head(channel)))
        if all(token is CLOSED for token in tokens):
            return
        check_step(u, tokens)
        level = tokens[0].level
        if u.p["counted"] and seen == 0:
            length = yield from u.take(u.ins[-1])
            if length is CLOSED:
                raise Abort(f"unit {u.name}: a group without a length")
            if "tile" not in length.payload:
                raise Abort(f"unit {u.name}: a length that is no tile")
            wanted = int(length.payload.get("value", 0))
        seen += 1
        if level >= b:
            if u.p["counted"] and seen != wanted:
                raise Abort(f"unit {u.name}: a group of {seen}, not of {wanted}")
            seen = 0
        comp, new = apply(u.p, u.timing.model, [tokens[0].payload], acc)
        shown = acc if u.p["exclusive"] else new
        if second is not None:
            more, shown = _later(u, second, [tokens[1].payload, *shown])
            comp += more
        onchip = u.timing.onchip_bytes_per_cycle
        load = sum(load_cycles(token.payload, onchip) for token in tokens)
        u.add(max(load, comp, _stores(u, shown)))
        for channel in data:
            yield from u.take(channel)
        yield from u.emit(u.outs[0], _together(shown), level)
        if len(u.outs) == 2:
            yield from u.emit(u.outs[1], _together(acc), level)
        acc = start if level >= b else new


def row_stat(u: Unit) -> Steps:
    b = u.p["rank"]
    start = acc = initial(u.p)
    while (token := (yield from u.head(u.ins[0]))) is not CLOSED:
        work, new = apply(u.p, u.timing.model, [token.payload], acc)
        load = load_cycles(token.payload, u.timing.onchip_bytes_per_cycle)
        if token.level < b:
            acc = new
            u.add(max(load, work))
            yield from u.take(u.ins[0])
            continue
        extra, results = _later(u, u.p["finish"], new)
        acc = start
        u.add(max(load, work + extra, _stores(u, results)))
        yield from u.take(u.ins[0])
        yield from u.emit(u.outs[0], _together(results), token.level - b)


def accum_buffer(u: Unit) -> Steps:
    dims, b, onchip = list(u.p["dims"]), u.p["rank"], u.timing.onchip_bytes_per_cycle
    (start,) = initial(u.p)
    slots, k = [start] * prod(dims), 0
    while (token := (yield from u.head(u.ins[0]))) is not CLOSED:
        comp, (made,) = apply(u.p, u.timing.model, [token.payload], [slots[k]])
        # A slot without rows or columns has taken the shape of the first tile.
        slot = slots[k] if nbytes(slots[k]) else made
        load = ceil_div(nbytes(slot), onchip) + load_cycles(token.payload, onchip)
        u.add(max(load, comp, ceil_div(nbytes(made), onchip)))
        yield from u.take(u.ins[0])
        slots[k] = made
        k = (k + 1) % len(slots)
        if token.level >= b:
            yield from u.emit(u.outs[0], {"buffer": dims, "tiles": slots}, token.level - b)
            slots, k = [start] * len(slots), 0


def _selected(name: str, width: int, operands: list[Payload]) -> Payload:
    if name in ("IndexToMultiHot", "IntegerToMultiHot"):
        if "tile" not in operands[0]:
            raise Abort("a number was expected")
        number = int(operands[0].get("value", 0))
        if name == "IndexToMultiHot":
            if not 0 <= number < width:
                raise Abort(f"index {number} of {width}")
            return selector([number], width)
        if not 0 <= number < 2**width:
            raise Abort(f"{number} has more than {width} bits")
        return selector([i for i in range(width) if number >> i & 1], width)
    for x in operands:
        if x.get("width") != width:
            raise Abort(f"a selector of {width} was expected, found {x}")
    sets = [set(x["selector"]) for x in operands]
    if name == "MultiHotToInteger":
        return integer(sum(2**i for i in sets[0]))
    if name == "SelectToScalar":
        if len(sets[0]) != 1:
            raise Abort("a selector of one index was expected")
        return integer(sets[0].pop())
    found = {
        "Not": lambda: set(range(width)) - sets[0],
        "And": lambda: sets[0] & sets[1],
        "Or": lambda: sets[0] | sets[1],
        "Xor": lambda: sets[0] ^ sets[1],
    }[name]()
    return selector(sorted(found), width)


def selector_map(u: Unit) -> Steps:
    onchip, wb = u.timing.onchip_bytes_per_cycle, u.p["wb"]
    while True:
        tokens = []
        for channel in u.ins:
            tokens.append((yield from u.head(channel)))
        if all(token is CLOSED for token in tokens):
            return
        check_step(u, tokens)
        y = _selected(u.p["fn"], u.p["width"], [token.payload for token in tokens])
        y = integer(y["value"], rd=int(wb)) if "tile" in y else {**y, "rd": int(wb)}
        load = sum(load_cycles(token.payload, onchip) for token in tokens)
        u.add(max(load, u.p["cycles"], store_cycles(y, onchip, wb)))
        yield from u.emit(u.outs[0], y, tokens[0].level)
        for channel in u.ins:
            yield from u.take(channel)


SCAN = {
    "GeneralScan": general_scan,
    "AccumRowStat": row_stat,
    "AccumBuffer": accum_buffer,
    "SelectorMap": selector_map,
}
