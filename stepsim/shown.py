"""Values in messages: short, and written without an error whatever they are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

__all__ = ["shown"]

_PRINTED_BITS = 256
_PRINTED_LETTERS = 200


def shown(value: object, write: Callable[[Any], str] = repr) -> str:
    """``repr`` for a message, or what ``write`` makes; long values are cut or given by their size.

    Numbers of more than 4,300 digits, which Python does not write out, lists too deep for its
    recursion, and objects whose own ``repr`` fails are described instead.
    """
    if isinstance(value, int) and value.bit_length() > _PRINTED_BITS:
        return f"a number of {value.bit_length()} bits"
    try:
        text = write(_beginning(value))
    except Exception as error:  # of a foreign object, which may raise anything
        kind = type(value).__name__
        if isinstance(error, RecursionError):
            return f"a {kind} that is nested too deep to be printed"
        return f"a {kind} that cannot be printed"
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= _PRINTED_LETTERS else f"{text[:_PRINTED_LETTERS]}..."


def _beginning(value: Any) -> Any:
    """As much of a value as a message has room for: a table of a million rows takes a second."""
    if type(value) in (str, bytes, bytearray, list, tuple):
        return value[: _PRINTED_LETTERS + 1]
    if type(value) is dict and len(value) > _PRINTED_LETTERS:
        return dict(islice(value.items(), _PRINTED_LETTERS))
    return value
