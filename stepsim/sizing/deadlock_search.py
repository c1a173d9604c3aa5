"""The search for the fewest tokens by which FIFOs have to be deeper to end a deadlock.

In a program in which nothing depends on what arrives first, a run gets as far as its FIFOs let it,
and deeper FIFOs never stop it earlier (a Kahn process network with bounded channels). So if a run
is stuck in which some FIFOs have a depth each and all others are unbounded, every run is stuck in
which none of these FIFOs is deeper: one of them has to be. Such a `Bar` is found at every deadlock
that the search meets and made as high as it goes, by doubling and bisection; least depths that pass
all bars known so far, and end the deadlock, are the least of all.

FIFOs in a row can take each other's place, so that each split of the tokens among them would need a
bar of its own. Where a unit between two FIFOs only hands on, at least one token for each that it
takes, a token of depth does at least as much before it as behind it: with depths ``a`` and ``b``,
token ``k`` enters the first once token ``k - a`` has left it, for which what the tokens before that
one became, ``S(k - a - 1)`` tokens, must have entered the second, all but ``b`` of which must have
left it. ``S(k - a - 2) + 1`` is at most ``S(k - a - 1)``, so that ``a + 1`` and ``b - 1`` ask for
no more. Hence only the first FIFO of a row is looked at, and the others stay as they are.

An eager merge, or a reassemble that takes several inputs in the order of their arrival, may do
other things with other depths. There only trying all choices of fewer tokens proves anything.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import combinations_with_replacement
from math import comb
from typing import Any, Final

from stepsim.arguments import counted
from stepsim.graph import FIFO_DEPTH, EagerMerge, MultiHot, Reassemble
from stepsim.simulation import ImageRun, Limits, Prepared, run_depths
from stepsim.sizing.deadlock_bars import Bar, Bars

__all__ = ["Depths", "Search", "SearchEnded", "order_matters"]

Depths = dict[str, int]

_TIME_OVER: Final = "max_seconds are over"

_LIMIT: Final = "not decided: a run with other depths reaches a limit; raise it"

_HANDING_ON: Final = frozenset({"UnaryMap", "Flatten", "Promote", "RepeatStatic"})
"""Kinds of units that read one FIFO and write one, at least one token for each that they take."""

_MOST_DEPTH: Final = FIFO_DEPTH.high


class SearchEnded(Exception):
    """The runs or the time of a search are used up, or a run reached a limit, as the text says."""


def order_matters(prepared: Prepared) -> bool:
    """Whether what a run does may depend on which token arrives first."""
    return any(_by_arrival(unit.operator) for unit in prepared.wiring.units)


def _by_arrival(operator: Any) -> bool:
    if isinstance(operator, Reassemble):
        selectors = operator.inputs[-1].type
        return not (isinstance(selectors, MultiHot) and selectors.hot == 1)
    return isinstance(operator, EagerMerge)


class Search:
    """Runs of one program with other depths.

    Attributes
    ----------
    depths : of the FIFOs that are bounded, by name.
    rows : the FIFO that is deepened instead of another, by the name of that; itself for the first
        of a row.
    runs : how many were made.

    Parameters
    ----------
    limits : of every run.
    max_runs, max_seconds : of all runs together.
    """

    def __init__(
        self,
        prepared: Prepared,
        indices: Any,
        limits: Limits | None,
        max_runs: int,
        max_seconds: float | None,
    ) -> None:
        self._prepared, self._indices, self._limits = prepared, indices, limits or Limits()
        self._max_runs, self._max_seconds = max_runs, max_seconds
        self._begun = time.monotonic()
        self._share = 1.0
        self._image = prepared.image(indices)
        self._check = prepared.check(indices)
        caps = zip(prepared.fifo_numbers, self._image.channels["cap"].tolist(), strict=True)
        self.depths: Depths = {name: cap for name, cap in caps if cap <= _MOST_DEPTH}
        self.rows = _rows(prepared, self.depths)
        self._firsts = dict.fromkeys(self.rows.values())
        self.runs = 0

    def executed(self, depths: Mapping[str, int | None]) -> ImageRun:
        """A run that can tell where it got stuck; SearchEnded when nothing is left for it."""
        limits = self._begin()
        changed = self._prepared.changed(fifo_depths=depths) if depths else self._prepared
        done = changed.execute(self._indices, limits=limits)
        self._ended(done.totals.status)
        return done

    def ended(self, depths: Mapping[str, int | None]) -> tuple[str, int]:
        """Status and cycles of a run; SearchEnded when nothing is left for it."""
        limits = self._begin()
        numbers = self._prepared.fifo_numbers
        row = {numbers[name]: depth for name, depth in depths.items()}
        keep = self._prepared.keep
        done = run_depths(self._image, [row], limits=limits, keep=keep, check=self._check)
        self._ended(done.status[0])
        return done.status[0], int(done.cycles[0])

    def _check_time(self) -> None:
        left = self._left()
        if left is not None and left <= 0:
            raise SearchEnded(_TIME_OVER)

    def _begin(self) -> Limits:
        if self.runs >= self._share * self._max_runs:
            raise SearchEnded(f"max_runs, {counted(self._max_runs, 'run')}, are used up")
        self._check_time()
        left = self._left()
        self.runs += 1
        if left is None:
            return self._limits
        own = self._limits.max_wall_seconds
        seconds = left if own is None else min(left, own)
        return Limits(self._limits.max_cycles, self._limits.max_steps, seconds)

    def _ended(self, status: str) -> None:
        if status == "limit":
            left = self._left()
            over = left is not None and left <= 0
            raise SearchEnded(_TIME_OVER if over else _LIMIT)

    def _left(self) -> float | None:
        """Seconds that the search may still take."""
        if self._max_seconds is None:
            return None
        return self._share * self._max_seconds - (time.monotonic() - self._begun)

    def spend(self, share: float) -> None:
        """Let the search go on until this part of all runs and of the time is used up."""
        self._share = share

    def cycles(self, depths: Mapping[str, int]) -> int:
        """Length of the run with depths that were found, by running the changed program."""
        self.runs += 1
        done = self._prepared.changed(fifo_depths=depths)
        return done.execute(self._indices, limits=self._limits).totals.cycles

    def sufficient(self, first: ImageRun) -> Depths:
        """Depths that end the deadlock, none of which can be lower with the others as they are."""
        depths: Depths = {}
        done = first
        while done.totals.status != "ok":
            for name in self._full(done) or self._firsts:
                depths[name] = min(2 * depths.get(name, self.depths[name]), _MOST_DEPTH)
            done = self.executed(depths)
        for name in list(depths):
            depths[name] = self._lowest(depths, name)
        return {name: depth for name, depth in depths.items() if depth > self.depths[name]}

    def _lowest(self, depths: Depths, name: str) -> int:
        low, high = self.depths[name], depths[name]
        while low < high:
            middle = (low + high) // 2
            if self.ended({**depths, name: middle})[0] == "ok":
                high = middle
            else:
                low = middle + 1
        return high

    def added(self, depths: Mapping[str, int]) -> int:
        """Tokens that the FIFOs hold more with these depths."""
        return sum(depth - self.depths[name] for name, depth in depths.items())

    def least(self, enough: Depths, note: Callable[[Depths], None]) -> bool:
        """Look for fewer tokens than ``enough``; ``note`` is told of depths that are better.

        Returns whether the last ones are proved to be the least; SearchEnded if that took too long.
        """
        if order_matters(self._prepared):
            return self._least_of_all(enough, note)
        bars = Bars(self.depths, self._check_time)
        most = self.added(enough)
        while True:
            depths = bars.least()
            if self.added(depths) >= most:
                return True
            done = self.executed(depths)
            if done.totals.status == "ok":
                note(depths)
                return True
            bars.add(self._bar(depths, done))

    def _least_of_all(self, enough: Depths, note: Callable[[Depths], None]) -> bool:
        """All choices of fewer tokens, the smallest first."""
        fewer = self.added(enough) - 1
        if comb(len(self.depths) + fewer, fewer) > self._max_runs - self.runs:
            raise SearchEnded("what is done depends on which token arrives first")
        for tokens in range(1, fewer + 1):
            for names in combinations_with_replacement(self.depths, tokens):
                depths = {name: self.depths[name] + n for name, n in Counter(names).items()}
                if self.ended(depths)[0] == "ok":
                    note(depths)
                    return True
        return True

    def _bar(self, depths: Depths, done: ImageRun) -> Bar:
        """The highest bar of as few FIFOs as possible that these depths do not pass."""
        bar = {name: depths.get(name, self.depths[name]) for name in self._full(done)}
        if not self._stuck(bar):  # more than one wait holds it up
            bar = {name: depths.get(name, self.depths[name]) for name in self._firsts}
        for name in list(bar):
            rest = {other: height for other, height in bar.items() if other != name}
            if rest and self._stuck(rest):
                bar = rest
        for name in bar:
            bar[name] = self._highest(bar, name)
        return bar

    def _highest(self, bar: Depths, name: str) -> int:
        low, step = bar[name], 1
        while self._stuck({**bar, name: low + step}):
            low, step = low + step, 2 * step
        high = low + step
        while low + 1 < high:
            middle = (low + high) // 2
            if self._stuck({**bar, name: middle}):
                low = middle
            else:
                high = middle
        return low

    def _stuck(self, bar: Bar) -> bool:
        """Whether a run is stuck in which, of the first FIFOs of rows, only these have a depth."""
        return self.ended({**dict.fromkeys(self._firsts), **bar})[0] != "ok"

    def _full(self, done: ImageRun) -> list[str]:
        """First FIFOs of rows with a full one in the circular wait, else that holds up a unit."""
        assert done.diagnosis is not None  # every run that is not ok has one
        slots = [wait.fifo for wait in done.diagnosis.waits if wait.reason == "slot"]
        full = done.diagnosis.deepen or slots
        return list(dict.fromkeys(self.rows[name] for name in full))

    def full_speed(
        self, depths: Mapping[str, int], best: int, note: Callable[[Depths], None]
    ) -> bool:
        """Look for depths with which the run takes no more than ``best`` cycles.

        From unbounded FIFOs, as many as possible go back to ``depths`` or to what they are, group
        by group, and the others as low as they can, one after the other. Then each is tried one
        token less deep, until none is deeper than it has to be. ``note`` is told of depths that are
        fast, the last ones being the best. Returns True; SearchEnded if that took too long.
        """
        chosen: dict[str, int | None] = dict.fromkeys(self.depths)
        groups = [list(self.depths)]
        while groups:
            names = groups.pop()
            back = {name: depths.get(name, self.depths[name]) for name in names}
            if self._fast({**chosen, **back}, best):
                chosen |= back
            elif len(names) > 1:
                half = len(names) // 2
                groups += [names[:half], names[half:]]
            else:
                chosen[names[0]] = self._low_and_fast(chosen, names[0], back[names[0]], best)
        deep = {name: depth for name, depth in chosen.items() if depth is not None}
        note(self._deeper(deep))
        names = list(self._deeper(deep))
        while names:
            names = [name for name in names if self._is_lowered(deep, name, best)]
            note(self._deeper(deep))
            names = list(self._deeper(deep)) if names else []
        return True

    def _deeper(self, depths: Mapping[str, int]) -> Depths:
        """Those of the FIFOs that are deeper than the program has them."""
        return {name: depth for name, depth in depths.items() if depth > self.depths[name]}

    def _is_lowered(self, depths: Depths, name: str, best: int) -> bool:
        """Whether a FIFO could be less deep, with the others as they are; it is then."""
        if not self._fast({**depths, name: depths[name] - 1}, best):
            return False
        low, high = self.depths[name], depths[name] - 1
        depths[name] = self._bisected(depths, name, low, high, best)
        return True

    def _low_and_fast(
        self, chosen: Mapping[str, int | None], name: str, slow: int, best: int
    ) -> int:
        low, high = slow + 1, 2 * slow
        while high < _MOST_DEPTH and not self._fast({**chosen, name: high}, best):
            low, high = high + 1, 2 * high
        return self._bisected(chosen, name, low, high, best)

    def _bisected(
        self, chosen: Mapping[str, int | None], name: str, low: int, high: int, best: int
    ) -> int:
        """The least depth from ``low`` of a FIFO for full speed; ``high`` is enough."""
        while low < high:
            middle = (low + high) // 2
            if self._fast({**chosen, name: middle}, best):
                high = middle
            else:
                low = middle + 1
        return high

    def _fast(self, depths: Mapping[str, int | None], best: int) -> bool:
        status, cycles = self.ended(depths)
        return status == "ok" and cycles <= best


def _rows(prepared: Prepared, bounded: Mapping[str, int]) -> dict[str, str]:
    """The first FIFO of the row that each bounded one is in; see the head of this module.

    In a program where the order of arrival matters every FIFO is a row of its own.
    """
    fifos = [fifo.name for fifo in prepared.wiring.fifos]
    before: dict[str, str] = {}
    for unit in () if order_matters(prepared) else prepared.wiring.units:
        if unit.kind in _HANDING_ON:
            (taken,), (given,) = unit.inputs, unit.outputs
            if fifos[taken] in bounded and fifos[given] in bounded:
                before[fifos[given]] = fifos[taken]
    found: dict[str, str] = {}
    for name in bounded:
        first, passed = name, {name}
        while first in before and before[first] not in passed:
            first = before[first]
            passed.add(first)
        found[name] = name if first in before else first  # a ring has no first
    return found
