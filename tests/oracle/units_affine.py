"""Bodies of affine buffer reads, counters and address generators: one generator per kind."""

from __future__ import annotations

from itertools import product
from math import prod

from tests.oracle.fabric import CLOSED, Abort, Steps, Unit
from tests.oracle.payloads import integer, linear_levels

__all__ = ["AFFINE", "walk"]


def walk(shape: list[int], stride: list[int]) -> list[int]:
    """Positions of an affine walk, last index fastest."""
    steps = product(*(range(extent) for extent in shape))
    return [sum(i * s for i, s in zip(step, stride, strict=True)) for step in steps]


def static_streamify(u: Unit) -> Steps:
    """The public simulator of 2026: every index tuple of factors and shape, in row-major order."""
    factors = list(u.p["repeat"])
    while (token := (yield from u.head(u.ins[0]))) is not CLOSED:
        held = token.payload["tiles"]
        inner = list(u.p.get("shape", [])) or list(token.payload["buffer"])
        places = walk(inner, list(u.p["stride"])) if u.p.get("shape") else list(range(len(held)))
        dims = factors + inner
        for i, level in enumerate(linear_levels(dims)):
            place = places[i % len(places)]
            if place >= len(held):
                raise Abort(f"unit {u.name}: tile {place} of a buffer of {len(held)}")
            shown = len(dims) + token.level if i == prod(dims) - 1 else level
            yield from u.emit(u.outs[0], held[place], shown)
            u.add(1)
        yield from u.take(u.ins[0])


def counter(u: Unit) -> Steps:
    last = 1 if u.p.get("lead", True) else 0
    for value in range(u.p["n"]):
        yield from u.emit(u.outs[0], integer(value), last if value == u.p["n"] - 1 else 0)


def dyn_counter(u: Unit) -> Steps:
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        for value in range(u.p["n"]):
            level = 1 + token.level if value == u.p["n"] - 1 else 0
            yield from u.emit(u.outs[0], integer(value), level)


def flatmap_counter(u: Unit) -> Steps:
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        count = token.payload["value"]
        if count == 0:
            raise Abort(f"unit {u.name}: a length of 0 leaves nothing that could carry a stop")
        for value in range(count):
            level = token.level + 1 if value == count - 1 else 0
            yield from u.emit(u.outs[0], {**token.payload, "value": value}, level)


def dyn_addr_gen(u: Unit) -> Steps:
    shape, slab, base = list(u.p["shape"]), u.p["slab"], u.p["base"]
    while (token := (yield from u.head(u.ins[0]))) is not CLOSED:
        chosen = token.payload.get("selector", [token.payload.get("value", 0)])
        if len(chosen) != 1:
            raise Abort(f"unit {u.name}: expected a one-hot selector, found {chosen}")
        if base + (chosen[0] + 1) * slab > 2**63 - 1:
            raise Abort(f"unit {u.name}: slab {chosen[0]} passes tile 2**63 - 1")
        yield from u.take(u.ins[0])
        places = walk(shape, list(u.p["stride"]))
        for place, level in zip(places, linear_levels(shape), strict=True):
            address = integer(base + chosen[0] * slab + place % slab)
            shown = len(shape) + token.level if level == len(shape) else level
            yield from u.emit(u.outs[0], address, shown)


AFFINE = {
    "StaticStreamify": static_streamify,
    "Counter": counter,
    "DynCounter": dyn_counter,
    "FlatmapCounter": flatmap_counter,
    "DynAddrGen": dyn_addr_gen,
}
