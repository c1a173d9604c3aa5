"""Text of a long sequence of segments: a repeated sequence is one line with its count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LONGEST = 64
"""Most items of a loop body; longer ones are found if their parts repeat as well."""

_NAMED = 6
"""Items of a loop body that are named in its line."""

_ACCESS_ENDS = "hbm latency"
_OF_ACCESS = frozenset(("hbm transfer", "hbm queue", _ACCESS_ENDS))


@dataclass(slots=True)
class _Item:
    """A segment, an access of the memory, or a loop.

    Attributes
    ----------
    key : equal for items that differ only in their cycles.
    count : iterations; 1 for a segment or access.
    members : items of the first iteration; empty for a segment or access.
    """

    key: object
    begin: int
    cycles: int
    segments: int
    text: str
    causes: Counter[str]
    count: int = 1
    members: Sequence[_Item] = ()


def folded_lines(
    begins: Sequence[int],
    cycles: Sequence[int],
    operators: Sequence[str],
    causes: Sequence[str],
    *,
    max_lines: int,
) -> list[str]:
    """Lines for segments in order of time, at most ``max_lines`` of them and a heading.

    If there are too many, the lines with the fewest cycles are summed up.
    """
    items = _folded(_Items(begins, cycles, operators, causes).folded())
    total = sum(item.cycles for item in items)
    lines = [f"{'from':>13} {'cycles':>13} {'share':>7}  what"]
    for begin, spent, text in _few(items, max_lines):
        lines.append(f"{begin:>13,} {spent:>13,} {spent / max(1, total):>7.1%}  {text}")
    return lines


class _Items:
    """All segments of a path as items, made into objects as far as their lines are asked for.

    A long path is mostly loops of few different segments, so that the first loops are found and
    summed up over arrays. The segments of one access are one item.
    """

    def __init__(
        self,
        begins: Sequence[int],
        cycles: Sequence[int],
        operators: Sequence[str],
        causes: Sequence[str],
    ) -> None:
        operator, self._operators = _numbered(operators)
        self._cause, self._causes = _numbered(causes)
        self._begins, self._cycles = np.asarray(begins, np.int64), np.asarray(cycles, np.int64)
        access, ends = (
            np.array([name in some for name in self._causes], np.bool_)[self._cause]
            for some in (_OF_ACCESS, (_ACCESS_ENDS,))
        )
        self._access = access
        joined = access[1:] & access[:-1] & ~ends[:-1] & (operator[1:] == operator[:-1])
        self._first = np.flatnonzero(np.append([True], ~joined)[: len(operator)])
        self._operator = operator
        of_item = np.where(access, len(self._causes), self._cause)
        self.ids = (operator * (len(self._causes) + 1) + of_item)[self._first]

    def __len__(self) -> int:
        return len(self._first)

    def _text(self, item: int) -> str:
        place = self._first[item]
        cause = "hbm" if self._access[place] else self._causes[self._cause[place]]
        return f"{self._operators[self._operator[place]]} {cause}"

    def item(self, begin: int, end: int, length: int = 0) -> _Item:
        """Items from ``begin`` to before ``end`` as one: a loop of this length, or one item."""
        first = int(self._first[begin])
        last = int(self._first[end]) if end < len(self) else len(self._cause)
        cycles, cause = self._cycles[first:last], self._cause[first:last]
        found, places = np.unique(cause, return_index=True)
        causes: Counter[str] = Counter()
        for code in found[np.argsort(places)].tolist():
            causes[self._causes[code]] = int(cycles[cause == code].sum())
        begun, spent = int(self._begins[first]), int(cycles.sum())
        if not length:
            text = self._text(begin)
            return _Item(text, begun, spent, last - first, text, causes)
        body = [self.item(i, i + 1) for i in range(begin, begin + length)]
        return _loop_of(body, (end - begin) // length, begun, spent, last - first, causes)

    def folded(self) -> list[_Item]:
        """The items, with sequences that are repeated as loops."""
        length, covered = _repeats(self.ids)
        made, i = [], 0
        while i < len(self):
            end = i + max(1, int(covered[i]))
            made.append(self.item(i, end, int(length[i])))
            i = end
        return made


def _numbered(texts: Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
    """The number of each text, and the different ones by number."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64), list(
        numbers
    )


