"""Problems of a specification as sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from stepsim.errors import MachineError, SweepError, TraceError, WorkloadError

_LISTED = 10
_LISTED_OF_SPEC = 30
_PATH = re.compile(r"[\w.\[\]-]+(?=: )")


class SeveralProblems(SweepError):
    """Problems of a part of a specification, one sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class Problems:
    """Collects the problems of a specification, so that all errors are listed together.

    ``lines`` has the lines of its values, by their paths.
    """

    def __init__(self, lines: Mapping[str, int] | None = None) -> None:
        self._lines = lines or {}
        self._general: list[str] = []
        self._of_points: dict[str, list[str]] = {}
        self._line_of: dict[str, int] = {}

    def add(self, text: str) -> None:
        """Add a problem of a key; the text starts with the key."""
        self._general.append(text)

    def add_of_point(
        self, where: str, text: str, place: Callable[[], str | None] = lambda: None
    ) -> None:
        """Add a problem of a design point; one that several points share is listed once.

        ``place`` looks up the path of the wrong value in the specification.
        """
        if text not in self._of_points and len(self._of_points) < _LISTED_OF_SPEC:
            path = place()
            if path is not None and path in self._lines:
                self._line_of[text] = self._lines[path]
        self._of_points.setdefault(text, []).append(where)

    @contextmanager
    def collected(self, key: str = "") -> Iterator[None]:
        """Add the errors raised in the block; ``key`` is the key of errors that name none."""
        try:
            yield
        except SeveralProblems as error:
            self._general += error.problems
        except (SweepError, MachineError, TraceError) as error:
            self._general.append(str(error))
        except WorkloadError as error:
            self._general.append(f"{key}: {error}")

    def listed(self) -> list[str]:
        """All problems, those of design points last."""
        return self._general + [
            f"{f'line {self._line_of[text]}, ' if text in self._line_of else ''}"
            f"{where[0]}{f' and {len(where) - 1:,} more' if where[1:] else ''}: {text}"
            for text, where in self._of_points.items()
        ]


def refusal(where: str, problems: Sequence[str], lines: Mapping[str, int]) -> SweepError:
    """The error for a specification, with every problem once, and its line if known."""
    different = list(dict.fromkeys(_with_line(problem, lines) for problem in problems))
    if len(different) == 1:
        return SweepError(f"{where}, {different[0]}")
    return SweepError(f"{where}: {len(different)} problems{listing(different, _LISTED_OF_SPEC)}")


def _with_line(problem: str, lines: Mapping[str, int]) -> str:
    """The problem, preceded by the line of its key or of the key that contains it."""
    found = _PATH.match(problem)
    path = found[0] if found else ""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return f"line {lines[path]}, {problem}" if path else problem


def listing(problems: Sequence[str], most: int = _LISTED) -> str:
    """The first few problems, each on a new line."""
    different = list(dict.fromkeys(problems))
    lines = [f"\n  {problem}" for problem in different[:most]]
    left = len(different) - most
    return "".join(lines) + (f"\n  and {left:,} more" if left > 0 else "")
