"""Operators of rows that a routing sends to experts, for :class:`GraphBuilder`."""

from __future__ import annotations

from collections.abc import Sequence

from stepsim.arguments import is_whole, shown
from stepsim.design.operators.building.recorder import Labels, Ref
from stepsim.design.operators.building.selecting import Selecting
from stepsim.typed import typed_class

MOST_EXPERTS = 4096
"""Each of them has operators of its own; the largest models that are known have some hundred."""


@typed_class
class RoutedBuilder(Selecting):
    """Dispatch, choice and combination, see :mod:`stepsim.design.operators.routed`."""

    def routing(self, name: str, rows: int, k: int) -> Ref:
        """Which ``k`` experts each row goes to: an input ``[rows, k]`` that a run is bound to."""
        return self.input(name, (rows, k), "u32")

    def dispatch(
        self, x: Ref, routing: Ref, experts: int, max_rows: int | None = None
    ) -> tuple[Ref, ...]:
        """The rows of ``x`` that each expert gets, in their order, as ``[max_rows, D]`` each.

        Parameters
        ----------
        max_rows : declared maximum of rows of an expert; None is all rows of ``x``.
        """
        if x.rank != 2 or routing.rank != 2 or x.shape[0] != routing.shape[0]:
            self.fail(f"dispatch: found {x} and routing {routing}", "give [rows, D] and [rows, k]")
        if not is_whole(experts) or not 1 <= experts <= MOST_EXPERTS:
            what = f"dispatch: experts is {shown(experts)}"
            self.fail(what, f"use an int from 1 to {MOST_EXPERTS:,}, as each of them has its rows")
        most = x.shape[0] if max_rows is None else max_rows
        if not is_whole(most) or not 1 <= most <= x.shape[0]:
            self.fail(f"dispatch: max_rows is {shown(most)}", f"use an int from 1 to {x.shape[0]}")
        if experts * most < routing.shape[0] * routing.shape[1]:
            self.fail(
                f"dispatch: {experts} experts of at most {most} rows cannot take the "
                f"{routing.shape[0]} rows of {routing.shape[1]} experts each", "raise max_rows"
            )  # fmt: skip
        made = self.record(
            "dispatch",
            [(self.select(self._as_stored(x), 0, 0), ["n"]), (self._entry(routing), [])],
            [("e",), ("r",), ("n",)], kind="dispatch",
            attributes={"expert": "e", "row": "r"}, sizes={"e": experts, "r": most},
        )  # fmt: skip
        return tuple(self.select(made, 0, expert) for expert in range(experts))

    def choose(self, scores: Ref, routing: Ref) -> Ref:
        """The scores ``[rows, k]`` of the experts that each row goes to, of ``[rows, experts]``."""
        if scores.rank != 2 or routing.rank != 2 or scores.shape[0] != routing.shape[0]:
            self.fail(f"choose: found {scores} and routing {routing}",
                      "give [rows, experts] and [rows, k]")  # fmt: skip
        scores = self._as_stored(scores)
        experts = scores.shape[1]
        return self.record(
            "choose", [(self.select(scores, 1, 0), ["s"]), (routing, ["s", "k"])],
            [("s",), ("k",)], kind="choose",
            attributes={"row": "s", "slot": "k", "experts": experts},
        )  # fmt: skip

    def combine(self, results: Sequence[Ref], weights: Ref, routing: Ref) -> Ref:
        """The results of the experts of each row, times its weights, added up: ``[rows, D]``.

        Parameters
        ----------
        results : ``[max_rows, D]`` of every expert, in the order of :meth:`dispatch`.
        weights : ``[rows, k]``, in the order of the routing.
        """
        if not results or any(x.shape != results[0].shape or x.rank != 2 for x in results):
            self.fail(f"combine: results are {' and '.join(map(repr, results)) or 'missing'}",
                      "give rows [max_rows, D] of each expert")  # fmt: skip
        if weights.shape != routing.shape:
            self.fail(f"combine: weights are {weights}, the routing is {routing}",
                      "give a weight for each expert of a row")  # fmt: skip
        operands: list[tuple[Ref, Labels]] = [
            (self._as_stored(weights), ["s", "k"]), (self._entry(routing), []),
        ]  # fmt: skip
        operands += [(self.select(self._as_stored(x), 0, 0), ["n"]) for x in results]
        return self.record(
            "combine", operands, [("s",), ("n",)], kind="combine",
            attributes={"row": "s", "slot": "k"},
        )  # fmt: skip

    def _as_stored(self, x: Ref) -> Ref:
        """The value as a tensor of its own where it is a part or another view of one."""
        return x if self._current(x).is_plain(self._tensors[x.tensor].stored) else self.copy(x)

    def _entry(self, routing: Ref) -> Ref:
        return self.select(self.select(routing, 0, 0), 0, 0)
