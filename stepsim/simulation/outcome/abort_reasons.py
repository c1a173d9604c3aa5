"""Sentences for the abort codes of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stepsim.graph import Function
from stepsim.kernels import MAX_TILE_SIDE, Abort, Payload

_PAYLOADS: Final = {payload.value: payload.name.lower() for payload in Payload}


def _shape(packed: int) -> str:
    rows, cols = divmod(packed, 2 * MAX_TILE_SIDE)
    return f"{rows}x{cols}"


def _unequal(side: int, found: int, expected: int, fn: Function | None) -> str:
    """A side of an operand or a result of a function that contradicts the other sides."""
    if fn is None:
        return (
            f"side {side} of its function is {found}, but the other sides require {expected}; "
            "sides count from 0, rows and columns of each operand and then of each result"
        )
    shape = fn.shape
    tiles = (*shape.operands, *shape.results)
    polynomial = tiles[side // 2][side % 2]
    letter = polynomial.letter
    other = str(expected) if polynomial.constant is not None else f"{polynomial} = {expected}"
    if letter is not None and shape.sides.get(letter, side) != side:
        other = f"{_side_name(shape.sides[letter], fn)} = {expected}, which is {letter} too"
    held = side // 2 < shape.states
    return (
        f"{fn} ('{shape.text.lstrip('; ')}'): {_side_name(side, fn)} = {found}, but must be equal "
        f"to {other}; give {'init= a state of that size' if held else 'it tiles that fit'}"
    )


def _side_name(side: int, fn: Function) -> str:
    number, states = side // 2, fn.shape.states
    if number < states:
        tile = f"state {number + 1}"
    elif number < fn.arity:
        tile = f"operand {number - states + 1}"
    else:
        tile = f"result {number - fn.arity + 1}"
    return f"{('rows', 'columns')[side % 2]} of {tile}"


def abort_reason(
    code: int, a: int, b: int, fifos: tuple[str, ...], fn: Function | None = None
) -> str:
    """What went wrong, with the numbers or FIFOs that the unit recorded.

    ``fn`` is the unit's function of tiles, where it is known.
    """

    def fifo(index: int) -> str:
        return f"'{fifos[index]}'" if 0 <= index < len(fifos) else "?"

    sentences: dict[Abort, Callable[[], str]] = {
        Abort.CONSUMER_GONE: lambda: (
            f"it sends on {fifo(a)}, whose consumer has already ended; the stream is longer "
            "than its consumer expects (more data than selectors?)"
        ),
        Abort.ONE_INPUT_CLOSED: lambda: (
            f"input {fifo(a)} ended while {fifo(b)} still has tokens; both must have the same shape"
        ),
        Abort.LEVELS_DIFFER: lambda: (
            f"its inputs carry stop levels {a} and {b}; both streams must have the same shape"
        ),
        Abort.LEVEL_NOT_ALLOWED: lambda: (
            f"a token carries stop level {a} where {b} is expected; check the rank of the operator"
        ),
        Abort.NOT_ONE_HOT: lambda: f"a selector has {a} set entries; addresses need exactly one",
        Abort.EMPTY_SELECTION: lambda: "a selector selects no input; at least one is needed",
        Abort.EMPTY_INNER: lambda: (
            f"a length of {a} makes an empty inner dim, which a stream of fused stops cannot "
            "express; lengths must be at least 1"
        ),
        Abort.REFERENCE_CLOSED: lambda: (
            f"reference {fifo(a)} ended before the data did; both must have the same outer shape"
        ),
        Abort.NEEDS_PAD: lambda: (
            f"a vector ends after {a} of {b} elements of a chunk and there is no pad; give pad=0"
        ),
        Abort.DATA_CLOSED: lambda: (
            f"data {fifo(a)} ended while a selector still asks for it; more selectors than data"
        ),
        Abort.BUFFER_OPEN: lambda: (
            f"the stream ended inside a buffer of {a} tiles; stop level {b} never came"
        ),
        Abort.BUFFER_RAGGED: lambda: (
            f"{a} tiles do not form a rectangular buffer of rank {b}; inner dims must be regular"
        ),
        Abort.TILE_SHAPE: lambda: f"a tile of {a}x{b} arrived; the store declares another shape",
        Abort.ELEMENT_WIDTH: lambda: f"element widths differ: {a} and {b} bits",
        Abort.INNER_DIMS: lambda: _unequal(*divmod(a, 2 * MAX_TILE_SIDE), b, fn),
        Abort.NEGATIVE: lambda: (
            f"its function makes a {'cost' if b else 'tile side'} of {a} for tiles of these sizes; "
            "it must not be negative"
        ),
        Abort.NOT_BROADCASTABLE: lambda: f"tiles {_shape(a)} and {_shape(b)} cannot be broadcast",
        Abort.NO_ROOM: lambda: f"no room for another row: {a} of {b} rows are valid",
        Abort.TILE_TOO_LARGE: lambda: f"a tile side grew to {a}; up to {b} is supported",
        Abort.PAYLOAD: lambda: (
            f"a token carries a {_PAYLOADS.get(a, a)}; this operator cannot take it"
        ),
        Abort.PARTLY_VALID: lambda: (
            f"a tile with {a} of {b} valid rows cannot be packed, its padding would lie "
            "between rows; drop the padding first"
        ),
        Abort.OFFSET_RANGE: lambda: f"{a} rows cannot be valid in a tile of {b} rows",
        Abort.TOO_MUCH_WORK: lambda: (
            f"its FLOPs passed 2**62 in firing {a}; split the program or its tiles"
        ),
        Abort.NO_LAST_TILE: lambda: (
            f"a request of length {a} has no last tile; lengths must be at least 1"
        ),
        Abort.ADDRESS_RANGE: lambda: (
            f"the tiles of request {a}, of {b} tiles each, pass tile 2**63 - 1; check the index "
            "and the stride"
        ),
        Abort.NUMBER_RANGE: lambda: (
            f"its function makes a number below 0 or above 2**63 - 1 of {a} and {b}"
        ),
        Abort.GROUP_LENGTH: lambda: (
            f"a group ends after {a} elements, its counter says {b}; both must agree"
        ),
        Abort.SELECTOR_VALUE: lambda: (
            f"the number {a} names no selector of its function, which has {b} of them"
        ),
        Abort.BUFFER_RANGE: lambda: f"the walk reaches tile {a} of a buffer of {b} tiles",
        Abort.GROUP_OPEN: lambda: (
            f"the stream ends after {a} of {b} elements of a group; every lane needs one"
        ),
        Abort.MASK_ROWS: lambda: f"a mask of {a} flags came for a tile of {b} rows",
        Abort.TOO_MANY_PIECES: lambda: f"a size of {a} asks for more than {b} pieces along one dim",
        Abort.SELECTOR_WIDTH: lambda: f"a selector of width {a} steers {b} outputs",
    }
    return sentences[Abort(code)]()
