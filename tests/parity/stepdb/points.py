"""The table of points: settings, parameters and published cycles; machine and program of a point.

The table is ``data/stepdb/points.csv`` of the shared folder, or the file that STEPSIM_STEPDB names.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stepsim as st
from tests.parity.stepdb import elementwise, matmuls, moe, normalization, rotary
from tests.parity.stepdb.router import experts_of_tokens
from tests.shared import DATA

__all__ = [
    "SHARED_TABLE",
    "TABLE",
    "WORKLOADS",
    "Point",
    "machine_of",
    "program_of",
    "read_points",
    "routing_of",
]

SHARED_TABLE = DATA / "stepdb" / "points.csv"
TABLE = Path(os.environ.get("STEPSIM_STEPDB") or SHARED_TABLE)

WORKLOADS: dict[str, Callable[..., None]] = {
    name: getattr(family, name)
    for family in (elementwise, matmuls, moe, normalization, rotary)
    for name in family.__all__
}
"""What builds each workload inside the open program, with the parameters of a point."""

COMPUTE_BUDGET = 100_000
"""FLOPs per cycle that the compute units of a program share evenly."""

COMPUTE_UNITS = {"UnaryMap", "BinaryMap", "BinaryMapAccum", "Accum"}


@dataclass(frozen=True)
class Point:
    """One published run: the columns of its row."""

    row: dict[str, str]

    @property
    def name(self) -> str:
        return self.row["id"]

    @property
    def workload(self) -> str:
        return self.row["workload"]

    @property
    def determined(self) -> bool:
        """Graph and parameters of the run are all known."""
        return self.row["determined"] == "yes"

    @property
    def routed(self) -> bool:
        return bool(self.row["routing_check"])

    @property
    def published(self) -> int:
        return int(self.row["cycles"])

    @property
    def params(self) -> dict[str, int]:
        given: dict[str, int] = json.loads(self.row["params"])
        return {key.lower(): value for key, value in given.items()}

    @property
    def tolerance(self) -> float:
        """Of routed points: when their experts notice the end of their stream is left open."""
        return 0.04 if self.name == "moe_routed.med_d256_nf2" else 0.0025


def read_points(path: Path) -> list[Point]:
    """All points of a table."""
    with path.open(newline="", encoding="utf-8") as file:
        return [Point(row) for row in csv.DictReader(file)]


def machine_of(point: Point) -> st.Machine:
    """The machine of the STeP paper with the settings of a point."""
    row = {key: int(value) for key, value in point.row.items() if value.isdecimal()}
    return st.load_machine(
        "sda-1024",
        overrides={
            "name": "stepdb",
            "hbm.request_bytes": row["request_bytes"],
            "hbm.channels": row["channels"],
            "hbm.latency": row["latency"],
            "hbm.interval": row["interval"],
            "hbm.startup": row["startup"],
            "onchip.bytes_per_cycle": row["onchip_bytes_per_cycle"],
            "fifo.depth": row["fifo_depth"],
        },
    )


def program_of(point: Point) -> st.Program:
    """The program of a point, whose compute units share the budget."""
    units = sum(unit.kind in COMPUTE_UNITS for unit in st.graph.wire(_built(point, 1)).units)
    assert units == int(point.row["compute_units"]), point.name
    share = max(1, round(COMPUTE_BUDGET / units))
    assert share == int(point.row["compute_bw_per_unit"]), point.name
    return _built(point, share)


def _built(point: Point, compute_bw: int) -> st.Program:
    dispatch = int(point.row["par_dispatch"])
    build = WORKLOADS[point.workload]
    with st.Program(point.name, compute_bw=compute_bw, par_dispatch=dispatch) as program:
        build(**point.params)
    return program


def routing_of(point: Point) -> str:
    """What the experts of a routed point must be: ``routing_check`` recomputed."""
    chosen: dict[str, Any] = {
        key: point.params[key] for key in ("b", "d", "f", "n_experts", "n_active")
    }
    experts = experts_of_tokens(**chosen)
    tokens = [int((experts == number).sum()) for number in range(chosen["n_experts"])]
    first = ["-".join(map(str, row)) for row in experts[:4]]
    return f"tokens_per_expert={'/'.join(map(str, tokens))};first={'/'.join(first)}"
