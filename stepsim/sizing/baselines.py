"""What linear programs for FIFO depths are compared with, in one table.

Blanket depths, the peak of one unbounded run, greedy shrinking, random search and simulated
annealing. Source: the menu of FIFOAdvisor (ASP-DAC 2026) named by section 7 of the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp
from random import Random
from typing import Protocol

from stepsim.sizing.linear_programs import (
    depths_of_delays,
    intervals,
    lower_bounds,
    path_delays,
    planned_depths,
)
from stepsim.sizing.network import FifoNetwork
from stepsim.sizing.network_search import Search

__all__ = [
    "BASELINES", "Baseline", "Judge", "NetworkSizing", "annealed_depths", "baseline_table",
    "random_depths",
]  # fmt: skip


class Judge(Protocol):
    """What says whether depths of FIFOs will do: a network, or runs of a program."""

    @property
    def runs(self) -> int:
        """Runs that were made so far."""

    def cost(self, depths: Sequence[int]) -> int:
        """What FIFOs so deep take: bits or bytes."""

    def enough(self, depths: Sequence[int]) -> bool:
        """Whether a run with them is as fast as it has to be."""


@dataclass(frozen=True, slots=True)
class NetworkSizing:
    """A method and what it gives.

    Attributes
    ----------
    method : its name.
    depths : slots of every FIFO.
    slots, bits : of all FIFOs together.
    makespan : of the run with these depths; None for a deadlock.
    runs : of the network that the method made.
    """

    method: str
    depths: tuple[int, ...]
    slots: int
    bits: int
    makespan: int | None
    runs: int


Baseline = Callable[[Search, Random, int], Sequence[int]]
"""Depths for a search, with random numbers and so many runs at most."""


def _all_tokens(search: Search, random: Random, runs: int) -> Sequence[int]:
    return search.network.tokens


def _all_two(search: Search, random: Random, runs: int) -> Sequence[int]:
    return [2] * len(search.network.fifos)


def _peaks(search: Search, random: Random, runs: int) -> Sequence[int]:
    search.run([None] * len(search.network.fifos))
    return search.network.peaks


def _greedy(search: Search, random: Random, runs: int) -> Sequence[int]:
    return search.greedy(_peaks(search, random, runs))


def random_depths(judge: Judge, peaks: Sequence[int], random: Random, runs: int) -> Sequence[int]:
    """Depths up to the peaks at random; the least costly that are enough."""
    best = peaks
    last = judge.runs + runs
    # Of a small network all choices are soon known, and known ones take no run.
    for _ in range(10 * runs):
        if judge.runs >= last:
            break
        depths = [random.randint(1, peak) for peak in peaks]
        if judge.cost(depths) < judge.cost(best) and judge.enough(depths):
            best = depths
    return best


def annealed_depths(judge: Judge, peaks: Sequence[int], random: Random, runs: int) -> Sequence[int]:
    """From the peaks, one FIFO at a time; costlier depths are taken less and less often."""
    best = here = tuple(peaks)
    warm = max(1.0, judge.cost(peaks) / 10)
    for step in range(runs if peaks else 0):
        fifo = random.randrange(len(peaks))
        depths = (*here[:fifo], random.randint(1, peaks[fifo]), *here[fifo + 1 :])
        more = judge.cost(depths) - judge.cost(here)
        heat = warm * (1 - step / runs)
        if more > 0 and random.random() >= exp(-more / heat):
            continue
        if judge.enough(depths):
            here = depths
            best = min(best, here, key=judge.cost)
    return best


def _random(search: Search, random: Random, runs: int) -> Sequence[int]:
    return random_depths(search, search.network.peaks, random, runs)


def _annealing(search: Search, random: Random, runs: int) -> Sequence[int]:
    return annealed_depths(search, search.network.peaks, random, runs)


def _published(search: Search, random: Random, runs: int) -> Sequence[int]:
    """The program over paths as published, with stand-alone intervals."""
    paces = intervals(search.network, "normal")
    found = path_delays(search.network, lower_bounds(search.network, paces))
    return depths_of_delays(search.network, [Fraction(d) for d in found.delays], paces)


def _planned(search: Search, random: Random, runs: int) -> Sequence[int]:
    return planned_depths(search.network, "conservative")


def _repaired(search: Search, random: Random, runs: int) -> Sequence[int]:
    return search.repaired(_planned(search, random, runs)).depths


def _shrunk(search: Search, random: Random, runs: int) -> Sequence[int]:
    return search.shrunk(_repaired(search, random, runs), runs).depths


BASELINES: Mapping[str, Baseline] = {
    "all T": _all_tokens,
    "all 2": _all_two,
    "peak": _peaks,
    "greedy": _greedy,
    "random": _random,
    "annealing": _annealing,
    "path lp": _published,
    "lp normal": lambda search, random, runs: planned_depths(search.network, "normal"),
    "lp effective": lambda search, random, runs: planned_depths(search.network, "effective"),
    "lp conservative": _planned,
    "lp + repair": _repaired,
    "lp + repair + shrink": _shrunk,
}
"""Methods by name. The program that is repaired is the conservative one: it plans the fewest slots,
and a run tells where they are too few."""


def baseline_table(
    network: FifoNetwork,
    methods: Sequence[str] = tuple(BASELINES),
    *,
    runs: int = 200,
    seed: int = 0,
) -> tuple[NetworkSizing, ...]:
    """A row for every method.

    Parameters
    ----------
    runs : that random search, annealing and shrinking make at most.
    seed : of what is random.
    """
    rows = []
    for method in methods:
        search = Search(network)
        depths = tuple(BASELINES[method](search, Random(seed), runs))
        made = search.runs
        rows.append(
            NetworkSizing(
                method,
                depths,
                sum(depths),
                sum(d * fifo.bits for d, fifo in zip(depths, network.fifos, strict=True)),
                search.run(depths).makespan,
                made,
            )
        )
    return tuple(rows)
