"""``Effort``: the engine steps that the search for a design may take, and what it left out.

Steps are those of the engine, so that a search ends at the same design on any machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FIXED_RUNS = 10
"""Runs of all groups that a design takes before its FIFOs are shrunk: orders, kernels alone, FIFOs
within kernels, unbounded FIFOs, the planned depths and their repairs."""


@dataclass
class Effort:
    """Steps that are left.

    Attributes
    ----------
    left : engine steps.
    unsearched : what was left out since they were used up, a sentence each.
    """

    left: int
    unsearched: list[str] = field(default_factory=list)

    def runs(self, asked: int, steps: int, groups: int) -> int:
        """Most runs, up to ``asked``, that shrink the FIFOs of one of some groups.

        Parameters
        ----------
        steps : of one run.
        groups : that are still to be sized, this one among them.
        """
        return min(asked, self.left // (groups * max(1, steps)))

    def spend(self, runs: int, steps: int) -> None:
        """Count runs of so many steps each."""
        self.left = max(0, self.left - runs * steps)

    def allows(self, steps: int) -> bool:
        """Whether another design, whose runs take so many steps, can be made."""
        return FIXED_RUNS * steps <= self.left

    def leave(self, text: str) -> None:
        """Report what is not searched."""
        self.unsearched.append(text)
