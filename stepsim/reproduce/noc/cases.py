"""Recorded traffic on networks on chip, and what other programs made of it.

The files of a folder: ``npe_random.jsonl`` (tt-npe), ``silicon.jsonl`` (traces of Wormhole, with
the cycles measured, and tt-npe), ``link.jsonl`` (the rules of the model ``link``, and BookSim2 on
some of the same packets) and ``booksim_curves.csv`` (BookSim2 over rates).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import TraceError
from stepsim.machine import Network, load_network
from stepsim.noc import NocRun, NocTrace, read_traces, simulate

DEVICES: Final = {"wormhole_b0": "wormhole", "blackhole": "blackhole"}
"""Networks by the names that tt-npe gives the devices."""

MEMORY_CYCLES: Final = 100
"""Of an access to GDDR6, about 100 ns at about 1 GHz; the table of latencies does not have it."""


@dataclass(frozen=True)
class Case:
    """A recorded case: its name, and all that is recorded of it."""

    name: str
    recorded: Mapping[str, Any] = field(repr=False)

    def array(self, key: str) -> NDArray[Any]:
        """Recorded numbers."""
        return np.array(self.recorded[key])


def read_cases(path: Path) -> list[Case]:
    """The cases of a file, one in every line.

    Raises
    ------
    TraceError : the file is unreadable, or a line is not a case.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines if line.strip()]
        return [Case(str(one["id"]), one) for one in found]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{path}: {error}; expected a recorded case in every line") from error


def replay_npe(case: Case, *, congestion: bool = True) -> tuple[NocRun, float]:
    """A case of tt-npe by the model ``npe``, and its cycles."""
    rows = case.recorded["transfers"]
    columns = {
        "bytes": [row[0] * row[1] for row in rows],
        "packets": [row[1] for row in rows],
        "network": [row[2] for row in rows],
        "source": [row[3:5] for row in rows],
        "destination": [row[5:7] for row in rows],
        # A multicast has ten fields, the corners of its rectangle among them.
        "last": [row[7:9] if len(row) == 10 else row[5:7] for row in rows],
        "time": [row[-1] for row in rows],
    }
    run = simulate(
        columns, DEVICES[case.recorded["device"]], model="npe", step=case.recorded["dt"],
        congestion=congestion,
    )  # fmt: skip
    return run, run.cycles_of(0, case.recorded["golden_end"])


def replay_link(case: Case) -> NocRun:
    """A case of packets on a mesh by the model ``link``."""
    packets = case.array("packets").reshape(-1, 4)
    columns = dict(zip(("time", "source", "destination", "flits"), packets.T, strict=True))
    return simulate(columns, mesh(case.recorded["ky"], case.recorded["kx"], case.recorded))


def mesh(rows: int, cols: int, flits: Mapping[str, Any] | None = None) -> Network:
    """A mesh with the router of BookSim2, or with other settings of flits."""
    names = ("router", "wire", "inject", "quantum")
    changed = {f"flits.{name}": flits[name] for name in names} if flits else {}
    return load_network("mesh", {"rows": rows, "cols": cols, **changed})


@dataclass(frozen=True)
class TraceModel:
    """A way to simulate a trace: its name on the page, and the arguments of `simulate`."""

    name: str
    recorded: str
    options: Mapping[str, Any]


TRACE_MODELS: Final = (
    TraceModel(
        "npe, no congestion", "npe_cycles_no_congestion", {"model": "npe", "congestion": False}
    ),
    TraceModel("npe", "npe_cycles", {"model": "npe"}),
    TraceModel("link, whole transfers", "link_cycles", {"model": "link"}),
    TraceModel(
        "link, memory_cycles = 100", "link_cycles_dram100",
        {"model": "link", "memory_cycles": MEMORY_CYCLES},
    ),
    TraceModel("flow", "flow_cycles", {"model": "flow"}),
    TraceModel(
        "flow, memory_cycles = 100", "flow_cycles_dram100",
        {"model": "flow", "memory_cycles": MEMORY_CYCLES},
    ),
)  # fmt: skip
"""How traces of silicon are simulated, and the recorded result of each."""


def replay_trace(trace: NocTrace, model: TraceModel) -> tuple[NocRun, float]:
    """A trace of silicon by a model, and its cycles."""
    assert trace.network is not None
    run = simulate(trace.traffic(trace.network), trace.network, **model.options)
    return run, trace.cycles(run)


def recorded_traces(folder: Path) -> Iterator[tuple[Case, NocTrace]]:
    """The traces of silicon of a folder, each with what is recorded of it.

    Raises
    ------
    TraceError : as `read_cases`.
    """
    path = folder / "silicon.jsonl"
    yield from zip(read_cases(path), read_traces(path), strict=True)
