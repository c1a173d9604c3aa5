"""Turning what is wrong with a sweep into sentences."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from stepsim.errors import MachineError, SweepError, TraceError, WorkloadError
from stepsim.machine.problems import did_you_mean

__all__ = ["Problems", "SeveralProblems", "describe", "listing", "refusal", "unknown_key"]

_LISTED = 10


_LISTED_OF_SPEC = 30
_PATH = re.compile(r"[\w.\[\]-]+(?=: )")


class SeveralProblems(SweepError):
    """What is wrong with a part of a specification, a sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class Problems:
    """Collects what is wrong with a specification, for all of it to be told at once."""

    def __init__(self) -> None:
        self._general: list[str] = []
        self._of_points: dict[str, list[str]] = {}

    def add(self, text: str) -> None:
        """Add what is wrong with a key, which starts the text."""
        self._general.append(text)

    def add_of_point(self, where: str, text: str) -> None:
        """Add what is wrong with a design point; the same of several is told once."""
        self._of_points.setdefault(text, []).append(where)

    @contextmanager
    def collected(self, key: str = "") -> Iterator[None]:
        """Add what is raised in the block; ``key`` is what a text that names none is about."""
        try:
            yield
        except SeveralProblems as error:
            self._general += error.problems
        except (SweepError, MachineError, TraceError) as error:
            self._general.append(str(error))
        except WorkloadError as error:
            self._general.append(f"{key}: {error}")

    def listed(self) -> list[str]:
        """All of them, those of design points last."""
        return self._general + [
            f"{where[0]}{f' and {len(where) - 1:,} more' if where[1:] else ''}: {text}"
            for text, where in self._of_points.items()
        ]


def refusal(where: str, problems: Sequence[str], lines: Mapping[str, int]) -> SweepError:
    """The error for a specification, with every problem once, and its line where that is known."""
    different = list(dict.fromkeys(_with_line(problem, lines) for problem in problems))
    if len(different) == 1:
        return SweepError(f"{where}, {different[0]}")
    return SweepError(f"{where}: {len(different)} problems{listing(different, _LISTED_OF_SPEC)}")


def _with_line(problem: str, lines: Mapping[str, int]) -> str:
    """The problem after the line of the key that it starts with, or of the one that holds it."""
    found = _PATH.match(problem)
    path = found[0] if found else ""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return f"line {lines[path]}, {problem}" if path else problem


def listing(problems: Sequence[str], most: int = _LISTED) -> str:
    """The first few problems, each on a line of its own below what was said before."""
    different = list(dict.fromkeys(problems))
    lines = [f"\n  {problem}" for problem in different[:most]]
    left = len(different) - most
    return "".join(lines) + (f"\n  and {left:,} more" if left > 0 else "")


def unknown_key(word: str, known: Sequence[str]) -> str:
    """``unknown key 'tyle'; did you mean 'tile'? Known: ...``."""
    return f"unknown key '{word}'{did_you_mean(word, known)} Known here: {', '.join(sorted(known))}"


def describe(
    error: ValidationError, model: type[BaseModel], lines: Mapping[str, int] | None = None
) -> list[str]:
    """One sentence per key with a problem, with its line where that is known."""
    known = lines or {}
    found: dict[str, str] = {}
    for item in error.errors(include_url=False):
        path, owner, field = _place(model, item["loc"])
        found.setdefault(path, _sentence(item, path, owner, field))
    order = sorted(found, key=lambda path: (known.get(path, 0), path))
    return [
        (f"line {known[path]}, " if path in known else "") + f"{path}: {found[path]}"
        for path in order
    ]


def _place(
    model: type[BaseModel], location: Sequence[int | str]
) -> tuple[str, type[BaseModel] | None, str]:
    """Dotted path without the arms of unions, and the section and field it leads to."""
    path, field = "", ""
    owner: type[BaseModel] | None = model
    section: type[BaseModel] | None = model
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
            continue
        if section is not None:
            owner, field = section, part
            info = section.model_fields.get(part)
            section = None if info is None else _section_of(info.annotation)
        elif field and (part in _ARMS or "[" in part):
            continue
        path += f".{part}" if path else part
    return path, owner, field


_ARMS = {"int", "float", "str", "bool", "none", "constrained-int", "literal"}


def _section_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType):
        return next((s for a in get_args(annotation) if (s := _section_of(a))), None)
    return None


def _sentence(item: Any, path: str, owner: type[BaseModel] | None, field: str) -> str:
    fields = {} if owner is None else owner.model_fields
    if item["type"] == "extra_forbidden":
        return unknown_key(path.rsplit(".", 1)[-1], list(fields))
    about = fields[field].description if field in fields else None
    hint = f" ({about})" if about else ""
    if item["type"] == "missing":
        return f"missing{hint}; add it"
    expected = item["msg"][0].lower() + item["msg"][1:]
    return f"{expected}, found {item['input']!r}{hint}"
