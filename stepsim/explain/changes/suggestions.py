"""Suggestions from a what-if: changes that help and can be built, without near-duplicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from stepsim.errors import ArgError
from stepsim.explain.changes.candidates import Change
from stepsim.explain.changes.cost import nearly_equal
from stepsim.explain.changes.runs import WhatIf
from stepsim.simulation import Rerun, Variant, save_fix
from stepsim.typed import typed


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
    rerun: Rerun | None = field(default=None, repr=False, compare=False)

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

    @property
    def is_of_data(self) -> bool:
        """Whether it changes the routing, which is not part of a program."""
        return self.variant.bindings is not None

    @typed
    def save(self, path: str | PathLike[str]) -> None:
        """Write it as a fix, for ``fix=`` of :func:`simulate` and ``--fix`` of ``stepsim run``.

        The program with the fix takes exactly :attr:`cycles`.

        Raises
        ------
        ArgError
            It changes the routing, or it was made in another process.
        OutputError
            The file cannot be written.
        """
        if self.is_of_data:
            raise ArgError(
                f"suggestion '{self.description}': another routing is not part of a program, so "
                "that no fix has it; save another suggestion"
            )
        if self.rerun is None:
            raise ArgError(
                f"suggestion '{self.description}': writing it needs the program, which other "
                "processes do not have; save it where it was made"
            )
        base = self.rerun.prepared
        about = {"change": self.description, "cycles": [self.cycles]}
        changed = self.variant.applied(base)
        save_fix(path, changed, base, about, self.change.overrides)

    def to_dict(self) -> dict[str, Any]:
        """The row of the table, and the change, as plain values for JSON."""
        return {
            **self.row,
            "targets": list(self.targets),
            "variant": self.variant.described(),
            "balanced_routing": self.variant.bindings is not None,
        }


def suggestions(found: WhatIf, rerun: Rerun | None = None) -> tuple[Suggestion, ...]:
    """Changes that help and can be built, best first; ``rerun`` is the run without them.

    Of equally good changes of one kind only the first is kept: it changes least, or gains most for
    its cost.
    """
    chosen: list[Suggestion] = []
    for row, change in zip(found.table.to_pylist(), found.changes, strict=True):
        if not change.buildable or (row["gain_cycles"] or 0) <= 0:
            continue
        one = Suggestion(change, found.variants[change.name], row, rerun)
        same = [other for other in chosen if other.kind == one.kind]
        if not any(nearly_equal(other.gain, one.gain) and _within(other, one) for other in same):
            chosen.append(one)
    return tuple(chosen)


def _within(less: Suggestion, more: Suggestion) -> bool:
    """Whether the second one changes as much as the first, or more."""
    return len(less.targets) <= len(more.targets)
