"""Our cycles beside the published ones, and what counts as agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import stepsim as st
from tests.parity.stepdb.points import Point, machine_of, program_of

__all__ = ["END_OF_RUN", "Compared", "compare", "problems"]

END_OF_RUN = (0, 1, 2)
"""Cycles from a published total to the canonical one.

The public simulator ends 1, 2 or 3 cycles after its last memory operator, depending on how its
threads were scheduled; one graph is in the table twice, with 858 and 859 cycles.
"""


@dataclass(frozen=True)
class Compared:
    """A point and the cycles that we find."""

    point: Point
    ours: int

    @property
    def difference(self) -> int:
        return self.ours - self.point.published

    @property
    def exact(self) -> bool:
        """Nothing but the end of the run can differ."""
        return self.difference in END_OF_RUN

    @property
    def agrees(self) -> bool:
        slack = self.point.tolerance * self.point.published if self.point.routed else 0
        return self.exact or abs(self.difference) <= slack

    def __str__(self) -> str:
        point = self.point
        return f"{point.name} {self.ours} {point.published} {self.difference:+d}"


def compare(point: Point, closure_slack: int = 0) -> Compared:
    """Build and simulate a point; with a slack, ends of streams are noticed earlier."""
    machine = st.load_machine(machine_of(point), overrides={"closure_slack": closure_slack})
    result = st.simulate(program_of(point), machine=machine)
    assert result.status == "ok", (point.name, result.diagnosis)
    assert result.cycles is not None
    return Compared(point, result.cycles)


def problems(found: Sequence[Compared], known: Sequence[Compared]) -> list[str]:
    """Points of ``found`` that differ, and whether too many of the routed ones of ``known`` do."""
    failed = [str(one) for one in found if not one.agrees]
    routed = [one for one in known if one.point.routed]
    exact = sum(one.exact for one in routed)
    if 3 * exact < 2 * len(routed):
        failed.append(f"only {exact} of {len(routed)} routed points are within {END_OF_RUN}")
    return failed
