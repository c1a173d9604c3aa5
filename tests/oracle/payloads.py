"""Payloads in JSON notation, and the arithmetic on them that the timing rules use.

``{"tile": [R, C, bpe, rd, off]}`` (plus ``"value"`` for integer tiles), ``{"selector": [indices],
"width": N, "rd": rd}``, ``{"buffer": dims, "tiles": [...]}``, ``{"tuple": [first, second]}``,
``{"ack": True}``. Payloads are never changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod

from tests.oracle.fabric import Abort, Payload

__all__ = [
    "ceil_div",
    "integer",
    "linear_levels",
    "load_cycles",
    "members",
    "nbytes",
    "read_buffer",
    "retag",
    "selector",
    "store_cycles",
    "tile",
]


def ceil_div(a: int, b: int) -> int:
    """``cd(a, b)``: 0 for nothing to do, abort for a rate of zero."""
    if b == 0:
        raise Abort("ceiling division by zero: a bandwidth or request size must be positive")
    return 0 if a == 0 else 1 + (a - 1) // b


def tile(rows: int, cols: int, bpe: float, rd: int, off: int) -> Payload:
    """A tile without content."""
    return {"tile": [rows, cols, bpe, int(rd), off]}


def integer(value: int, rd: int = 0) -> Payload:
    """An address or metadata tile: 1 x 1, 8 bytes, with content."""
    return {"tile": [1, 1, 8, int(rd), 1], "value": value}


def selector(indices: list[int], width: int, rd: int = 0) -> Payload:
    """A multi-hot selector of ``width`` entries."""
    return {"selector": sorted(indices), "width": width, "rd": int(rd)}


def members(x: Payload) -> list[Payload]:
    """The operands in a payload: both halves of a tuple, else the payload itself."""
    return list(x["tuple"]) if "tuple" in x else [x]


def nbytes(x: Payload) -> int:
    """Bytes a payload occupies: padding counts, a selector has one byte per entry."""
    if "tile" in x:
        rows, cols, bpe, _, _ = x["tile"]
        return ceil(rows * cols * bpe)
    if "selector" in x:
        return x["width"]
    if "tuple" in x:
        return sum(nbytes(part) for part in x["tuple"])
    return 0


def _lies_in_memory(x: Payload) -> bool:
    if "tile" in x:
        return bool(x["tile"][3])
    return bool(x.get("rd", 0))


def load_cycles(x: Payload, bandwidth: int) -> int:
    """``ld(x)``; the two members of a tuple are loaded one after the other."""
    if "tuple" in x:
        return sum(load_cycles(part, bandwidth) for part in x["tuple"])
    return ceil_div(nbytes(x), bandwidth) if _lies_in_memory(x) else 0


def store_cycles(x: Payload, bandwidth: int, write_back: bool) -> int:
    """``cd(bytes(x), BW)`` if the operator writes back, else 0."""
    return ceil_div(nbytes(x), bandwidth) if write_back else 0


def retag(x: Payload, write_back: bool) -> Payload:
    """A copy whose ``rd`` flag is the routing operator's write-back attribute.

    That of a tuple is in its members. Buffers lie on chip anyway, and an acknowledgment nowhere.
    """
    if "tile" in x:
        rows, cols, bpe, _, off = x["tile"]
        return {**x, "tile": [rows, cols, bpe, int(write_back), off]}
    if "tuple" in x:
        return {"tuple": [retag(part, write_back) for part in x["tuple"]]}
    return {**x, "rd": int(write_back)} if "selector" in x else x


def linear_levels(dims: list[int]) -> Iterator[int]:
    """Level of each element, row-major: the trailing dims of which it is the last element."""
    for i in range(prod(dims)):
        level, rest = 0, i
        for extent in reversed(dims):
            if rest % extent != extent - 1:
                break
            level += 1
            rest //= extent
        yield level


def read_buffer(buffer: Payload) -> Iterator[tuple[Payload, int]]:
    """One linear read: each element with its level; the last one has the buffer's rank."""
    yield from zip(buffer["tiles"], linear_levels(buffer["buffer"]), strict=True)
