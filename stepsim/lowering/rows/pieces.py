"""The generic FlatMap: sizes of pieces as polynomials in the sides of a tile."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from stepsim.errors import ArgError
from stepsim.graph import PIECE_WORDS, PieceSize, Polynomial, piece_size
from stepsim.kernels import INFINITY
from stepsim.kernels.units import flatmaps
from stepsim.lowering.rows.row import Parameters, refused

if TYPE_CHECKING:
    from stepsim.lowering.builder import ImageBuilder
    from stepsim.lowering.network import UnitSpec

_PLACES: Final = {word: place for place, word in enumerate(PIECE_WORDS)}


def _size(spec: UnitSpec, entry: int | str) -> PieceSize:
    if not isinstance(entry, str):
        return PieceSize(Polynomial.of(times=int(entry)))
    try:
        return piece_size(entry)
    except ArgError as error:
        raise refused(spec, str(error)) from error


def _words(size: PieceSize) -> list[int]:
    words = [size.divisor, len(size.top.terms)]
    for number, variables in size.top.terms:
        words += [number, len(variables), *(_PLACES[word] for word in variables)]
    return words


def encode_flat_map(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    rows, cols = (_size(spec, side) for side in spec.params["tile"])
    dims = [_size(spec, dim) for dim in spec.params["dims"]]
    streams = 2 if any("length" in dim.top.variables() for dim in dims) else 1
    if len(spec.inputs) != streams:
        raise refused(
            spec,
            f"{len(spec.inputs)} inputs, expected {streams}: the second one "
            "has the 'length' among the dims",
        )
    largest = prod(dim.top.constant or 1 for dim in dims)
    if largest >= INFINITY:
        raise refused(spec, f"up to {largest} pieces per token; fewer than 2**62 can be counted")
    builder.private_words(flatmaps.SIDES + 2 + len(dims))
    return {
        "cycles": int(spec.params.get("cycles", 0)),
        "size_count": 2 + len(dims),
        "sizes": [word for size in (rows, cols, *dims) for word in _words(size)],
    }
