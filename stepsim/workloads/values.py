"""The types that a parameter can have: how its values are read, checked and stored in columns."""

from __future__ import annotations

import math
import operator
import re
import types
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal, Union, get_args, get_origin

from stepsim.arguments import is_whole, shown
from stepsim.errors import ArgError, did_you_mean

_SEPARATORS = "+,"
_LEAST, MOST_WHOLE = 1, 1 << 40
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class Kind:
    """The values that a parameter takes: a union of plain types and words.

    Attributes
    ----------
    words : literal texts.
    optional : whether None is among the values.
    least, most : range of its numbers; whole numbers have a default range.
    """

    def __init__(self, parts: Sequence[Any], least: float | None, most: float | None) -> None:
        self.words = tuple(part for part in parts if isinstance(part, str))
        self.optional = type(None) in parts
        self._types = [part for part in parts if not isinstance(part, str)]
        if float in self._types:
            # Whole numbers are treated as floats there; otherwise 3 and 3.0 would be two values.
            self._types = [part for part in self._types if part is not int]
        whole = self.is_whole
        self.least = _LEAST if least is None and whole else least
        self.most = MOST_WHOLE if most is None and whole else most
        self._read_by = next((part for part in self._types if hasattr(part, "parse")), None)

    @property
    def is_flag(self) -> bool:
        return bool in self._types

    @property
    def is_whole(self) -> bool:
        """Whether its numbers are whole."""
        return int in self._types or tuple in self._types

    @property
    def is_number(self) -> bool:
        """Whether numbers are among the values."""
        return self.is_whole or float in self._types

    @property
    def column_type(self) -> str:
        """Arrow type of a column of such values."""
        names = {int: "int64", float: "float64", bool: "bool"}
        found = [names.get(one, "string") for one in self._types if one is not type(None)]
        return found[0] if len(found) == 1 and not self.words else "string"

    @property
    def metavar(self) -> str:
        """The placeholder of a value in help."""
        if self._read_by is not None:
            return str(getattr(self._read_by, "metavar", self._read_by.__name__.upper()))
        parts = list(self.words)
        if int in self._types:
            parts.insert(0, "N")
        if float in self._types:
            parts.insert(0, "X")
        if tuple in self._types:
            parts.insert(0, "N+N")
        return "|".join(parts) or "TEXT"

    def of_text(self, text: str) -> Any:
        """The value of a text on the command line.

        Raises
        ------
        ValueError : it is not one of the values; the message has the expectation.
        """
        if text in self.words:
            return text
        if self._read_by is not None:
            return self._by_class(text)
        for kind in self._types:
            try:
                if kind is int:
                    return self._in_range(int(text), _Text(text))
                if kind is float:
                    return self._real(float(text), _Text(text))
                if kind is bool:
                    return self._flag(text)
                if kind is tuple:
                    parts = _parts(text)
                    return tuple(self._in_range(int(part), _Text(text)) for part in parts)
            except _OutOfRange:
                raise
            except ValueError:
                continue
        if str in self._types:
            return text
        raise ValueError(self._refusal_text(_Text(text)))

    def of_value(self, value: Any) -> Any:
        """The value of a Python object or YAML scalar; raises as `of_text` does."""
        if value is None and self.optional:
            return None
        if isinstance(value, str) and value in self.words:
            return value
        if self._read_by is not None:
            return self._by_class(value)
        if _is_flag(value):
            if bool in self._types:
                return bool(value)
        elif isinstance(value, str):
            if str in self._types:
                return value
            if tuple in self._types:
                return self.of_text(value)
        elif isinstance(value, (list, tuple)):
            if tuple in self._types and value and all(_whole(one) is not None for one in value):
                return tuple(self._in_range(operator.index(one), value) for one in value)
        elif (number := _whole(value)) is not None and int in self._types:
            return self._in_range(number, value)
        elif isinstance(value, Real) and float in self._types:
            return self._real(value, value)
        raise ValueError(self._refusal_text(value))

    def _by_class(self, value: Any) -> Any:
        assert self._read_by is not None
        try:
            return self._read_by.parse(value)
        except ArgError as error:
            raise ValueError(str(error)) from None
        except Exception as error:
            raise ValueError(
                f"{self._read_by.__name__}.parse raised {type(error).__name__}: {error}; let it "
                f"raise ArgError for values that it cannot read, found {shown(value)}"
            ) from error

    @staticmethod
    def _flag(text: str) -> bool:
        low = text.lower()
        if low not in (*_TRUE, *_FALSE):
            raise ValueError
        return low in _TRUE

    def _in_range(self, number: int, found: Any) -> int:
        if not self._is_within(number):
            raise _OutOfRange(self._refusal_text(found, bounded=number > (self.least or 0)))
        return number

    def _real(self, value: Any, found: Any) -> float:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not ((math.isfinite(number) or number == self.most) and self._is_within(number)):
            raise _OutOfRange(self._refusal_text(found))
        return number

    def _is_within(self, number: float) -> bool:
        return (self.least is None or self.least <= number) and (
            self.most is None or number <= self.most
        )

    def _refusal_text(self, found: Any, *, bounded: bool = False) -> str:
        bare = not isinstance(found, str) or (isinstance(found, _Text) and _is_number(found))
        text = shown(found, str if bare else lambda given: f"'{given}'")
        near = ""
        if isinstance(found, str) and self.words:
            near = did_you_mean(found, self.words)
            near = "" if near == "." else near
        return f"expected {self.described(bounded=bounded)}, found {text}{near}"

    def described(self, *, bounded: bool = False) -> str:
        """The values in words."""
        low = "" if self.least is None else f" from {self.least}"
        high = "" if self.most in (None, math.inf) else f" to {_power(self.most)}"
        top = high if bounded else ""
        texts = {
            int: f"a whole number{low}{top}",
            float: f"a number{low}{high}",
            bool: "true or false",
            str: "a text",
            tuple: f"whole numbers{low}{top} joined by +, for example 64+16",
        }
        if self._read_by is not None:
            return f"a value of type {self._read_by.__name__}"
        parts = [texts[kind] for kind in self._types if kind in texts]
        if len(self.words) > 1 and not parts:
            return f"one of {', '.join(self.words)}"
        return ", or ".join([*parts, *(f"'{word}'" for word in self.words)])


