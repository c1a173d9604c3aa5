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
    items = _folded(list(_items(begins, cycles, operators, causes)))
    total = sum(item.cycles for item in items)
    lines = [f"{'from':>13} {'cycles':>13} {'share':>7}  what"]
    for begin, spent, text in _few(items, max_lines):
        lines.append(f"{begin:>13,} {spent:>13,} {spent / max(1, total):>7.1%}  {text}")
    return lines


def _items(
    begins: Sequence[int], cycles: Sequence[int], operators: Sequence[str], causes: Sequence[str]
) -> Iterator[_Item]:
    """One item for every segment; the segments of one access are one item."""
    access: _Item | None = None
    for begin, spent, operator, cause in zip(begins, cycles, operators, causes, strict=True):
        if cause not in _OF_ACCESS:
            if access is not None:
                yield access
                access = None
            text = f"{operator} {cause}"
            yield _Item(text, begin, spent, 1, text, Counter({cause: spent}))
            continue
        text = f"{operator} hbm"
        if access is None or access.text != text:
            if access is not None:
                yield access
            access = _Item(text, begin, 0, 0, text, Counter())
        access.cycles += spent
        access.segments += 1
        access.causes[cause] += spent
        if cause == _ACCESS_ENDS:
            yield access
            access = None
    if access is not None:
        yield access


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
        equal = ends[np.searchsorted(ends, np.arange(n - each))] - np.arange(n - each)
        repeated = np.where(equal >= each, (equal // each + 1) * each, 0)
        better = repeated > covered[: n - each]
        length[: n - each][better] = each
        covered[: n - each][better] = repeated[better]
    return length, covered


def _loop(items: list[_Item], length: int) -> _Item:
    count = len(items) // length
    members = _folded(items[:length]) if length > 1 else items[:1]
    causes: Counter[str] = Counter()
    for item in items:
        causes.update(item.causes)
    if len(members) == 1:
        inside = members[0].text
    else:
        inside = "(" + ", ".join(member.text for member in members[:_NAMED])
        inside += f", {len(members) - _NAMED} more)" if len(members) > _NAMED else ")"
    return _Item(
        key=(count, tuple(item.key for item in items[:length])),
        begin=items[0].begin,
        cycles=sum(item.cycles for item in items),
        segments=sum(item.segments for item in items),
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
