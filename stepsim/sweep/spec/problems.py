"""Turning what is wrong with a sweep into sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from stepsim.errors import MachineError, SweepError, TraceError, WorkloadError

_LISTED = 10
_LISTED_OF_SPEC = 30
_PATH = re.compile(r"[\w.\[\]-]+(?=: )")


class SeveralProblems(SweepError):
    """What is wrong with a part of a specification, a sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class Problems:
    """Collects what is wrong with a specification, so that all errors are listed together.

    ``lines`` are those of its values, by their paths.
    """

    def __init__(self, lines: Mapping[str, int] | None = None) -> None:
        self._lines = lines or {}
        self._general: list[str] = []
        self._of_points: dict[str, list[str]] = {}
        self._line_of: dict[str, int] = {}

    def add(self, text: str) -> None:
        """Add what is wrong with a key, which starts the text."""
        self._general.append(text)

    def add_of_point(
        self, where: str, text: str, place: Callable[[], str | None] = lambda: None
    ) -> None:
        """Add what is wrong with a design point; the same of several is listed once.

        ``place`` looks up the path of the wrong value in the specification.
        """
        if text not in self._of_points and len(self._of_points) < _LISTED_OF_SPEC:
            path = place()
            if path is not None and path in self._lines:
                self._line_of[text] = self._lines[path]
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
            f"{f'line {self._line_of[text]}, ' if text in self._line_of else ''}"
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
