"""Two runs side by side, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from stepsim.results.columns import EVERY_MEASURE
from stepsim.results.comparing.inputs import provenance_changes
from stepsim.results.comparing.numbers import within_spread
from stepsim.results.comparing.programs import listing_of, program_changes
from stepsim.results.comparing.stalls import StallChange, Stalls, stall_changes
from stepsim.results.diagnosis import ENDED

_NOT_COMPARED: Final = ("peak_bandwidth", "engine_steps")
"""The first is of the machine, the second of the simulator."""


class Pair(NamedTuple):
    """A value of the run before and of the one after."""

    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs.

    Attributes
    ----------
    status, counting : how the runs ended, and how their bytes and FLOPs are counted.
    numbers : the measures that both have.
    noise : whether their cycles differ within the spread of both ensembles; None where one has no
        ensemble or did not complete.
    changed : what they depend on and that differs, in words.
    stalls : where their cycles went otherwise.
    """

    status: Pair
    counting: Pair
    numbers: Mapping[str, Pair]
    noise: bool | None
    changed: tuple[str, ...]
    stalls: tuple[StallChange, ...]

    @property
    def comparable(self) -> bool:
        """Whether both runs completed, so that their totals can be compared."""
        return all(one in ENDED for one in self.status)


def compare_runs(
    before: Mapping[str, Any], after: Mapping[str, Any], stalls: tuple[Stalls, Stalls]
) -> RunComparison:
    """Compare the rows of two runs, as files of runs hold them, and their ``stalls``."""
    status = Pair(before["status"], after["status"])
    changed = provenance_changes(before["provenance"], after["provenance"])
    if before["provenance"].get("program_hash") != after["provenance"].get("program_hash"):
        first, second = (
            listing_of(one["outline"]) if one.get("outline") else None for one in (before, after)
        )
        changed[:0] = program_changes(first, second)
    # A run does not depend on its limits until one of them stops it.
    if "limit" in status and status.before != status.after:
        changed.append(f"a limit stopped {'AB'[status.index('limit')]}")
    return RunComparison(
        status,
        Pair(*(one.get("counting", "executed") for one in (before, after))),
        {
            name: Pair(before[name], after[name])
            for name in EVERY_MEASURE
            if name in before and name in after and name not in _NOT_COMPARED
        },
        within_spread(before, after) if set(status) <= set(ENDED) else None,
        tuple(changed),
        tuple(stall_changes(*stalls)),
    )