class _OutOfRange(ValueError):
    """A number that is out of range."""


class _Text(str):
    """A value from the command line, where numbers are texts as well."""

    __slots__ = ()


_BYTES = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30,
}  # fmt: skip


def plain_bytes(text: str) -> str:
    """``41MB`` as ``41000000``; another text as it is.

    Raises
    ------
    ValueError : a number has another unit; the text says what is expected.
    """
    match = re.fullmatch(r"\s*([\d.]+(?:[eE]\d+)?)\s*([A-Za-z]+)\s*", text)
    if match is None:
        return text
    number, unit = match.groups()
    try:
        return str(int(float(number) * _BYTES[unit.upper()]))
    except (KeyError, ValueError, OverflowError):
        raise ValueError(
            f"expected bytes, as in 41MB, 512KiB or 1000000, found '{text}'; units are "
            f"{', '.join(_BYTES)}"
        ) from None


def plain_share(text: str) -> str:
    """``1%`` as ``0.01``, the same number as if it were written so; another text as it is."""
    match = re.fullmatch(r"\s*([-+]?[\d.]+)(?:[eE]([-+]?\d+))?\s*%\s*", text)
    try:
        return text if match is None else str(float(f"{match[1]}e{int(match[2] or 0) - 2}"))
    except ValueError:
        return text


def split_target(text: str) -> tuple[str | None, str]:
    """File and name in it of ``folder/gemm.py:gemm``; None and the text if no file is named.

    The name is empty if left out. Folders may have colons in their names. A graph file,
    ``folder/graph.pb``, is one program without a name.
    """
    if text.endswith((".py", ".pb")):
        return text, ""
    file, colon, attribute = text.rpartition(".py:")
    return (f"{file}.py", attribute) if colon else (None, text)


def kind_of(hint: Any, least: float | None, most: float | None, where: str) -> Kind:
    """The `Kind` of an annotation.

    Raises
    ------
    ArgError : a parameter cannot have this type or this range; ``where`` names the parameter.
    """
    parts: list[Any] = []
    for part in _alternatives(hint):
        if get_origin(part) is Literal:
            parts += get_args(part)
        elif get_origin(part) is tuple and get_args(part) == (int, ...):
            parts.append(tuple)
        elif part in (int, float, bool, str, type(None)) or hasattr(part, "parse"):
            parts.append(part)
        else:
            raise ArgError(
                f"{where}: expected an annotation of int, float, bool, str, Literal of texts, "
                f"tuple[int, ...], None, or a class with a method parse, found {part!r}"
            )
    if not all(isinstance(part, (str, type)) for part in parts):
        raise ArgError(f"{where}: expected texts in Literal, found {parts}")
    if bool in parts and not {bool, type(None)}.issuperset(parts):
        raise ArgError(
            f"{where}: expected bool alone, since it is a flag on the command line, found {hint}; "
            "use two parameters, or words in Literal"
        )
    kind = Kind(parts, least, most)
    _check_range(kind, least, most, where)
    return kind


def _check_range(kind: Kind, least: Any, most: Any, where: str) -> None:
    for name, bound in (("least", least), ("most", most)):
        if bound is None:
            continue
        if not kind.is_number:
            raise ArgError(f"{where}: has no numbers, found {name}={bound!r}; leave it out")
        is_real = isinstance(bound, float) and math.isfinite(bound)
        if not is_whole(bound) and (kind.is_whole or not is_real):
            what = "a whole number" if kind.is_whole else "a number"
            raise ArgError(f"{where}: expected {what} as {name}, found {bound!r}")
    if kind.least is not None and kind.most is not None and kind.least > kind.most:
        raise ArgError(
            f"{where}: expected a least number up to the most, {kind.most}, found {kind.least}"
        )


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _whole(value: Any) -> int | None:
    """A whole number of Python or NumPy; None for anything else, including truth values."""
    if _is_flag(value):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _is_flag(value: Any) -> bool:
    """Whether it is a truth value of Python or NumPy."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def _parts(text: str) -> list[str]:
    for separator in _SEPARATORS:
        text = text.replace(separator, " ")
    parts = text.split()
    if not parts:
        raise ValueError
    return parts


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _power(number: float) -> str:
    if not isinstance(number, int):
        return str(number)
    exponent = number.bit_length() - 1
    return f"2**{exponent}" if exponent > 9 and number == 1 << exponent else str(number)
