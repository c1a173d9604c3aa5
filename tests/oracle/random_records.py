"""Random functions given as records, and growth rules for the units that apply them.

Records are drawn for the shapes that arrive; whatever does not fit them is dropped when the grower
evaluates it. Sides of results grow by sums only, so that no chain of accumulations explodes.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.oracle.fabric import Payload
from tests.oracle.random_grower import Grower
from tests.oracle.random_streams import BANDWIDTHS, Wire

__all__ = ["record_accum", "record_map", "record_map_accum", "record_scan"]

Shape = tuple[int, int]

_OF_TWO = ["add", "sub", "mul", "max", "min", "eq", "ne", "lt", "le"]

_TRIES = 4
"""Records drawn for one place until one fits what arrives there."""


def _flat(payload: Payload) -> list[Payload]:
    if "tuple" not in payload:
        return [payload]
    return [part for member in payload["tuple"] for part in _flat(member)]


def _shapes(wire: Wire) -> list[Shape] | None:
    """Shapes of the operands that every token of the wire carries; None if they vary."""
    found = {
        tuple(tuple(part.get("tile", (0, 0))[:2]) for part in _flat(payload))
        for payload in wire.payloads
        if all("tile" in part for part in _flat(payload))
    }
    if len(found) != 1 or not wire.exact:
        return None
    return [(rows, cols) for rows, cols in found.pop()]


def _polynomial(g: Grower, sides: int, terms: int, factors: int) -> list[Any]:
    drawn = []
    for _ in range(g.integer(0, terms)):
        chosen = [g.integer(0, sides - 1) for _ in range(g.integer(0, factors))]
        drawn.append([g.pick([1, 2, 5, 3, 1, 2, 4, -1]) if chosen else g.integer(0, 9), chosen])
    return drawn


def _is(side: int) -> list[Any]:
    return [[1, [side]]]


class _Draft:
    """A record for operands of known sides."""

    def __init__(self, g: Grower, w: Wire, shapes: list[Shape], states: int) -> None:
        self.g, self.states, self.n = g, states, len(shapes)
        # Tiles of 8 bytes per element are numbers, which other units expect to be 1x1.
        tiles = [part["tile"] for payload in w.payloads for part in _flat(payload)]
        self.numbers = any(tile[2] == 8 for tile in tiles)
        self.sides = [side for shape in shapes for side in shape]

    def operand(self) -> int:
        return self.g.integer(0, self.n - 1)

    def side(self) -> int:
        return self.g.integer(0, 2 * self.n - 1)

    def rule(self, parity: int) -> dict[str, Any]:
        """Rows or columns of a result, by a random rule."""
        g = self.g
        kind = g.pick(["side", "broadcast", "constant", "sum", "broadcast"])
        if kind == "side":
            return {"poly": _is(self.side())}
        if kind == "constant":
            return {"poly": [[g.pick([1, 4, 8]), []]]}
        if kind == "sum":
            return {"poly": [*_is(self.side()), [g.pick([1] * 7 + [-1]), [self.side()]]]}
        first = 2 * self.operand() + parity
        fitting = [
            2 * i + parity
            for i in range(self.n)
            if 1 in (self.sides[2 * i + parity], self.sides[first])
            or self.sides[2 * i + parity] == self.sides[first]
        ]
        listed = g.draw(st.lists(st.sampled_from(fitting), max_size=3))
        return {"broadcast": [first, *listed]}

    def valid(self) -> list[Any]:
        g = self.g
        often = ["first", "max", "rows"] * 3
        name = g.pick([*often, "sum", "append", "packed", "value", "slice"])
        if name in ("first", "max", "sum"):
            return [name, [self.operand() for _ in range(g.integer(1, 3))]]
        if name in ("append", "packed"):
            return [name, self.operand(), self.operand()]
        if name == "slice":
            return [name, self.operand(), g.integer(0, 3)]
        return [name] if name == "rows" else [name, self.operand()]

    def result(self, j: int) -> dict[str, Any]:
        g = self.g
        if j < self.states and not g.pick([False, False, True]):  # of the shape of its state
            rows, cols = {"poly": _is(2 * j)}, {"poly": _is(2 * j + 1)}
        else:
            rows, cols = self.rule(0), self.rule(1)
        bits: Any = ["operand", self.operand()]
        if self.numbers or g.pick([False, False, True]):
            bits = g.pick([8, 32])
        value = None
        if g.pick([False] * 7 + [True]):  # a number
            rows = cols = {"poly": [[1, []]]}
            stride = g.integer(1, 4)
            value = g.pick([
                ["constant", 3], ["keep", self.operand()],
                [g.pick(["equal", "plus", "minus", "times"]), self.operand(), g.integer(0, 2)],
                ["divided", self.operand(), stride],
                [g.pick(_OF_TWO), self.operand(), self.operand()],
                ["select", self.operand(), self.operand(), self.operand()],
                ["address", self.operand(), self.operand(), stride],
            ])  # fmt: skip
            bits = 64
        return {
            "rows": rows, "cols": cols, "valid": self.valid(), "bits": bits, "value": value,
            "rd": ["operand", self.operand()]
            if self.n - self.states == 1 and g.pick([False, False, True])
            else None,
        }  # fmt: skip

    def check(self, sides: int) -> list[Any]:
        """A check, which holds more often than not."""
        side = self.side()
        equal = [i for i, length in enumerate(self.sides) if length == self.sides[side]]
        if self.g.pick([True, True, True, True, False]):
            return [side, _is(self.g.pick(equal))]
        other = self.g.integer(0, sides - 1)
        return self.g.pick([[side, [[self.sides[side], []]]], [other, _is(side)]])

    def record(self) -> dict[str, Any]:
        g = self.g
        results = [self.result(j) for j in range(self.states or g.pick([1, 1, 2, 3]))]
        sides = 2 * (self.n + len(results))
        adopts = []
        if self.states and g.flag():
            state, when = g.integer(0, self.states - 1), g.pick(["any", "both", "rows", "cols"])
            adopts = [[state, _is(self.side()), _is(self.side()), when]]
        pairs = [[self.operand(), self.operand()] for _ in range(g.pick([0, 0, 1]))]
        return {
            "name": "drawn", "operands": self.n, "states": self.states,
            "checks": [self.check(sides) for _ in range(g.pick([0, 1, 0, 2]))],
            "same_bits": pairs, "adopts": adopts, "results": results,
            "flops": _polynomial(g, sides, 2, 2), "cycles": _polynomial(g, sides, 1, 1),
        }  # fmt: skip


def _params(g: Grower, record: dict[str, Any]) -> dict[str, Any]:
    rates = BANDWIDTHS if record["flops"] else [0, *BANDWIDTHS]
    return {"fn": record, "bw": g.pick(rates), "wb": g.flag()}


def _kind(record: dict[str, Any]) -> str:
    if len(record["results"]) > 1:
        return "tuple"
    return "int" if record["results"][0]["bits"] == 64 else "float"


def _mates(g: Grower, w: Wire, shapes: list[Shape], count: int) -> tuple[list[Wire], list[Shape]]:
    """Streams of the wire's levels, in tiles whose sides often fit its own."""
    mates, of_mates = [], []
    for _ in range(count):
        rows, cols = g.pick(shapes)
        shape = g.pick([(rows, cols), (rows, 1), (1, cols), (cols, rows), (4, 8)])
        mates.append(g.fresh("float", w.levels, shapes=[shape] * len(w.levels)))
        of_mates.append(shape)
    return mates, of_mates


