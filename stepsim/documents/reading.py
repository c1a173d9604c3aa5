"""Common parts of the readers of YAML and JSON: files, places, limits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from stepsim.errors import StepSimError
from stepsim.shown import shown

MOST_DEEP = 40
"""Most levels of nested lists and mappings."""
MOST_DIGITS = 40
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data and the 1-based line of every value by its path, as in ``grid.tile[2]``."""

    data: Any
    lines: dict[str, int] = field(default_factory=dict)


def check_format(
    data: Any, lines: Mapping[str, int], expected: str, where: str, error: type[StepSimError]
) -> None:
    """Refuse a mapping that says by its key ``format`` that it is of another form or version.

    The key may be absent: such files are also written by hand, or come from before 1.0.
    """
    found = data.get("format", expected)
    if found != expected:
        same = str(found).rpartition(" ")[0] == expected.rpartition(" ")[0]
        cure = (
            "upgrade stepsim if a later one wrote the file, else write it again"
            if same
            else "name a file of that form"
        )
        raise error(
            f"{where}, line {lines['format']}: expected format '{expected}', found {shown(found)}; "
            f"{cure}"
        )


def read_text(path: Path, where: str, error: type[StepSimError], most: int) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        raise error(f"{where}: cannot be read: {reason}; name a file that can be read") from problem
    except ValueError as problem:  # a null character in the path
        raise error(f"{where}: cannot be read: {problem}; name a file that can be read") from None
    if len(data) > most:
        raise error(
            f"{where}: expected at most {most:,} bytes, found more; "
            "leave out what is not needed, or check that this is the right file"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        before = data[: problem.start]
        line, column = before.count(b"\n") + 1, problem.start - before.rfind(b"\n")
        raise error(
            f"{where}:{line}:{column}: expected UTF-8 text, found the byte "
            f"0x{data[problem.start]:02x}; save the file as UTF-8"
        ) from None


class Reader:
    """Base of both readers: the text, and the reporting of errors and limits."""

    most_values: int

    def __init__(self, text: str, where: str, error: type[StepSimError]) -> None:
        self.text = text
        self.where = where
        self.error = error
        self.lines: dict[str, int] = {}
        self.values = 0

    def refuse(self, line: int, column: int, message: str) -> NoReturn:
        raise self.error(f"{self.where}:{line}:{column}: {message}") from None

    def count(self, line: int, column: int) -> None:
        self.values += 1
        if self.values > self.most_values:
            self.refuse(
                line,
                column,
                f"expected at most {self.most_values:,} keys and values, found more (with what "
                "aliases repeat); divide the document or leave out repetitions",
            )

    def check_depth(self, depth: int, line: int, column: int) -> None:
        if depth > MOST_DEEP:
            self.refuse(
                line,
                column,
                f"expected lists and mappings at most {MOST_DEEP} deep, found more; "
                "close what is open, or flatten it",
            )

    def check_key(self, keys: dict[str, int], path: str, key: str, line: int, column: int) -> str:
        """Record the line of a new key; returns its path."""
        child = f"{path}.{key}" if path else key
        if key in keys:
            self.refuse(
                line,
                column,
                f"key '{shortened(child)}' is given twice, first on line {keys[key]}; "
                "remove one of them",
            )
        keys[key] = self.lines[child] = line
        return child

    def check_text(self, text: str, line: int, column: int) -> None:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                self.refuse(
                    line, column, "expected text, found half of a surrogate pair; write it whole"
                )


def shortened(text: str, most: int = _SHOWN) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 3]}..."
