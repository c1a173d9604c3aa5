"""The rules of stream types, with one message for each broken rule."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import NamedTuple

from stepsim.itensor.affine import AffineMap
from stepsim.shown import shown

RULES = (
    "symbols",
    "trips_vs_dims",
    "steps_vs_trips",
    "dynamic_element",
    "rank",
    "nonpositive_element",
    "nonpositive_trip",
    "nonpositive_step",
    "depth",
    "lower_bound",
)
"""Names of all rules, in the order in which they are reported."""


class Violation(NamedTuple):
    """A broken rule, and how to fix it."""

    rule: str
    message: str


def violations(
    element: Sequence[int | None],
    trips: Sequence[int],
    steps: Sequence[int],
    map: AffineMap,
    depth: int,
) -> tuple[Violation, ...]:
    """Every rule that the parts of a type break, each with one message; empty for a valid type.

    ``None`` in ``element`` is an extent that is not known at compile time.
    """
    found = []

    def broken(rule: str, message: str) -> None:
        found.append(Violation(rule, message))

    if map.num_symbols:
        broken(
            "symbols",
            f"the map declares {map.num_symbols} symbols, expected 0; an order that depends on "
            "data has no itensor: put the numbers in, or leave the stream untyped",
        )
    if len(trips) != map.num_dims:
        broken(
            "trips_vs_dims",
            f"{len(trips)} trip counts, but the map has {map.num_dims} loops; give one per loop",
        )
    if len(steps) != len(trips):
        broken(
            "steps_vs_trips",
            f"{len(steps)} steps for {len(trips)} trip counts; give one per loop",
        )
    dynamic = [i for i, size in enumerate(element) if size is None]
    if dynamic:
        broken(
            "dynamic_element",
            f"element dims {_listed(dynamic)} are dynamic; tokens have one size: give the largest "
            "and pad, or leave the stream untyped",
        )
    if len(element) != len(map.results):
        broken(
            "rank",
            f"the element has {len(element)} dims, but the map gives {len(map.results)} offsets; "
            "give one per data dim, 0 for a dim in which the token has the full size",
        )
    for rule, what, sizes in (
        ("nonpositive_element", "element dim", element),
        ("nonpositive_trip", "trip count of loop", trips),
        ("nonpositive_step", "step of loop", steps),
    ):
        small = [f"{i} is {size}" for i, size in enumerate(sizes) if size is not None and size < 1]
        if small:
            hint = "; count downwards by a negative coefficient" if "step" in what else ""
            broken(rule, f"{what} {_listed(small)}, expected at least 1{hint}")
    given: object = depth
    if isinstance(given, bool) or not isinstance(given, Integral) or depth < 1:
        broken("depth", f"FIFO depth {shown(depth)}, expected an integer, at least 1")
    if not {v.rule for v in found} & {"trips_vs_dims", "steps_vs_trips", "nonpositive_trip"}:
        lowest = [
            const
            + sum(
                min(0, c * s * (n - 1)) for c, n, s in zip(coefficients, trips, steps, strict=True)
            )
            for coefficients, const in map.results
        ]
        wrong = [
            f"{low} along data dim {i} (add {-low} to the constant of result {i})"
            for i, low in enumerate(lowest)
            if low
        ]
        # A negative step moves the range as well; in that case the step is what must be fixed.
        if wrong and "nonpositive_step" not in {v.rule for v in found}:
            broken("lower_bound", f"the smallest offset is {_listed(wrong)}, expected 0")
    return tuple(found)


def _listed(items: Sequence[object]) -> str:
    return ", ".join(f"{item}" for item in items)
