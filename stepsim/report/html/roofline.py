"""The FLOPs of an operator per off-chip byte, and its speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Reals = npt.NDArray[np.float64]


def roofline(units: pa.Table, fifos: pa.Table, cycles: int) -> dict[str, Any]:
    """Intensity and speed of each operator that computes.

    Returns
    -------
    ``unit``: numbers of the units; ``intensity``: FLOPs per off-chip byte; ``speed``: FLOPs per
    cycle from the first token of a unit to its last; ``bytes``; ``without``: the number of units
    that only use results of other operators, and therefore have no intensity.
    """
    flops = units["flops"].to_numpy()
    moved = moved_bytes(units, fifos)
    active = cycles - units["before"].to_numpy() - units["after"].to_numpy()
    computes = (flops > 0) & (active > 0)
    shown = np.flatnonzero(computes & (moved > 0))
    return {
        "unit": shown.tolist(),
        "intensity": (flops[shown] / moved[shown]).tolist(),
        "speed": (flops[shown] / active[shown]).tolist(),
        "bytes": np.rint(moved[shown]).astype(np.int64).tolist(),
        "without": int(computes.sum()) - len(shown),
    }


def moved_bytes(units: pa.Table, fifos: pa.Table) -> _Reals:
    """Off-chip bytes of each unit that computes: loads that reach it, and stores of its outputs.

    Loaded data reaches every unit after the load up to the first that computes, and stored data
    comes from the last that computed. A broadcast passes all bytes on to each output; with other
    units of several FIFOs, each FIFO gets its share of the tokens.
    """
    numbers = {name: index for index, name in enumerate(units["name"].to_pylist())}
    producers = [numbers[name] for name in fifos["producer"].to_pylist()]
    consumers = [numbers[name] for name in fifos["consumer"].to_pylist()]
    sent = fifos["sent"].to_numpy()
    operators = units["operator"].to_pylist()
    computes = units["flops"].to_numpy() > 0
    own = units["offchip_bytes"].to_numpy().astype(float)
    sends = np.isin(np.arange(len(own)), producers)
    # A store sends nothing; a load may receive its requests.
    forward = _carried(np.where(sends, own, 0.0), computes, producers, consumers, sent, operators)
    back = _carried(np.where(sends, 0.0, own), computes, consumers, producers, sent, operators)
    return np.where(computes, forward + back + own, 0.0)


def _carried(
    origin: _Reals,
    computes: npt.NDArray[np.bool_],
    sources: Sequence[int],
    targets: Sequence[int],
    tokens: npt.NDArray[np.int64],
    operators: Sequence[str],
) -> _Reals:
    """The bytes that arrive at each unit, from their origin to the first units that compute.

    Units on a cycle without a computing unit pass nothing on.
    """
    count = len(origin)
    # A load receives addresses.
    passes = ~computes & (origin == 0)
    totals = np.bincount(sources, tokens, count)
    outgoing: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    degree = np.zeros(count, dtype=np.int64)
    for source, target, own in zip(sources, targets, tokens.tolist(), strict=True):
        copied = operators[source] == "Broadcast"
        share = 1.0 if copied else own / totals[source] if totals[source] else 0.0
        if passes[source] or origin[source]:
            outgoing[source].append((target, share))
            degree[target] += 1
    arrived = np.zeros(count)
    ready = np.flatnonzero((origin != 0) | (passes & (degree == 0))).tolist()
    while ready:
        unit = ready.pop()
        passed = origin[unit] or arrived[unit]
        for target, share in outgoing[unit]:
            arrived[target] += passed * share
            degree[target] -= 1
            if passes[target] and not degree[target]:
                ready.append(target)
    return arrived
