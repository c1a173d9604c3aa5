"""Ways to damage a file: its bytes, its numbers as text, or the data that it says."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["damaged_bytes", "damaged_data", "damaged_text"]

_INTERESTING_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF, 0x0A, 0x22, 0x5B, 0x7B)
_NUMBERS = (
    "0", "-0", "-1", "1", "127", "128", "255", "256", "65535", "65536", "2147483647",
    "2147483648", "4294967296", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "1" + "0" * 39, "9" * 400, "1e308", "1e309", "-1e309", "5e-324", "0.1",
    "1e40", "NaN", "Infinity", "-Infinity", ".nan", ".inf", "0x10", "0b1", "010", "1:30", "1_000",
)  # fmt: skip
_TEXTS = (
    "", " ", "\0", "\n", "\ud800", "é", "a" * 300, "../..", "/dev/null", "~", "null", "true",
    "'", '"', "{", "[", "*a", "<<", "!!int", "🙂", "nan", "1e999",
)  # fmt: skip
_TOKENS = (
    "[" * 60, "{" * 60, "]", "}", "&a ", "*a", "<<: *a", "!!int ''", "!!python/object:x ", "- ",
    ": ", "? ", "\t", "---\n", "...\n", "%YAML 9.9\n", "\\ud800", "\ufeff", "\x00", "\x85", ",",
    "'", '"', "|\n", "#", "null", "{}", "[]", "\r\n", "0x" + "f" * 200, "1" + ":59" * 100,
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**39, 0.0,
    -0.5, 1.5, 1e300, float("inf"), float("-inf"), float("nan"), [], {}, [[]], [None], {"a": 1},
    {"": None}, *_TEXTS,
)  # fmt: skip
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


def damaged_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """``data`` with one to four damages; ``other`` is a valid file to take chunks of."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _BYTE_DAMAGES[rng.randrange(len(_BYTE_DAMAGES))](rng, changed, other)
    return bytes(changed)


def _at(rng: random.Random, data: bytearray) -> int:
    """A place; as often near either end, where headers and footers are, as anywhere."""
    where, size = rng.randrange(3), max(1, len(data))
    if where == 0:
        return rng.randrange(size)
    near = min(size, rng.choice((16, 128, 1024)))
    return rng.randrange(near) if where == 1 else size - 1 - rng.randrange(near)


def _flip_bit(rng: random.Random, data: bytearray, other: bytes) -> None:
    if data:
        data[_at(rng, data)] ^= 1 << rng.randrange(8)


def _set_byte(rng: random.Random, data: bytearray, other: bytes) -> None:
    if data:
        data[_at(rng, data)] = rng.choice((*_INTERESTING_BYTES, rng.randrange(256)))


def _insert(rng: random.Random, data: bytearray, other: bytes) -> None:
    at = _at(rng, data)
    data[at:at] = rng.randbytes(rng.choice((1, 1, 2, 4, 16)))


def _delete(rng: random.Random, data: bytearray, other: bytes) -> None:
    at = _at(rng, data)
    del data[at : at + rng.choice((1, 1, 2, 4, 8, 64))]


def _duplicate(rng: random.Random, data: bytearray, other: bytes) -> None:
    at, size = _at(rng, data), rng.choice((1, 2, 8, 64, 512))
    data[at:at] = data[at : at + size]


def _splice(rng: random.Random, data: bytearray, other: bytes) -> None:
    at, size = _at(rng, data), rng.choice((1, 4, 16, 128))
    begin = rng.randrange(max(1, len(other)))
    data[at : at + rng.choice((0, size))] = other[begin : begin + size]


def _integer(rng: random.Random, data: bytearray, other: bytes) -> None:
    """Replace what may be a binary number by the bounds of its type."""
    size = rng.choice((2, 4, 8))
    number = rng.choice((0, 1, (1 << 8 * size) - 1, 1 << 8 * size - 1, (1 << 8 * size - 1) - 1))
    at = max(0, min(_at(rng, data), len(data) - size))
    data[at : at + size] = number.to_bytes(size, "little")


def _truncate(rng: random.Random, data: bytearray, other: bytes) -> None:
    del data[_at(rng, data) :]


_BYTE_DAMAGES: tuple[Callable[[random.Random, bytearray, bytes], None], ...] = (
    _flip_bit, _flip_bit, _flip_bit, _set_byte, _insert, _delete, _duplicate, _splice, _integer,
    _truncate,
)  # fmt: skip


def damaged_text(rng: random.Random, text: str) -> str:
    """Text with one to four damages of its numbers, lines and marks."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        choice = rng.randrange(5)
        numbers = list(_NUMBER.finditer(text))
        lines = text.splitlines(keepends=True)
        if choice == 0 and numbers:
            found = rng.choice(numbers)
            text = text[: found.start()] + rng.choice(_NUMBERS) + text[found.end() :]
        elif choice == 1 and lines:
            del lines[rng.randrange(len(lines))]
            text = "".join(lines)
        elif choice == 2 and lines:
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
            text = "".join(lines)
        elif choice == 3 and lines:
            rng.shuffle(lines)
            text = "".join(lines)
        else:
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(_TOKENS) + text[at + rng.choice((0, 0, 1, 5)) :]
    return text


def damaged_data(rng: random.Random, data: Any) -> Any:
    """A copy of plain data with one to three damages of its structure."""
    data = copy.deepcopy(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(data))
        if not places:
            return rng.choice(_VALUES)
        holder, key = rng.choice(places)
        _damage(rng, holder, key, [inner[at] for inner, at in places])
    return data


def _damage(rng: random.Random, holder: Any, key: Any, values: list[Any]) -> None:
    choice = rng.randrange(8)
    if choice == 0:
        del holder[key]
    elif choice == 1:  # another value of the document
        holder[key] = copy.deepcopy(rng.choice(values))
    elif choice == 2 and isinstance(holder, dict):
        holder[rng.choice((*_TEXTS, f"{key}_", str(key)[:-1], str(key).upper()))] = holder.pop(key)
    elif choice == 2:
        holder.insert(key, copy.deepcopy(holder[key]))
    elif choice == 3:
        holder[key] = [holder[key]] * rng.choice((1, 1, 2, 5))
    elif choice == 4:
        for _ in range(rng.choice((1, 2, 45, 300))):
            holder[key] = rng.choice(([holder[key]], {"a": holder[key]}))
    elif choice == 5 and isinstance(holder[key], int | float):
        holder[key] = rng.choice((-holder[key], holder[key] + 1, holder[key] * 2, holder[key] / 3))
    else:
        holder[key] = copy.deepcopy(rng.choice(_VALUES))


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every (list or mapping, index or key) of a document."""
    keys: list[Any] = []
    if isinstance(data, dict):
        keys = list(data)
    elif isinstance(data, list):
        keys = list(range(len(data)))
    for key in keys:
        yield data, key
        yield from _places(data[key])
