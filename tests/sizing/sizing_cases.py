"""Networks whose FIFOs are to be sized, with expected values, and what is searched exhaustively."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from stepsim.lowering import ChannelSpec, Network, UnitSpec, build_image
from stepsim.sizing import ProgramRuns
from tests.oracle.cases import timing_of
from tests.shared import STREAMTENSOR_CASES

__all__ = [
    "SizingCase",
    "least_slots",
    "runs_of",
    "sizing_case",
    "sizing_cases",
    "uniform_depth",
]

_NEED_BPE = frozenset({"Accum"})


@dataclass(frozen=True)
class SizingCase:
    """A network of ``sizing_step.json``; its README defines all values.

    ``sized`` are the numbers of the FIFOs e0, e1, ...
    """

    name: str
    network: Network
    sized: tuple[int, ...]
    expected: dict[str, Any]


def sizing_cases() -> list[SizingCase]:
    """All cases, none where the shared data are missing."""
    path = STREAMTENSOR_CASES / "sizing_step.json"
    if not path.is_file():
        return []
    return [sizing_case(raw) for raw in json.loads(path.read_text())["cases"]]


def sizing_case(raw: dict[str, Any]) -> SizingCase:
    """A case with the units of the engine."""
    network = raw["network"]
    machine, names = network["machine"], list(network["channels"])
    number = {name: i for i, name in enumerate(names)}
    units = []
    for unit in network["units"]:
        op, params = unit["op"], dict(unit["params"])
        if op == "Flatten" and params["lo"] == params["hi"]:
            # Flattening one dim is nothing, in a cycle: the engine has no such unit.
            op, params = "Broadcast", {}
        if op in _NEED_BPE:
            params["bpe"] = machine["float_bpe"]
        ins, outs = (tuple(number[name] for name in unit[side]) for side in ("in", "out"))
        units.append(UnitSpec(unit["name"], op, ins, outs, params))
    timing = timing_of(machine)
    channels = tuple(ChannelSpec(name, network["channels"][name]) for name in names)
    sized = tuple(number[f"e{i}"] for i in range(len(raw["edges"])))
    return SizingCase(raw["id"], Network(tuple(units), channels, timing), sized, raw["expected"])


def runs_of(network: Network, sized: Sequence[int], limits: Any = None) -> ProgramRuns:
    """The FIFOs of a network that are to be sized; in ``network`` they are unbounded."""
    return ProgramRuns(
        name="network",
        images=[build_image(network)],
        timing=network.timing,
        sized=np.array(sized),
        alike=np.arange(len(sized)),
        bounds=np.zeros(len(network.channels), np.int64),
        checks=[None],
        **({} if limits is None else {"limits": limits}),
    )


def uniform_depth(sized: ProgramRuns) -> int:
    """The least common depth of the sized FIFOs with which the run is as fast as unbounded."""
    fifos = len(sized.sized)
    for depth in count(1):
        (runs,) = sized.run([np.full(fifos, depth)])
        if runs.status[0] == "ok" and runs.cycles[0] <= sized.cycles[0]:
            return depth
    raise AssertionError


def least_slots(sized: ProgramRuns, target: int, most: int) -> int:
    """The fewest slots of all sized FIFOs with which the run takes ``target`` cycles at most.

    By trying every choice of depths of 1, 2, ... slots more than one each; ``most`` are enough.
    """
    fifos = len(sized.sized)
    for more in range(most - fifos + 1):
        choices = [np.array(one) + 1 for one in _split(more, fifos)]
        (runs,) = sized.run(choices)
        if any(s == "ok" and c <= target for s, c in zip(runs.status, runs.cycles, strict=True)):
            return fifos + more
    raise AssertionError


def _split(total: int, parts: int) -> list[tuple[int, ...]]:
    """All ways to write a number as a sum of so many numbers from 0."""
    if parts == 1:
        return [(total,)]
    return [(i, *rest) for i in range(total + 1) for rest in _split(total - i, parts - 1)]