def _folded(items: list[_Item]) -> list[_Item]:
    """The items with repeated sequences replaced by loops, until no more are found."""
    while True:
        folded = _fold_once(items)
        if len(folded) == len(items):
            return items
        items = folded


def _fold_once(items: list[_Item]) -> list[_Item]:
    numbers: dict[object, int] = {}
    ids = np.array([numbers.setdefault(item.key, len(numbers)) for item in items], np.int64)
    length, covered = _repeats(ids)
    folded: list[_Item] = []
    i = 0
    while i < len(items):
        if covered[i] == 0:
            folded.append(items[i])
            i += 1
        else:
            folded.append(_loop(items[i : i + int(covered[i])], int(length[i])))
            i += int(covered[i])
    return folded


def _repeats(ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Loops that begin at each place: length of the body, and items of all iterations; 0 for none.

    Among several lengths, the one that covers most items; among those, the shortest.
    """
    n = len(ids)
    length, covered = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for each in range(1, min(_LONGEST, n // 2) + 1):
        # Number of consecutive items, from each place on, that equal those one body later.
        differs = np.flatnonzero(ids[each:] != ids[:-each])
        ends = np.append(differs, n - each)
        gaps = np.diff(ends, prepend=-1)
        if gaps.max() <= each:
            continue  # no body of this length is there twice in a row
        equal = (np.repeat(ends, gaps) - np.arange(n - each + 1))[:-1]
        repeated = np.where(equal >= each, (equal // each + 1) * each, 0)
        better = repeated > covered[: n - each]
        length[: n - each][better] = each
        covered[: n - each][better] = repeated[better]
    return length, covered


def _loop(items: list[_Item], length: int) -> _Item:
    causes: Counter[str] = Counter()
    for item in items:
        causes.update(item.causes)
    cycles, segments = (sum(getattr(i, name) for i in items) for name in ("cycles", "segments"))
    return _loop_of(items[:length], len(items) // length, items[0].begin, cycles, segments, causes)


def _loop_of(
    body: list[_Item], count: int, begin: int, cycles: int, segments: int, causes: Counter[str]
) -> _Item:
    members = _folded(body) if len(body) > 1 else body
    if len(members) == 1:
        inside = members[0].text
    else:
        inside = "(" + ", ".join(member.text for member in members[:_NAMED])
        inside += f", {len(members) - _NAMED} more)" if len(members) > _NAMED else ")"
    return _Item(
        key=(count, tuple(item.key for item in body)),
        begin=begin,
        cycles=cycles,
        segments=segments,
        text=f"{count} x {inside}",
        causes=causes,
        count=count,
        members=members,
    )


def _few(items: list[_Item], most: int) -> Iterator[tuple[int, int, str]]:
    """Begin, cycles and text of at most ``most`` lines."""
    if len(items) <= most:
        shown = set(range(len(items)))
    else:
        # Between any two lines shown there may be one line for all omitted ones.
        by_cycles = sorted(range(len(items)), key=lambda i: (-items[i].cycles, i))
        shown = set(by_cycles[: (most - 1) // 2])
    i = 0
    while i < len(items):
        if i in shown:
            yield items[i].begin, items[i].cycles, items[i].text + _shares(items[i])
            i += 1
            continue
        begin = i
        while i < len(items) and i not in shown:
            i += 1
        rest = items[begin:i]
        if len(rest) == 1:
            yield rest[0].begin, rest[0].cycles, rest[0].text + _shares(rest[0])
            continue
        causes: Counter[str] = Counter()
        for item in rest:
            causes.update(item.causes)
        segments = sum(item.segments for item in rest)
        spent = sum(item.cycles for item in rest)
        yield rest[0].begin, spent, f"... {segments:,} segments{_shares_text(causes)}"


def _shares(item: _Item) -> str:
    """The causes of the cycles of a line, unless its text states them."""
    return _shares_text(item.causes) if len(item.causes) > 1 else ""


def _shares_text(causes: Counter[str]) -> str:
    total = causes.total()
    parts = [f"{cause} {cycles / total:.0%}" for cause, cycles in causes.most_common(3) if total]
    return f": {', '.join(parts)}"
