"""The stalls of two runs side by side: a compact breakdown of each, and their differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stepsim.arguments import shown
from stepsim.arrow import pa
from stepsim.errors import ArgError
from stepsim.results.places import unnumbered
from stepsim.results.schemas import FIFOS_SCHEMA
from stepsim.results.stalls import stall_tree
from stepsim.typed import typed

Stalls = Mapping[str, Mapping[str, int]]
"""Operator -> `LANES`, the number of active units, and cycles by cause, summed over these units."""

LANES: Final = "lanes"

_WORDS: Final = {
    "work": "work",
    "memory": "memory",
    "network": "network",
    "input": "input from",
    "output": "room at",
    "others": "tokens and room",
    "before": "first token",
}
"""Causes of a stall tree in words. The idle time of a unit after its last token follows from the
others."""


_OWN: Final = (_WORDS["work"], _WORDS["memory"], _WORDS["network"])
"""Causes that do not depend on when other units send and take tokens."""

_SMALL: Final = 0.01

_WAITS: Final = ("memory", "network", "input", "output")


@dataclass(frozen=True, slots=True)
class StallChange:
    """Cycles that the lanes of an operator spent on a cause, each on average, in two runs."""

    operator: str
    cause: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """Additional cycles over the first run."""
        return self.after - self.before


def stalls_of(units: pa.Table, fifos: pa.Table | None) -> dict[str, dict[str, int]]:
    """The stalls of a run by operator and cause, small enough to be kept.

    An operator whose label is unique is listed without its number, as another operator before it
    would change the number.

    Parameters
    ----------
    units, fifos : tables of a `Result`, or as read from the files of one. Without the FIFOs, which
        sweeps do not keep, all waits for other units are combined into one cause.
    """
    if fifos is None:
        fifos = FIFOS_SCHEMA.empty_table()
    operators = [one for one in stall_tree(units, fifos).operators if one.active]
    labels = {one.operator: unnumbered(one.operator) for one in operators}
    # Operators of different kinds may share a label: the load and the product of a weight.
    known = Counter({(label, name) for name, label in labels.items()})
    alone = Counter(label for label, _ in known)
    short = {name: label if alone[label] == 1 else name for name, label in labels.items()}
    found: dict[str, dict[str, int]] = {}
    for one in sorted(operators, key=lambda one: (short[one.operator], one.kind)):
        causes = {LANES: one.active}
        for cause in one.causes:
            if cause.cause in _WORDS:
                peer = short.get(cause.peer, cause.peer)
                causes[f"{_WORDS[cause.cause]} {peer}".strip()] = cause.cycles.total
        waited = sum(c.cycles.total for c in one.causes if c.cause in _WAITS)
        if others := one.stalled.total - waited:
            causes[_WORDS["others"]] = others
        found[f"{short[one.operator]} ({one.kind})"] = dict(sorted(causes.items()))
    return found


@typed
def stall_changes(before: Stalls, after: Stalls) -> list[StallChange]:
    """Every operator and cause whose cycles differ, root causes first.

    The own cycles of operators, in work, off-chip accesses and the network, come before waits for
    others, which follow from them and add up along a pipeline; within each part the largest change
    is first.
    Own changes below a hundredth of the largest change are listed among the waits.
    """
    for name in (*before, *after):
        if not isinstance(name, str):
            raise ArgError(f"stall_changes: expected names of operators, found {shown(name)}")
    found = []
    for operator in dict.fromkeys([*after, *before]):
        first, second = before.get(operator, {}), after.get(operator, {})
        for cause in dict.fromkeys([*second, *first]):
            means = _mean(first, cause), _mean(second, cause)
            if cause != LANES and means[0] != means[1]:
                found.append(StallChange(operator, cause, *means))
    small = _SMALL * max((abs(one.change) for one in found), default=0.0)

    def rank(one: StallChange) -> tuple[bool, float, str, str]:
        size = abs(one.change)
        return one.cause not in _OWN or size < small, -size, one.operator, one.cause

    return sorted(found, key=rank)


def _mean(operator: Mapping[str, int], cause: str) -> float:
    return operator.get(cause, 0) / operator[LANES] if operator else 0.0
