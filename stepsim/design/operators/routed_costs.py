"""FLOPs and parameters of a graph with experts: bounds, and values for a routing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from stepsim.design.operators.given import numbers_of
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.operators.routed import bounds_of, dynamic_dims, routed_rows
from stepsim.design.operators.routed_values import check_counts, indices_of
from stepsim.errors import CompileError
from stepsim.typed import typed


@dataclass(frozen=True)
class RoutedCost:
    """``fixed``, and for each expert a number times its rows, or once if it has rows at all.

    Attributes
    ----------
    fixed : what does not depend on a routing.
    each : of every expert, by routing.
    per_row : ``each`` is of a row; otherwise of an expert with rows.
    rows, k : shape of each routing.
    most : declared maximum of rows of an expert, by routing.
    """

    fixed: int
    each: Mapping[str, tuple[int, ...]]
    per_row: bool
    shapes: Mapping[str, tuple[int, int]]
    most: Mapping[str, int]

    @property
    def bound(self) -> int:
        """The largest value that a routing within the declared maxima can have."""
        total = self.fixed
        for name, each in self.each.items():
            rows, k = self.shapes[name]
            left = rows * k
            for cost in sorted(each, reverse=True):
                taken = min(left, self.most[name] if self.per_row else 1)
                total, left = total + taken * cost, left - taken
        return total

    @typed
    def at(self, routings: Mapping[str, Any]) -> int:
        """The value for experts ``[rows, k]`` of every routing, by name.

        Raises
        ------
        CompileError : a routing is missing or of another shape, or names no expert, or sends an
            expert more rows than declared.
        """
        total = self.fixed
        for name, each in self.each.items():
            found = numbers_of(f"costs: experts of '{name}'", routings.get(name, ()))
            if found.shape != self.shapes[name]:
                raise CompileError(
                    f"costs: give experts {list(self.shapes[name])} of routing '{name}'"
                )
            indices = indices_of(name, found, len(each), "costs")
            counts = np.bincount(indices.ravel(), minlength=len(each)).tolist()
            check_counts(name, counts, self.most[name], "costs")
            for cost, count in zip(each, counts, strict=True):
                total += cost * (count if self.per_row else min(count, 1))
        return total

    def __str__(self) -> str:
        """``1024 + 96 n0 + 96 n1``: rows n0 of expert 0, or ``[n0]``, 1 where it has rows."""
        several = len(self.each) > 1
        terms = [str(self.fixed)]
        for name, each in self.each.items():
            for expert, cost in enumerate(each):
                rows = f"{name}.n{expert}" if several else f"n{expert}"
                terms.append(f"{cost} {rows if self.per_row else f'[{rows}]'}")
        return " + ".join(terms)


@typed
def routed_flops(graph: OperatorGraph) -> RoutedCost:
    """FLOPs, of rows that experts have; rows that fill up tiles are computed besides."""
    rows, dims = routed_rows(graph), dynamic_dims(graph)
    parts: list[_Part] = []
    for op in graph.ops:
        if op.name in dims:
            found = rows[op.output.tensor]
            assert found.expert is not None
            parts.append(((found.routing, found.expert), op.flops // found.most))
        else:
            parts.append((None, op.flops))
    return _cost(graph, parts, per_row=True)


@typed
def routed_parameters(graph: OperatorGraph) -> RoutedCost:
    """Weights that a run reads: those of an expert without rows are not read."""
    rows, dims = routed_rows(graph), dynamic_dims(graph)
    parts: list[_Part] = []
    for tensor in graph.with_role("weight"):
        owners: set[tuple[str, int] | None] = set()
        for op, _ in graph.consumers[tensor.name]:
            found = rows[op.output.tensor] if op.name in dims else None
            if found is None or found.expert is None:
                owners.add(None)
            else:
                owners.add((found.routing, found.expert))
        (owner,) = owners if len(owners) == 1 else (None,)
        parts.append((owner, tensor.elements))
    return _cost(graph, parts, per_row=False)


_Part: TypeAlias = "tuple[tuple[str, int] | None, int]"
"""A cost of an expert, named by routing and number, or of none."""


def _cost(graph: OperatorGraph, parts: Iterable[_Part], *, per_row: bool) -> RoutedCost:
    names = dict.fromkeys(found.routing for found in routed_rows(graph).values())
    bounds = {name: bounds_of(graph, name) for name in names}
    fixed, each = 0, {name: [0] * experts for name, (experts, _) in bounds.items()}
    for owner, cost in parts:
        if owner is None:
            fixed += cost
        else:
            each[owner[0]][owner[1]] += cost
    shapes = {name: (graph.tensors[name].shape[0], graph.tensors[name].shape[1]) for name in names}
    most = {name: rows for name, (_, rows) in bounds.items()}
    return RoutedCost(fixed, {n: tuple(e) for n, e in each.items()}, per_row, shapes, most)
