"""The steps of collectives: maps on each of several chips that cut, add and join tiles.

They are those that ``st.noc.simulate_collective`` times, for every tile of the streams: a chip
sends a message of the same bytes to the same chip, and as many of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError, DTypeError, did_you_mean
from stepsim.graph import fn
from stepsim.graph.functions.define import function
from stepsim.graph.functions.function import Function
from stepsim.graph.nn.layer import Layer
from stepsim.graph.operator import streams_of
from stepsim.graph.programs.chips import chip
from stepsim.graph.sizes.limits import CHIP
from stepsim.graph.stream import Stream

ALGORITHMS = ("ring", "direct", "halving-doubling")

_OPERANDS = 64
"""Streams that one map reads at most."""


class Group:
    """Streams on several chips, and the operators of a collective on each of them.

    Attributes
    ----------
    columns : of a tile; ``width`` of those of a part.
    """

    def __init__(
        self, name: str, xs: Sequence[Stream], chips: Sequence[int] | None, algorithm: object,
        compute_bw: int | None, label: str | None, *, divided: bool = True,
    ) -> None:  # fmt: skip
        self.layer, self.xs, self.chips = members(name, xs, chips, compute_bw, label)
        self.algorithm, self.count = algorithm, len(self.xs)
        self.columns = self.layer.columns("xs[0]", self.xs[0])
        check_algorithm(self.layer, algorithm, self.count)
        self._check_alike()
        self.layer.require(
            not divided or self.columns % self.count == 0, ArgError,
            f"{self.count} chips do not divide the {self.columns} columns of a tile",
            "every chip gets a part of the same width; use tiles of other columns, or fewer chips",
        )  # fmt: skip
        self.width = self.columns // self.count

    def _check_alike(self) -> None:
        first = self.layer.tile("xs[0]", self.xs[0])
        for i, x in enumerate(self.xs[1:], 1):
            self.layer.site.same_dims(self.xs[0].shape, x.shape, "xs[0]", f"xs[{i}]")
            tile = self.layer.tile(f"xs[{i}]", x)
            self.layer.require(
                tile == first, DTypeError,
                f"xs[{i}] carries tiles of {tile}, xs[0] tiles of {first}",
                "all chips have tiles of one type",
            )  # fmt: skip

    def map(self, member: int, part: str, function: Function, *xs: Stream) -> Stream:
        """A map on the chip of a member."""
        with chip(self.chips[member]):
            return self.layer.map(f"{part}.{member}", function, *xs)

    def each(self, make: Callable[[int], Stream]) -> list[Stream]:
        """What ``make`` gives of every member."""
        return [make(i) for i in range(self.count)]

    def part(self, i: int, p: int) -> Stream:
        """Part ``p`` of the tiles of a member."""
        cut = fn.slice_cols(p * self.width, (p + 1) * self.width)
        return self.map(i, f"part{p}", cut, self.xs[i])

    def forwarded(self, i: int, step: int, x: Stream) -> Stream:
        """A stream of the previous chip, passed on by this one."""
        return self.map(i, f"forward{step}", fn.part(0, 1), x)

    def joined(self, held: Sequence[Sequence[Stream]]) -> list[Stream]:
        """The parts of every member side by side."""
        return self.each(lambda i: self._side_by_side(i, held[i], "join"))

    def _side_by_side(self, i: int, parts: Sequence[Stream], name: str) -> Stream:
        while len(parts) > 1:
            parts = [
                self.map(i, f"{name}{at}", fn.concat_cols(len(some)), *some)
                if len(some) > 1 else some[0]
                for at, some in _chunks(parts)
            ]  # fmt: skip
            name += "_"
        return parts[0]

    def scattered(self) -> list[Stream]:
        """Part i of the sum on member i, by a ring or directly."""
        n = self.count
        if self.algorithm == "direct":
            return self.each(lambda i: self._summed(i, [self.part(j, i) for j in range(n)]))
        # Member i begins with part i - 1, and adds the parts before it, which end with part i.
        moving = self.each(lambda i: self.part(i, (i - 1) % n))
        for step in range(1, n):
            before = moving
            moving = [
                self.map(
                    i, f"add{step}", fn.add, before[i - 1], self.part(i, (i - 1 - step) % n)
                )
                for i in range(n)
            ]  # fmt: skip
        return moving

    def _summed(self, i: int, xs: Sequence[Stream]) -> Stream:
        (weight,) = self.layer.weights(fn.add)
        name = "add"
        while len(xs) > 1:
            xs = [
                self.map(i, f"{name}{at}", _sum(len(some), weight), *some)
                if len(some) > 1 else some[0]
                for at, some in _chunks(xs)
            ]  # fmt: skip
            name += "_"
        return xs[0]

    def gathered(self, own: list[Stream]) -> list[list[Stream]]:
        """The streams of all members on each of them, by a ring or directly."""
        n = self.count
        if self.algorithm == "direct":
            return [own for _ in range(n)]
        held = [[x] * n for x in own]
        moving = own
        for step in range(1, n):
            arrived = [moving[i - 1] for i in range(n)]
            for i, x in enumerate(arrived):
                held[i][(i - step) % n] = x
            if step < n - 1:
                moving = [self.forwarded(i, step, x) for i, x in enumerate(arrived)]
        return held

    def exchanged(self) -> list[list[Stream]]:
        """Part j of every member on member j."""
        n = self.count
        held = [self.each(lambda j, i=i: self.part(j, i)) for i in range(n)]  # type: ignore[misc]
        if self.algorithm == "direct":
            return held
        for source in range(n):
            for distance in range(2, n):
                end = (source + distance) % n
                for step in range(1, distance):
                    held[end][source] = self.map(
                        (source + step) % n, f"forward{source}_{distance}", fn.part(0, 1),
                        held[end][source],
                    )  # fmt: skip
        return held

    def halved(self) -> list[Stream]:
        """Part i of the sum on member i: with a partner twice as far in every step, half as much.

        Before a step at distance ``d`` a member has its sums of the parts that leave the same rest
        as itself when divided by ``d``; it keeps every other one.
        """
        sums, distance, columns = list(self.xs), 1, self.columns
        while distance < self.count:
            halves = [
                [
                    self.map(i, f"half{distance}_{odd}", _every_other(columns, self.width, odd), x)
                    for odd in range(2)
                ]
                for i, x in enumerate(sums)
            ]
            sums = [
                self.map(i, f"add{distance}", fn.add, halves[i][odd], halves[i ^ distance][odd])
                for i in range(self.count)
                for odd in [bool(i & distance)]
            ]
            distance, columns = 2 * distance, columns // 2
        return sums

    def doubled(self, own: list[Stream], width: int) -> list[Stream]:
        """The tiles of all members side by side on each: the steps of `halved` backwards."""
        distance, columns = self.count // 2, width
        while distance:
            own = [
                self.map(
                    i, f"join{distance}", _interleaved(columns, width), own[i & ~distance],
                    own[i | distance],
                )
                for i in range(self.count)
            ]  # fmt: skip
            distance, columns = distance // 2, 2 * columns
        return own


def check_algorithm(layer: Layer, given: object, count: int, what: str = "algorithm") -> None:
    """Refuse names that are not of an algorithm, and one that this many chips cannot use."""
    if not isinstance(given, str) or given not in ALGORITHMS:
        near = did_you_mean(given, ALGORITHMS) if isinstance(given, str) else "."
        names = ", ".join(f"'{one}'" for one in ALGORITHMS)
        layer.fail(
            ArgError, f"{what} must be one of {names}, found {shown(given)}{near.removesuffix('.')}"
        )
    layer.require(
        given != "halving-doubling" or count & (count - 1) == 0, ArgError,
        f"{what} 'halving-doubling' needs a number of chips that is a power of two, found "
        f"{count}", "use 'ring' or 'direct'",
    )  # fmt: skip


def members(
    name: str, xs: Any, chips: Any, compute_bw: int | None, label: str | None, role: str = "xs"
) -> tuple[Layer, tuple[Stream, ...], tuple[int, ...]]:
    """The layer of a call on a stream for each chip, the streams, and their chips."""
    streams = streams_of(name, role, xs)
    layer = Layer(name, {f"{role}[{i}]": x for i, x in enumerate(streams)}, label, compute_bw)
    layer.require(len(streams) > 0, ArgError, f"{role} is empty; expected a stream for each chip")
    if chips is None:
        own = [x.producer.chip for x in streams]
    else:
        layer.require(
            isinstance(chips, list | tuple | range) and len(chips) == len(streams), ArgError,
            f"chips must be a list of the {len(streams)} chips of {role}, found {shown(chips)}",
        )  # fmt: skip
        own = [layer.number(CHIP, f"chips[{i}]", c) for i, c in enumerate(chips)]
    # Layers that chips divide have no chips=.
    otherwise = ", or name other chips with chips=" if role == "xs" else ""
    seen: dict[int, int] = {}
    for i, number in enumerate(own):
        other = seen.setdefault(number, i)
        layer.require(
            other == i, ArgError, f"{role}[{other}] and {role}[{i}] are both on chip {number}",
            f"make each in `with st.chip(...)`{otherwise}",
        )  # fmt: skip
    return layer, streams, tuple(own)


def _chunks(xs: Sequence[Stream]) -> list[tuple[str, Sequence[Stream]]]:
    """As many streams at a time as one map takes, and the number of each group."""
    if len(xs) <= _OPERANDS:
        return [("", xs)]
    return [(str(at // _OPERANDS), xs[at : at + _OPERANDS]) for at in range(0, len(xs), _OPERANDS)]


@cache
def _sum(count: int, weight: int) -> Function:
    return function(
        "sum_of_tiles", f"{', '.join(['m n'] * count)} -> m n",
        lambda m, n: (count - 1) * weight * m * n, values=_added,
    )  # fmt: skip


def _added(*arrays: Any) -> Any:
    total = arrays[0]
    for one in arrays[1:]:
        total = total + one
    return total


@cache
def _every_other(columns: int, width: int, first: int) -> Function:
    return function(
        "every_other_part", f"m {columns} -> m {columns // 2}", 0, 1, _EveryOther(width, first)
    )


@cache
def _interleaved(columns: int, width: int) -> Function:
    return function(
        "interleaved_parts", f"m {columns}, m {columns} -> m {2 * columns}", 0, 1,
        _Interleaved(width),
    )  # fmt: skip


@dataclass(frozen=True)
class _EveryOther:
    width: int
    first: int

    def __call__(self, x: Any) -> Any:
        rows = len(x)
        return x.reshape(rows, -1, 2, self.width)[:, :, self.first].reshape(rows, -1)


@dataclass(frozen=True)
class _Interleaved:
    width: int

    def __call__(self, a: Any, b: Any) -> Any:
        rows = len(a)
        parts = [x.reshape(rows, -1, 1, self.width) for x in (a, b)]
        return np.concatenate(parts, axis=2).reshape(rows, -1)
