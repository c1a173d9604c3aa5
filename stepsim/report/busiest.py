"""The units of a run that worked longest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from stepsim.frozen import frozen


@frozen
class BusyUnit:
    """The breakdown of one unit: cycles that add up to the run, and its longest wait for a peer.

    ``label``, ``function`` and ``source`` (``file:line``) are those of its operator, where it has
    them.
    """

    name: str
    operator: str
    busy: int
    wait_memory: int
    wait_input: int
    wait_output: int
    before: int
    after: int
    longest_wait: str | None
    label: str | None = None
    function: str | None = None
    source: str | None = None


def busiest_units(units: Mapping[str, Any], count: int = 5) -> tuple[BusyUnit, ...]:
    """The ``count`` units that worked longest; ties are broken by position.

    ``units`` are the columns of a result's table, by name: sequences or arrays.
    """
    order = np.argsort(-np.asarray(units["busy"]), kind="stable")[:count].tolist()
    names = [field.name for field in fields(BusyUnit)]
    return tuple(
        BusyUnit(**{name: _plain(units[name][index]) for name in names}) for index in order
    )


def busiest_resource(
    units: Sequence[BusyUnit], cycles: int, bus_bytes: int, peak_bytes: int | None
) -> str:
    """The busiest resource of a run, in words: the memory or the first of ``units``.

    ``peak_bytes`` is what the memory can move in the run; None if each unit has its own memory. The
    share of the memory is that of its bus, which moves whole requests: bandwidth utilization, in
    which bytes are counted as chosen, is another number.
    """
    memory = bus_bytes / peak_bytes if peak_bytes else 0.0
    work = units[0].busy / cycles if units else 0.0
    if memory > work:
        share = f"{100 * memory:.1f} % of the run"
        return f"busiest is the off-chip memory, whose bus moves requests {share}"
    return f"busiest is {units[0].name}, which works {100 * work:.1f} % of the run"


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
