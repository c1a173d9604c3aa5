"""The rule of a user's stream function: number and sizes of the pieces of every tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from stepsim.arguments import Range, shown
from stepsim.errors import ArgError, DimError
from stepsim.graph.functions.piece_size import PIECE_WORDS, PieceSize, piece_size, size_in_words
from stepsim.graph.operator import Output, Site
from stepsim.graph.ops.flat_map.pieces import float_tile, split_count
from stepsim.graph.sizes.dims import Dim, total_over
from stepsim.graph.sizes.limits import COUNT, CYCLES, MAX_PIECES, TILE_SIDE
from stepsim.graph.sizes.shapes import cardinality
from stepsim.graph.sizes.sizes import Size, divided, product
from stepsim.graph.types import Tile

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream


def takes_lengths(dims: Sequence[int | str]) -> bool:
    """Whether a second stream gives the number of pieces."""
    return any(isinstance(d, str) and "length" in piece_size(d).top.variables() for d in dims)


def _emit(site: Site, xs: Sequence[Stream], params: dict[str, Any]) -> Output:
    x, *lengths = xs
    dims, tile = params["dims"], params["tile"]
    if lengths:
        length = lengths[0]
        site.require_type(
            isinstance(length.type, Tile) and length.type.is_address,
            "in2", length, "1x1 tiles of u32 or u64",
        )  # fmt: skip
        site.same_dims(x.shape, length.shape, "in1", "in2")
    own = float_tile(site, x)

    def of_word(word: str) -> Dim:
        if word == "length":
            return site.owner.length_of(lengths[0])
        if word == "valid" and x.padding is not None:
            why = f"valid rows per tile of {x!r}"
            return site.owner.namer.ragged("v", why, bound=own.rows.most, span=x.cardinality())
        return own.cols if word == "cols" else own.rows

    formulas: dict[str, Dim] = {}

    def size(entry: int | str) -> Dim:
        if not isinstance(entry, str):
            return Dim(entry)
        if entry in PIECE_WORDS:
            return of_word(entry)
        if entry not in formulas:
            formulas[entry] = _formula(site, x, entry, of_word)
        return formulas[entry]

    sizes = [size(d) for d in dims]
    known = math.prod(int(d) for d in sizes if d.is_static)
    site.require(
        known <= MAX_PIECES,
        ArgError,
        f"emit with dims {list(dims)} cuts a tile into {shown(known)} pieces or more; "
        f"2**{MAX_PIECES.bit_length() - 1} are the most",
        "emit fewer pieces from each tile",
    )
    outer = split_count(site, x, sizes[0])
    inner = [_piece_dim(site, x, sizes[:i], d) for i, d in enumerate(sizes) if i]
    shape = (*x.shape[:-1], outer, *inner)
    sides = [size(entry) for entry in tile]
    for entry, side in zip(tile, sides, strict=True):
        site.require(
            not side.is_static or TILE_SIDE.holds(int(side)),
            ArgError,
            f"emit: the side {entry} of a piece is {side} for {own}, expected {TILE_SIDE.low} to "
            "2**31 - 1",
        )
    made = Tile(own.dtype, *sides)
    if any(d.is_ragged for d in sizes):
        made = made.counted_anew(cardinality(shape), f"pieces of {site.title}")
    return Output(shape, made)


def _formula(site: Site, x: Stream, entry: str, of_word: Callable[[str], Dim]) -> Dim:
    """A formula of sides of the tiles of ``x``."""
    formula = piece_size(entry)
    words = {word: of_word(word) for word in formula.top.variables()}
    if formula.exact:
        _require_divided(site, formula, words)
    if not any(d.is_ragged for d in words.values()):
        value = formula.at({word: d.size for word, d in words.items()})
        site.require(
            not isinstance(value, int) or COUNT.holds(value),
            ArgError,
            f"emit: {entry} is {shown(value)} for {x.type}, expected {COUNT.low} to 2**50",
        )
        return Dim(value)
    return site.owner.namer.ragged(
        "s",
        f"{entry} of the tiles of {x!r}",
        total=_sum_over(formula, words, x.cardinality()),
        bound=formula.at({word: d.most for word, d in words.items()}),
        static=all(d.static for d in words.values()),
        span=x.cardinality(),
    )


def _require_divided(site: Site, formula: PieceSize, words: dict[str, Dim]) -> None:
    """Check that an exact quotient is an integer for every tile, using the known sides."""
    known = {word: d.size for word, d in words.items() if d.is_static}
    rest: dict[tuple[str, ...], Size] = {}
    for number, variables in formula.top.terms:
        unknown = tuple(word for word in variables if word not in known)
        value = product((number, *(known[word] for word in variables if word in known)))
        rest[unknown] = rest.get(unknown, 0) + value
    for unknown, value in rest.items():
        if int(value) % formula.divisor:
            found = " * ".join([*(f"{words[w]}" for w in unknown)]) or "all sides"
            site.fail(
                DimError,
                f"emit: {formula} is not a whole number, or not known to be one, for "
                f"{site.inputs[0].type}: {formula.divisor} does not divide {value}"
                + (f" * {found}" if unknown else ""),
                f"write ceil({formula}) for pieces of which the last may be smaller",
            )


def _sum_over(formula: PieceSize, words: dict[str, Dim], count: Size) -> Size | None:
    """The sum over ``count`` tiles; None if only known at run time."""
    if formula.divisor != 1 and not formula.exact:
        return None
    total: Size = 0
    for number, variables in formula.top.terms:
        ragged = [words[word] for word in variables if words[word].is_ragged]
        if len(ragged) > 1:
            return None
        rest = product((number, *(words[w].size for w in variables if not words[w].is_ragged)))
        one = total_over(ragged[0], count) if ragged else count
        total = total + product((rest, one))
    return divided(total, formula.divisor)


def _piece_dim(site: Site, x: Stream, above: Sequence[Dim], size: Dim) -> Dim:
    """A dim of the pieces of every tile, below the dims ``above`` of them."""
    if not size.is_ragged:
        return size
    total = None
    if not any(d.is_ragged for d in above):
        total = product((total_over(size, x.cardinality()), *(d.size for d in above)))
    return site.owner.namer.ragged(
        str(size.size), f"pieces of {site.title}", total=total, bound=size.most
    )


def _entries(
    what: str, given: object, words: tuple[str, ...], limits: Range
) -> tuple[int | str, ...]:
    """Sizes, each an int within ``limits`` or a formula of ``words``."""
    if not isinstance(given, list | tuple):
        raise ArgError(
            f"{what} must be a list of ints or {', '.join(map(repr, words))}, found {shown(given)}"
        )
    found: list[int | str] = []
    for entry in given:
        size = entry
        if isinstance(entry, str) and entry not in words:
            size = size_in_words(what, entry, words)
        if not isinstance(size, str):
            size = limits.checked(f"an entry of {what}", size)
        found.append(size)
    return tuple(found)


def _dims_of_pieces(what: str, given: object) -> tuple[int | str, ...]:
    found = _entries(what, given, PIECE_WORDS, COUNT)
    if not found:
        raise ArgError(f"{what} must have an entry or more, found {shown(given)}")
    return found


def _sides_of_pieces(what: str, given: object) -> tuple[int | str, ...]:
    found = _entries(what, given, ("rows", "cols"), TILE_SIDE)
    if len(found) != 2:
        raise ArgError(f"{what} must have two entries (rows, columns), found {shown(given)}")
    return found


EMIT_UNIT: Final[
    tuple[
        Callable[[Site, Sequence[Stream], dict[str, Any]], Output],
        dict[str, tuple[str, Callable[[str, object], Any]]],
    ]
] = (
    _emit,
    {
        "dims": ("dims", _dims_of_pieces),
        "tile": ("tile", _sides_of_pieces),
        "cycles": ("cycles", CYCLES.checked),
    },
)
"""The type rule of the unit FlatMap, and its parameters (label and check)."""
