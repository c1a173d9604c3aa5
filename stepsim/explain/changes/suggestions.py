"""Suggestions from a what-if: changes that help and can be built, without near-duplicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stepsim.explain.changes.candidates import Change
from stepsim.explain.changes.cost import nearly_equal
from stepsim.explain.changes.runs import WhatIf
from stepsim.simulation import Variant


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change and its measured effect: a row of :class:`~stepsim.explain.WhatIf`.

    Attributes
    ----------
    change : its name, its targets, and how to make it.
    variant : the change as a variant to run; `Variant.applied` returns the changed program.
    row : its row of the table, by column.
    """

    change: Change
    variant: Variant
    row: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """As `Change.kind`."""
        return self.change.kind

    @property
    def target(self) -> str:
        """What it changes as short text, with ``*`` for lanes; empty for the machine."""
        return self.change.target

    @property
    def targets(self) -> tuple[str, ...]:
        """Operators or FIFOs that it changes."""
        return self.change.targets

    @property
    def description(self) -> str:
        """Its name."""
        return self.change.name

    @property
    def cycles(self) -> int:
        """Cycles of the run with the change."""
        return int(self.row["cycles"])

    @property
    def gain_cycles(self) -> int:
        """Number of cycles by which the run is shorter."""
        return int(self.row["gain_cycles"])

    @property
    def gain(self) -> float:
        """Saved fraction of the run."""
        return float(self.row["gain"])

    def to_dict(self) -> dict[str, Any]:
        """The row of the table, and the change, as plain values for JSON."""
        return {
            **self.row,
            "targets": list(self.targets),
            "variant": self.variant.described(),
            "balanced_routing": self.variant.bindings is not None,
        }


def suggestions(found: WhatIf) -> tuple[Suggestion, ...]:
    """Changes that help and can be built, best first.

    Of equally good changes of one kind only the first is kept: it changes least, or gains most for
    its cost.
    """
    chosen: list[Suggestion] = []
    for row, change in zip(found.table.to_pylist(), found.changes, strict=True):
        if not change.buildable or (row["gain_cycles"] or 0) <= 0:
            continue
        one = Suggestion(change, found.variants[change.name], row)
        same = [other for other in chosen if other.kind == one.kind]
        if not any(nearly_equal(other.gain, one.gain) and _within(other, one) for other in same):
            chosen.append(one)
    return tuple(chosen)


def _within(less: Suggestion, more: Suggestion) -> bool:
    """Whether the second one changes as much as the first, or more."""
    return len(less.targets) <= len(more.targets)
