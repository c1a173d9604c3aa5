"""Rows and entries that whole numbers choose in a run, for :class:`GraphBuilder`.

An address off chip is fixed when a program is made, so that numbers that a run computes are
compared with all positions of an axis: what they choose is a sum over the positions, of which one
counts. Numbers that are no position choose nothing, which gives 0 in a run; evaluating the graph
refuses them.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepsim.arguments import is_whole, shown
from stepsim.design.operators.building.recorder import Labels, Ref
from stepsim.design.operators.building.windows import Windows
from stepsim.design.operators.selections import CHOSEN, rank_body
from stepsim.typed import typed_class

POSITION = "f32"
"""Scalar type of positions, exact up to 2**24; whole numbers of other types cannot be loaded."""


@typed_class
class Selecting(Windows):
    """Gather, scatter, and the largest values.

    ``positions`` is an input of the numbers 0, 1, 2, ..., at least as many as the axis has places.
    """

    def take(self, x: Ref, indices: Ref, positions: Ref, axis: int = 0) -> Ref:
        """Positions of an axis by whole numbers, whose axes take its place: ``x[indices]``.

        Notes
        -----
        3 FLOPs for each element of the result and position of the axis.
        """
        at = self.axis("take", x, axis)
        labels = [f"d{i}" for i in range(x.rank)]
        chosen = [f"i{i}" for i in range(indices.rank)]
        output = [*labels[:at], *chosen, *labels[at + 1 :]]
        return self._chosen("take", (indices, chosen), positions, (x, labels), labels[at], output)

    def gather(self, x: Ref, indices: Ref, positions: Ref, axis: int = -1) -> Ref:
        """``x[.., indices[.., j, ..], ..]`` along an axis; other axes are those of the indices."""
        at = self.axis("gather", x, axis)
        labels = [f"d{i}" for i in range(x.rank)]
        chosen = [*labels[:at], "j", *labels[at + 1 :]]
        return self._chosen("gather", (indices, chosen), positions, (x, labels), labels[at], chosen)

    def scatter(self, source: Ref, indices: Ref, positions: Ref, size: int, axis: int = -1) -> Ref:
        """Zeros with a source added at positions of an axis: ``y[.., indices[.., j, ..], ..]``.

        Parameters
        ----------
        size : of the axis of the result.
        """
        at = self.axis("scatter", source, axis)
        labels = [f"d{i}" for i in range(source.rank)]
        given = [*labels[:at], "j", *labels[at + 1 :]]
        positions = self._first(positions, size)
        return self._chosen(
            "scatter", (indices, given), positions, (source, given), labels[at], labels
        )

    def add_rows(self, source: Ref, indices: Ref, positions: Ref, size: int, axis: int = 0) -> Ref:
        """Zeros with position j of an axis of a source added at position ``indices[j]``.

        Parameters
        ----------
        size : of the axis of the result.
        """
        at = self.axis("add_rows", source, axis)
        labels = [f"d{i}" for i in range(source.rank)]
        given = [*labels[:at], "j", *labels[at + 1 :]]
        positions = self._first(positions, size)
        return self._chosen(
            "add_rows", (indices, ["j"]), positions, (source, given), labels[at], labels
        )

    def rank(self, x: Ref, positions: Ref, axis: int = -1, least: bool = False) -> Ref:
        """How many values of an axis come before each one in falling order, or rising if ``least``.

        Of equal values the first comes first.

        Notes
        -----
        6 FLOPs for each pair of values of an axis.
        """
        at = self.axis("rank", x, axis)
        labels = [f"d{i}" for i in range(x.rank)]
        others = [*labels[:at], "other", *labels[at + 1 :]]
        positions = self._first(positions, x.shape[at])
        operands: list[tuple[Ref, Labels]] = [
            (x, labels), (x, others), (positions, [labels[at]]), (positions, ["other"]),
        ]  # fmt: skip
        output = [(label,) for label in labels]
        return self.record(
            "rank", operands, output, body=rank_body(least), combine="sum", dtype=POSITION
        )

    def ranked(
        self, rank: Ref, positions: Ref, count: int, x: Ref | None = None, axis: int = -1
    ) -> Ref:
        """The first values of an axis in the order of :meth:`rank`, or without them their places.

        Parameters
        ----------
        count : how many.
        """
        at = self.axis("ranked", rank, axis)
        if not is_whole(count) or not 1 <= count <= rank.shape[at]:
            self.fail(f"ranked: count is {shown(count)}", f"use an int from 1 to {rank.shape[at]}")
        labels = [f"d{i}" for i in range(rank.rank)]
        output = [*labels[:at], "j", *labels[at + 1 :]]
        places = self._first(positions, rank.shape[at])
        values: tuple[Ref, Labels] = (places, [labels[at]]) if x is None else (x, labels)
        first = self._first(positions, count)
        return self.record(
            "places" if x is None else "ranked", [(rank, labels), (first, ["j"]), values],
            [(label,) for label in output], body=CHOSEN, combine="sum",
            dtype=POSITION if x is None else None,
        )  # fmt: skip

    def cumsum(self, x: Ref, axis: int = -1) -> Ref:
        """Sums along an axis, each with all that came before it."""
        at = self.axis("cumsum", x, axis)
        labels = [f"d{i}" for i in range(x.rank)]
        return self.record(
            "cumsum", [(self.single(x), labels)], [(label,) for label in labels], kind="scan",
            attributes={"along": labels[at]},
        )  # fmt: skip

    def _first(self, positions: Ref, count: int) -> Ref:
        if positions.rank != 1 or positions.shape[0] < count:
            self.fail(f"positions are {positions}", f"give the numbers from 0 to {count - 1}")
        return self.slice(positions, 0, 0, count)

    def _chosen(
        self, name: str, indices: tuple[Ref, Labels], positions: Ref, values: tuple[Ref, Labels],
        along: str, output: Sequence[str],
    ) -> Ref:  # fmt: skip
        if along in values[1]:
            positions = self._first(positions, values[0].shape[list(values[1]).index(along)])
        return self.record(
            name, [indices, (positions, [along]), values], [(label,) for label in output],
            body=CHOSEN, combine="sum",
        )  # fmt: skip
