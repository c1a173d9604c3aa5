"""JSON as the standard library reads it, with the lines of its values; keys must be unique."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stepsim.documents.reading import MOST_DIGITS, Document, Reader, read_text, shortened
from stepsim.errors import StepSimError

_MOST_BYTES = 2 * 1024 * 1024
_MOST_VALUES = 60_000


def load_json(
    path: str | Path,
    what: str,
    error: type[StepSimError],
    *,
    most_bytes: int = _MOST_BYTES,
    most_values: int = _MOST_VALUES,
) -> Document:
    """Read one JSON document from a file of 2 MiB at most, unless more is allowed.

    Parameters and errors are those of `load_yaml`.
    """
    where = f"{what} {path}"
    text = read_text(Path(path), where, error, most_bytes)
    return parse_json(text, where, error, most_values=most_values)


def parse_json(
    text: str, where: str, error: type[StepSimError], *, most_values: int = _MOST_VALUES
) -> Document:
    """Like `load_json`, for a text; messages start with ``where``."""
    return _Json(text, where, error, most_values).read()


class _Json(Reader):
    def __init__(self, text: str, where: str, error: type[StepSimError], most_values: int) -> None:
        super().__init__(text, where, error)
        self.most_values = most_values

    def read(self) -> Document:
        try:
            data = json.loads(self.text, parse_int=self.integer)
        except json.JSONDecodeError as problem:
            self.refuse(
                problem.lineno,
                problem.colno,
                f"not valid JSON: {problem.msg[0].lower()}{problem.msg[1:].removesuffix(' at')}; "
                "write standard JSON, without comments and trailing commas",
            )
        except RecursionError:
            # The walk finds the place; what follows it does not matter.
            self.walk()
            raise
        self.walk()
        return Document(data, self.lines)

    def integer(self, digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            start = self.text.find(digits)
            line, column = self.place(start)
            self.refuse(
                line,
                column,
                f"expected an integer of at most {MOST_DIGITS} digits, found "
                f"{shortened(digits)!r}; write a smaller number",
            )
        return int(digits)

    def place(self, start: int) -> tuple[int, int]:
        return self.text.count("\n", 0, start) + 1, start - self.text.rfind("\n", 0, start)

    def walk(self) -> None:
        """Record the lines of the values of a document, and check its limits."""
        levels: list[_Level] = []
        for token, text, line, column in self.tokens():
            if token == "close":
                levels.pop()
                continue
            level = levels[-1] if levels else None
            if text == "," and level:
                level.index += 1
                level.expects_key = level.keys is not None
                continue
            if text in ",:":
                continue
            self.count(line, column)
            if token == "text":
                found = json.loads(text) if "\\" in text else text[1:-1]
                self.check_text(found, line, column)
                if level and level.keys is not None and level.expects_key:
                    level.child = self.check_key(level.keys, level.path, found, line, column)
                    level.expects_key = False
                    continue
            path = "" if level is None else level.child
            if level and level.keys is None:
                path = f"{level.path}[{level.index}]"
                self.lines[path] = line
            if token == "open":
                levels.append(_Level(path, {} if text == "{" else None, text == "{"))
                self.check_depth(len(levels), line, column)

    def tokens(self) -> Iterator[tuple[str, str, int, int]]:
        line, start_of_line = 1, 0
        for found in _TOKEN.finditer(self.text):
            kind = str(found.lastgroup)
            if kind == "line":
                line, start_of_line = line + 1, found.end()
            else:
                yield kind, found[0], line, found.start() - start_of_line + 1


@dataclass(slots=True)
class _Level:
    """An open list, or an open mapping with the lines of its keys."""

    path: str
    keys: dict[str, int] | None
    expects_key: bool
    index: int = 0
    child: str = ""


_TOKEN = re.compile(
    r'(?P<line>\n)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<open>[\[{])|(?P<close>[\]}])|(?P<sign>[,:])'
    r"|(?P<word>[^\s\[\]{},:\"]+)"
)
