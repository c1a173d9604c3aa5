"""Measured values of the symbols of a program, and the check of its assumptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stepsim.errors import AssumptionError
from stepsim.functional.measure import Sizes, collapsed
from stepsim.functional.values import TileValue, Token
from stepsim.graph import Assumption, Bindings, Dim, Program, Stream, Tile

Measure = Callable[[Stream], "tuple[list[Sizes], list[Token]] | None"]
"""Sizes of every dim, outermost first, and the tokens of a finished stream; else None."""


class Symbols:
    """The value of each symbol: one int, or the sizes of a ragged dim in stream order.

    A symbol gets its value from the first of the streams in which it is a dim by itself.
    """

    def __init__(self, streams: Iterable[Stream], measure: Measure, bindings: Bindings) -> None:
        self._values: dict[Any, int | Sizes] = {}
        for table, indices in bindings.items():
            counts = table.counts_of(indices)
            for index, dim in table.count.known().items():
                self._learn(dim, [counts[index]])
        for stream in streams:
            found = measure(stream) if _has_symbols(stream) else None
            if found is None:
                continue
            for dim, sizes in zip(stream.shape, found[0], strict=True):
                self._learn(dim, sizes)
            for dim, sizes in tile_sides(stream, found[1]):
                self._learn(dim, sizes)

    def _learn(self, dim: Dim, sizes: Sizes) -> None:
        if dim.is_static or not sizes:
            return
        if dim.is_ragged:
            self._put(dim.size, sizes)
            self._put(dim.sum, sum(sizes))
            self._put(dim.most, max(sizes))
        else:
            self._put(dim.size, sizes[0])

    def _put(self, expr: Any, value: int | Sizes) -> None:
        if not isinstance(expr, int) and expr.is_symbol:
            self._values.setdefault(expr, value)

    def value(self, dim: Dim) -> int | Sizes | None:
        """Measured value of a dim; None when it has a symbol that no stream shows."""
        if isinstance(dim.size, int):
            return dim.size
        if dim.is_ragged:
            return self._values.get(dim.size)
        known: dict[Any, int] = {}
        for symbol in dim.size.symbols():
            value = self._values.get(symbol)
            if not isinstance(value, int):
                return None
            known[symbol] = value
        return int(dim.size.value(known))


def streams_of(program: Program) -> list[Stream]:
    """All streams of a program; outputs come before the shapes declared by readers."""
    streams = [s for op in program.operators for s in op.outputs]
    made = {id(s) for s in streams}
    return streams + [s for op in program.operators for s in op.inputs if id(s) not in made]


def _has_symbols(stream: Stream) -> bool:
    tile = stream.type
    sides = (tile.rows, tile.cols) if isinstance(tile, Tile) else ()
    return not all(d.is_static for d in (*stream.shape, *sides))


def tile_sides(stream: Stream, tokens: Iterable[Token]) -> list[tuple[Dim, Sizes]]:
    """Rows and columns of the tiles of a stream, with their measured sizes."""
    tile = stream.type
    if not isinstance(tile, Tile):
        return []
    tiles = [t.payload for t in tokens if isinstance(t.payload, TileValue)]
    return [(tile.rows, [t.rows for t in tiles]), (tile.cols, [t.cols for t in tiles])]


def _agree(left: int | Sizes, right: int | Sizes) -> bool:
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return left == right
    a, b = (set(v) if isinstance(v, list) else {v} for v in (left, right))
    return a == b and len(a) == 1


def _shown(dim: Dim, value: int | Sizes) -> str:
    measured = collapsed(value) if isinstance(value, list) else value
    text = f"[{', '.join(map(str, measured))}]" if isinstance(measured, tuple) else str(measured)
    return text if str(dim) == text else f"{dim} = {text}"


def broken_assumption(
    assumptions: Iterable[Assumption], symbols: Symbols
) -> tuple[AssumptionError | None, list[str]]:
    """The first assumption that does not hold, and those that no stream of the run decides."""
    undecided: list[str] = []
    for stated in assumptions:
        left, right = symbols.value(stated.left), symbols.value(stated.right)
        if left is None or right is None:
            undecided.append(f"{stated.text} ({stated.source})")
        elif not _agree(left, right):
            return AssumptionError(
                f"the assumption '{stated.text}' does not hold: "
                f"{_shown(stated.left, left)}, {_shown(stated.right, right)} in this run. Drop it, "
                f"or correct the inputs that it is about ({stated.source})"
            ), undecided
    return None, undecided


def contradictions(program: Program, measure: Measure, symbols: Symbols) -> list[str]:
    """Outputs whose measured dims or tile sides differ from the declared ones."""
    found: list[str] = []
    for op in program.operators:
        for stream in op.outputs:
            seen = measure(stream)
            if seen is None:
                continue
            dims = list(zip(stream.shape, seen[0], strict=True))
            for dim, sizes in [*dims, *tile_sides(stream, seen[1])]:
                declared = None if dim.is_ragged else symbols.value(dim)
                wrong = {s for s in sizes if s != declared} if declared is not None else set()
                if wrong:
                    found.append(f"{stream!r}: {dim} is {declared}, measured {sorted(wrong)}")
    return found
