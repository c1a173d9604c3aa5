"""Stalls as a tree: stage, operator, cause; experts, regions and lanes are one row with a spread.

A program with 128 experts has 128 units of every operator of an expert, named ``matmul_up.60#832``.
They are *lanes* of one operator, ``matmul_up.*``; what matters to a reader is their spread and
which one is slowest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.arrow import pa
from stepsim.frozen import frozen
from stepsim.results.columns import schema
from stepsim.results.places import Place as Place, operators_of, place_of as place_of
from stepsim.typed import typed

_SINGLE: Final = "single units"
"""Stage of operators with neither a prefix nor lanes."""


@frozen
class Spread:
    """Cycles over the active lanes of an operator.

    Attributes
    ----------
    total : of all lanes.
    least, median, most : of one lane.
    slowest : the unit with the most.
    """

    total: int
    least: int
    median: int
    most: int
    slowest: str


@frozen
class Cause:
    """A cause on which an operator spent cycles.

    Attributes
    ----------
    cause : ``work``, ``memory``, ``network`` (for packets and messages), ``input``, ``output``,
        ``before`` (the first firing) or ``after`` (the last one).
    peer : for input and output the operator at the other end, otherwise empty.
    """

    cause: str
    peer: str
    cycles: Spread


@frozen
class OperatorStalls:
    """The stall breakdown of one operator over all its lanes.

    Attributes
    ----------
    stage, operator : see `Place`; a stage without a name is named after its lanes.
    kind : kind of its units.
    lanes, active : units, and those of them that fired.
    work, stalled : cycles of work, and of waits between the first and the last firing.
    causes : longest first, by the longest of all lanes.
    source : line of the user's code that made the operator, as ``file:line``; None without one.
    """

    stage: str
    operator: str
    kind: str
    lanes: int
    active: int
    work: Spread
    stalled: Spread
    causes: tuple[Cause, ...]
    source: str | None = None


@frozen(slots=False)
class StallTree:
    """Where the cycles of a run went.

    Attributes
    ----------
    cycles : length of the run.
    operators : in program order.
    """

    cycles: int
    operators: tuple[OperatorStalls, ...]

    @property
    def stages(self) -> Mapping[str, Sequence[OperatorStalls]]:
        """The operators of every stage."""
        found: dict[str, list[OperatorStalls]] = {}
        for one in self.operators:
            found.setdefault(one.stage, []).append(one)
        return found

    @cached_property
    def table(self) -> pa.Table:
        """One row for each cause of each operator, as an Arrow table."""
        rows = [
            {
                "stall_stage": one.stage, "stall_group": one.operator, "stall_lanes": one.lanes,
                "active_lanes": one.active, "cause": cause.cause, "stall_peer": cause.peer,
                "total_cycles": cause.cycles.total, "least_cycles": cause.cycles.least,
                "median_cycles": cause.cycles.median, "most_cycles": cause.cycles.most,
                "slowest_unit": cause.cycles.slowest, "source": one.source,
            }
            for one in self.operators
            for cause in one.causes
        ]  # fmt: skip
        return pa.Table.from_pylist(rows, schema=schema("stalls", _COLUMNS, _COLUMNS[:-1]))

    def to_dict(self) -> dict[str, Any]:
        """All fields, as plain values for JSON."""
        return {"cycles": self.cycles, "operators": [asdict(one) for one in self.operators]}


_COLUMNS: Final = (
    "stall_stage", "stall_group", "stall_lanes", "active_lanes", "cause", "stall_peer",
    "total_cycles", "least_cycles", "median_cycles", "most_cycles", "slowest_unit", "source",
)  # fmt: skip

_OWN: Final = {
    "busy": "work",
    "wait_memory": "memory",
    "before": "before",
    "after": "after",
}
"""Columns of units, by cause."""

RECEIVERS: Final = {
    "ReceivePacket": "the network on chip",
    "ReceiveMessage": "the links between chips",
}
"""Kinds of units whose waits for memory are those for tokens of a network, and what carries
them."""


@typed
def stall_tree(units: pa.Table, fifos: pa.Table) -> StallTree:
    """The stalls of a run, by stage, operator and cause.

    Parameters
    ----------
    units, fifos : tables of a `Result`, or as read from the files of one.

    Returns
    -------
    StallTree
        Lanes that never fired are only counted. Over all other lanes the cycles of an
        operator's causes add up to those of the run, times the lanes.
    """
    names = units["name"].to_pylist()
    sources = units["source"].to_pylist() if "source" in units.column_names else [None] * len(names)
    columns = {name: units[name].to_numpy() for name in (*_OWN, "wait_input", "wait_output")}
    firings = units["firings"].to_numpy()
    groups = operators_of(units)
    group_of = {names[unit]: name for name, _, members in groups for unit in members}
    waits = _waits_of_units(fifos, {name: number for number, name in enumerate(names)}, group_of)
    stalled = columns["wait_input"] + columns["wait_output"] + columns["wait_memory"]
    found = []
    for operator, kind, members in groups:
        active = [unit for unit in members if firings[unit]]
        place = place_of(names[members[0]])
        # Labels may contain a star themselves.
        is_laned = bool(place.lane) and len(members) > 1
        stage = place.stage or (f"{len(members)} lanes" if is_laned else _SINGLE)
        found.append(
            OperatorStalls(
                stage=stage,
                operator=operator,
                kind=kind,
                lanes=len(members),
                active=len(active),
                work=_spread(columns["busy"], active, names),
                stalled=_spread(stalled, active, names),
                causes=_causes(active, columns, waits, names, kind in RECEIVERS),
                source=sources[members[0]],
            )
        )
    cycles = int(np.max(sum(columns.values()), initial=0)) if names else 0
    return StallTree(cycles, tuple(found))


def _waits_of_units(
    fifos: pa.Table, numbers: Mapping[str, int], group_of: Mapping[str, str]
) -> dict[int, list[tuple[str, str, int]]]:
    """For each unit its waits for others: cause, operator at the other end, cycles."""
    found: dict[int, list[tuple[str, str, int]]] = {}
    ends = fifos["producer"].to_pylist(), fifos["consumer"].to_pylist()
    waited = fifos["consumer_wait"].to_pylist(), fifos["producer_wait"].to_pylist()
    for producer, consumer, wait_in, wait_out in zip(*ends, *waited, strict=True):
        if wait_in:
            found.setdefault(numbers[consumer], []).append(("input", group_of[producer], wait_in))
        if wait_out:
            found.setdefault(numbers[producer], []).append(("output", group_of[consumer], wait_out))
    return found


def _causes(
    active: Sequence[int],
    columns: Mapping[str, NDArray[np.int64]],
    waits: Mapping[int, Sequence[tuple[str, str, int]]],
    names: Sequence[str],
    receives: bool,
) -> tuple[Cause, ...]:
    """The causes of the cycles of an operator, without those of zero cycles."""
    found: dict[tuple[str, str], dict[int, int]] = {
        ("network" if receives and cause == "memory" else cause, ""): {
            unit: int(columns[column][unit]) for unit in active
        }
        for column, cause in _OWN.items()
    }
    for unit in active:
        for cause, peer, cycles in waits.get(unit, ()):
            of_lanes = found.setdefault((cause, peer), dict.fromkeys(active, 0))
            of_lanes[unit] += cycles
    made = [
        Cause(cause, peer, _spread(np.array([*lanes.values()]), range(len(active)), own))
        for (cause, peer), lanes in found.items()
        if any(lanes.values())
        for own in [[names[unit] for unit in lanes]]
    ]
    return tuple(sorted(made, key=lambda one: -one.cycles.most))


def _spread(values: NDArray[np.int64], chosen: Sequence[int], names: Sequence[str]) -> Spread:
    if not len(chosen):
        return Spread(0, 0, 0, 0, "")
    of_lanes = values[np.asarray(chosen)]
    slowest = chosen[int(of_lanes.argmax())]
    return Spread(
        total=int(of_lanes.sum()),
        least=int(of_lanes.min()),
        median=int(np.median(of_lanes)),
        most=int(of_lanes.max()),
        slowest=names[slowest],
    )
