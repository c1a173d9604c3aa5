"""Which units a FIFO joins: one that sends and one that receives, or what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import LoweringError
from stepsim.lowering.network import Network, UnitSpec
from stepsim.lowering.rows.row import refused
from stepsim.lowering.rows.unit_layout import LAYOUTS, layout_of


def endpoints_of(network: Network) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Producer and consumer of every channel, by number of the unit. [channels] each

    Raises
    ------
    LoweringError : a channel has not exactly one of each, a unit has a wrong number of them, an
        operator is unknown, or two units have one name.
    """
    units, count = network.units, len(network.channels)
    inputs, outputs = [spec.inputs for spec in units], [spec.outputs for spec in units]
    producers, consumers = _ends(outputs, count), _ends(inputs, count)
    arities = set(zip([s.op for s in units], map(len, inputs), map(len, outputs), strict=True))
    if (
        producers is None
        or consumers is None
        or len({spec.name for spec in units}) < len(units)
        or not all(
            op in LAYOUTS
            and LAYOUTS[op].inputs in (None, incoming)
            and LAYOUTS[op].outputs in (None, outgoing)
            for op, incoming, outgoing in arities
        )
    ):
        _refuse_wiring(network)
    return producers, consumers


def _refuse_wiring(network: Network) -> NoReturn:
    """Name the first unit or FIFO that is wrong."""
    count = len(network.channels)
    producers, consumers = [-1] * count, [-1] * count
    names: set[str] = set()
    for u, spec in enumerate(network.units):
        if spec.name in names:
            raise LoweringError(f"two units are named '{spec.name}'; names must be unique")
        names.add(spec.name)
        layout = layout_of(spec)
        if not (
            layout.inputs in (None, len(spec.inputs))
            and layout.outputs in (None, len(spec.outputs))
        ):
            _refuse_arity(spec)
        for ends, used in ((producers, spec.outputs), (consumers, spec.inputs)):
            for c in used:
                if not (0 <= c < count and ends[c] < 0):
                    role = "producer" if ends is producers else "consumer"
                    _refuse_end(network, spec, role, c, ends)
                ends[c] = u
    role, ends = ("producer", producers) if -1 in producers else ("consumer", consumers)
    name = network.channels[ends.index(-1)].name
    raise LoweringError(f"FIFO '{name}' has no {role}")


def _refuse_arity(spec: UnitSpec) -> NoReturn:
    row = layout_of(spec).row
    for word, found in (("inputs", len(spec.inputs)), ("outputs", len(spec.outputs))):
        expected = row.arity(word)
        if expected is not None and expected != found:
            break
    raise refused(spec, f"{found} {word}, expected {expected}")


def _refuse_end(network: Network, spec: UnitSpec, role: str, c: int, ends: list[int]) -> NoReturn:
    count = len(ends)
    if not 0 <= c < count:
        raise refused(spec, f"there is no FIFO {c}; the network has {count}, numbered from 0")
    other, channel = network.units[ends[c]].name, network.channels[c].name
    raise LoweringError(
        f"FIFO '{channel}' has two {role}s, '{other}' and '{spec.name}'; use a Broadcast or a merge"
    )


def _ends(used: Sequence[Sequence[int]], count: int) -> NDArray[np.int64] | None:
    """The unit that uses each of ``count`` channels, of those that every unit uses; None unless
    each channel is used once."""
    sizes = np.fromiter(map(len, used), np.int64, len(used))
    channels = np.fromiter(chain.from_iterable(used), np.int64)
    if len(channels) != count or np.any((channels < 0) | (channels >= count)):
        return None
    ends = np.full(count, -1)
    ends[channels] = np.repeat(np.arange(len(used)), sizes)
    return None if np.any(ends < 0) else ends
