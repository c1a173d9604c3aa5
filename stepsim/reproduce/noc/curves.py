"""Curves of latency over load of BookSim2, and the model ``link`` at the same loads."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import TraceError
from stepsim.noc import simulate
from stepsim.reproduce.noc.cases import mesh

MOST_LOAD: Final = 0.6
"""Share of saturation up to which curves are compared for acceptance."""

_PACKETS: Final = 40_000
_MOST_CYCLES: Final = 60_000
_WARM_UP: Final = 1_000
_COOL_DOWN: Final = 500  # cycles whose packets may lack those behind them
_HOT_NODES: Final = {4: 5, 8: 27}
_ROUTER_VARIATIONS: Final = "var_"


class CurvePoint(NamedTuple):
    """A point of a curve.

    Attributes
    ----------
    name : of the point.
    load : rate of injection, as a share of the one at saturation.
    reference, ours : mean latency of packets in cycles.
    """

    name: str
    load: float
    reference: float
    ours: float

    @property
    def error(self) -> float:
        """Of ours, relative to the reference, in percent."""
        return 100 * (self.ours / self.reference - 1)


def curve_points(path: Path, most_load: float = MOST_LOAD) -> list[CurvePoint]:
    """The points of a file up to a load, each simulated with packets of its own.

    The packets are drawn by rate, size and pattern as BookSim2 draws them, not the same ones. Its
    sample is small at low rates, so the latency on an empty network, which both have in common, is
    taken for the mean distance of its packets, and contention from ours.

    Raises
    ------
    TraceError : the file is unreadable, or lacks a column.
    """
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        return [
            _point(row)
            for row in rows
            if not row["tag"].startswith(_ROUTER_VARIATIONS)
            and row["stable"] == "True"
            and float(row["load"]) <= most_load
        ]
    except (OSError, KeyError, ValueError) as error:
        raise TraceError(f"{path}: {error}; expected curves of BookSim2") from error


def _point(row: dict[str, str]) -> CurvePoint:
    side, size, rate = int(row["k"]), int(row["size"]), float(row["rate"])
    places = side * side
    draw = np.random.default_rng(1)
    per_cycle = rate / size
    cycles = int(min(_MOST_CYCLES, _PACKETS / (places * per_cycle)))
    time, source = np.nonzero(draw.random((cycles, places)) < per_cycle)
    network = mesh(side, side)
    columns = {
        "time": time, "source": source, "flits": np.full(len(time), size),
        "destination": _destinations(row["traffic"], side, source, draw),
    }  # fmt: skip
    run = simulate(columns, network)
    counted = (time >= _WARM_UP) & (time < cycles - _COOL_DOWN)
    flits = network.flits
    assert flits is not None
    empty = flits.inject + (flits.router + flits.wire) * float(row["hops"]) + size - 1
    ours = empty + float(run.contention[counted].mean())
    return CurvePoint(row["tag"], float(row["load"]), float(row["packet_latency"]), ours)


def _destinations(pattern: str, side: int, source: NDArray[Any], draw: Any) -> NDArray[np.int64]:
    y, x = np.divmod(source, side)
    found = {
        "uniform": draw.integers(0, side * side, len(source)),
        "transpose": x * side + y,
        "neighbor": (y + 1) % side * side + (x + 1) % side,
        "hotspot": np.full(len(source), _HOT_NODES[side]),
    }
    return np.asarray(found[pattern], np.int64)