def record_map(g: Grower, w: Wire) -> bool:
    """A map of the wire, and of as many new streams as are drawn."""
    shapes = _shapes(w)
    if shapes is None:
        return False
    mates, of_mates = _mates(g, w, shapes, g.pick([2, 0, 1, 3]))
    op = {0: "UnaryMap", 1: "BinaryMap"}.get(len(mates), "NaryMap")

    def draw() -> bool:
        record = _Draft(g, w, shapes + of_mates, 0).record()
        return bool(g.add(op, _params(g, record), [w, *mates], [_kind(record)]))

    return any(draw() for _ in range(_TRIES))


def _reduction(g: Grower, w: Wire, op: str, mates: int) -> bool:
    shapes = _shapes(w)
    if shapes is None:
        return False
    others, of_others = _mates(g, w, shapes, mates)
    elements = shapes + of_others
    initial = [
        g.pick([shape, (0, shape[1]), (shape[0], 1), (0, 0), (shape[0], 0)])
        for shape in (g.pick(elements) for _ in range(g.integer(1, 3)))
    ]
    more = {"rank": g.integer(1, max(1, w.top)), "init": [[*shape, g.bpe] for shape in initial]}

    def draw() -> bool:
        record = _Draft(g, w, initial + elements, len(initial)).record()
        return bool(g.add(op, _params(g, record) | more, [w, *others], [_kind(record)]))

    return any(draw() for _ in range(_TRIES))


def record_accum(g: Grower, w: Wire) -> bool:
    return _reduction(g, w, "Accum", 0)


def record_scan(g: Grower, w: Wire) -> bool:
    return _reduction(g, w, "Scan", 0)


def record_map_accum(g: Grower, w: Wire) -> bool:
    return _reduction(g, w, "BinaryMapAccum", 1)
