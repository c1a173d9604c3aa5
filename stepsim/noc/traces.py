"""Event traces of tt-npe: what the cores of a Tenstorrent chip read and wrote, and when.

A file is a JSON list of events with the names that tt-npe documents (``proc``, ``noc``, ``type``,
``sx``, ``sy``, ``dx``, ``dy``, ``num_bytes``, ``timestamp``, ...), or a JSON object with ``events``
as rows of numbers: time, kind (0 read, 1 and 2 begin and end of a barrier), network, processor, row
and column of the core and, of a read, row and column of the source and bytes. Files whose names end
in ``.jsonl`` have an object in every line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeGuard

import numpy as np

from stepsim.errors import TraceError
from stepsim.machine import Network, load_network
from stepsim.noc.run import NocRun
from stepsim.noc.topology import Topology
from stepsim.noc.traffic import Traffic, traffic_of
from stepsim.shown import shown
from stepsim.typed import typed

BARRIER_CYCLES: Final = 20
"""Cycles of the barrier at the end of a trace, which are no part of its length."""

_DEVICES: Final = {"wormhole_b0": "wormhole", "blackhole": "blackhole"}
_NETWORKS: Final = {"NOC_0": 0, "NOC_1": 1}
_QUIET: Final = (
    "READ_BARRIER_START", "READ_BARRIER_END", "READ_BARRIER_WITH_TRID", "READ_SET_TRID",
    "WRITE_BARRIER_START", "WRITE_BARRIER_END", "WRITE_BARRIER_WITH_TRID", "WRITE_FLUSH",
    "FULL_BARRIER", "ATOMIC_BARRIER", "SEMAPHORE_INC", "SEMAPHORE_WAIT", "SEMAPHORE_SET",
)  # fmt: skip
"""Events that move no data of a size that the trace states."""


@dataclass(frozen=True)
class NocTrace:
    """The reads and writes of a trace, in its order.

    Attributes
    ----------
    name : of the file, or as the trace says.
    network : name of the network of its device; None where the trace does not state it.
    first, last : cycles of the first event and of the last without its barrier.
    measured_cycles : from the first to the last, on silicon.
    is_read : whether each transfer is a read. [transfers]
    columns : issue time, places, network and bytes of each.
    """

    name: str
    network: str | None
    first: int
    last: int
    is_read: np.ndarray[Any, np.dtype[np.bool_]] = field(repr=False)
    columns: Mapping[str, Any] = field(repr=False)

    @property
    def measured_cycles(self) -> int:
        """Cycles that the silicon took."""
        return self.last - self.first

    @typed
    def traffic(self, network: Network | str | Path) -> Traffic:
        """The transfers on a network: each starts by its latency after its event.

        Raises
        ------
        TraceError : the network states no latencies.
        ArgError : a place outside the grid, or a network that there is not.
        MachineError : no such network.
        """
        described = load_network(network)
        latencies = described.latencies
        if latencies is None:
            raise TraceError(
                f"{self.name}: a trace needs latencies of reads and writes, and network "
                f"'{described.name}' states none; state latencies, or use wormhole or blackhole"
            )
        topology = Topology(described)
        columns = dict(self.columns)
        found = traffic_of(columns, topology.places, described.cols, described.networks)
        row, col = np.divmod(found.source, described.cols)
        to_row, to_col = np.divmod(found.destination, described.cols)
        read = np.select(
            [found.source == found.destination, col == to_col, row == to_row],
            [latencies.same_node, latencies.same_column, latencies.same_row],
            latencies.other,
        )
        hops = topology.routes(found.source, found.destination, found.network).links
        write = latencies.write + latencies.write_per_hop * hops
        columns["time"] = found.time + np.where(self.is_read, read, write)
        return traffic_of(columns, topology.places, described.cols, described.networks)

    @typed
    def cycles(self, run: NocRun) -> float:
        """Cycles of a simulated run of the trace that compare with the measured ones.

        With the model ``npe`` only transfers that start within the trace count, as in tt-npe.
        """
        if run.model == "npe":
            return run.cycles_of(self.first, self.last)
        return max(0.0, run.cycles - self.first)


@typed
def read_traces(path: str | Path) -> list[NocTrace]:
    """The traces of a file.

    Raises
    ------
    TraceError : the file is unreadable, not JSON, or an event lacks something.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".jsonl":
            documents = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            documents = [json.loads(text)]
    except (OSError, ValueError, RecursionError) as error:
        raise TraceError(f"{file}: {error}; expected a trace of tt-npe in JSON") from error
    if not documents:
        raise TraceError(f"{file}: is empty; expected a trace of tt-npe in JSON")
    return [
        _of_rows(document, f"{file}, trace {number}", file.stem)
        if isinstance(document, Mapping)
        else _of_events(document, str(file), file.stem)
        for number, document in enumerate(documents)
    ]


def _of_rows(document: Mapping[str, Any], where: str, name: str) -> NocTrace:
    rows = document.get("events")
    if not isinstance(rows, list):
        raise TraceError(f"{where}: expected a list 'events', found keys {', '.join(document)}")
    times, chosen = [], []
    for at, row in enumerate(rows):
        whole = isinstance(row, list) and all(_is_number(one) for one in row)
        if not whole or len(row) < 6 or row[1] not in (0, 1, 2) or len(row) < 9 - 3 * (row[1] > 0):
            raise TraceError(
                f"{where}, event {at}: expected whole numbers from 0: time, kind 0 to 2, network, "
                f"processor, row and column, and of a read row, column and bytes; found "
                f"{shown(row)}"
            )
        times.append(row[0])
        if row[1] == 0 and row[8] > 0:
            chosen.append(row)
    window = document.get("window", _window(times))
    pair = isinstance(window, list) and len(window) == 2 and all(map(_is_number, window))
    if not pair or window[0] > window[1]:
        raise TraceError(
            f"{where}: expected a first and a last cycle as 'window', found {shown(window)}"
        )
    device = document.get("device")
    if device is not None and not (isinstance(device, str) and device in _DEVICES):
        raise TraceError(
            f"{where}: device {shown(device)} has no preset; expected one of {', '.join(_DEVICES)}"
        )
    table = np.array(chosen, np.int64).reshape(-1, 9)
    columns = {
        "time": table[:, 0], "network": table[:, 2], "source": table[:, 6:8],
        "destination": table[:, 4:6], "bytes": table[:, 8],
    }  # fmt: skip
    return NocTrace(
        str(document.get("id", name)), None if device is None else _DEVICES[device],
        window[0], window[1], np.ones(len(table), np.bool_), columns,
    )  # fmt: skip


def _of_events(events: Any, where: str, name: str) -> NocTrace:
    if not isinstance(events, list):
        raise TraceError(f"{where}: expected a list of events, or an object with 'events'")
    stamps = [_whole(event, "timestamp", where, at) for at, event in enumerate(events)]
    begin = min(stamps, default=0)
    rows: list[tuple[bool, int, int, list[int], list[int], list[int], int]] = []
    states: dict[tuple[Any, ...], dict[str, Any]] = {}
    for at, given in enumerate(events):
        kind = str(given.get("type", ""))
        if kind in _QUIET:
            continue
        if not kind.startswith(("READ", "WRITE")):
            raise TraceError(
                f"{where}, event {at}: unknown type {kind!r}; expected the types of tt-npe, such "
                "as READ, WRITE or READ_BARRIER_START"
            )
        # Whatever names a processor: files need not have texts.
        issuer = *(str(given.get(key)) for key in ("sx", "sy", "proc")), kind.partition("_")[0]
        if kind.endswith("SET_STATE"):
            states[issuer] = given
            continue
        event = given
        if kind.endswith(("WITH_STATE", "WITH_STATE_AND_TRID")):
            # What an earlier event of the same processor has set.
            state = states.get(issuer, {})
            event = {**state, **{key: one for key, one in given.items() if one is not None}}
        nbytes = _whole(event, "num_bytes", where, at)
        if nbytes == 0:
            continue
        noc = event.get("noc")
        if not (isinstance(noc, str) and noc in _NETWORKS):
            raise TraceError(
                f"{where}, event {at}: expected noc NOC_0 or NOC_1, found {shown(noc)}"
            )
        core = [_whole(event, axis, where, at) for axis in ("sy", "sx")]
        if "mcast_start_x" in event:
            corners = [
                [_whole(event, f"mcast_{end}_{axis}", where, at) for axis in "yx"]
                for end in ("start", "end")
            ]
            other = [min(pair) for pair in zip(*corners, strict=True)]
            last = [max(pair) for pair in zip(*corners, strict=True)]
        else:
            other = last = [_whole(event, axis, where, at) for axis in ("dy", "dx")]
        read = kind.startswith("READ")
        source, target, end = (other, core, core) if read else (core, other, last)
        rows.append((read, stamps[at] - begin, _NETWORKS[noc], source, target, end, nbytes))
    first, last_cycle = _window([stamp - begin for stamp in stamps])
    columns = {
        "time": [row[1] for row in rows], "network": [row[2] for row in rows],
        "source": [row[3] for row in rows], "destination": [row[4] for row in rows],
        "last": [row[5] for row in rows], "bytes": [row[6] for row in rows],
    }  # fmt: skip
    return NocTrace(
        name, None, first, last_cycle, np.array([row[0] for row in rows], np.bool_), columns
    )


def _window(times: Sequence[int]) -> list[int]:
    """The first event, and the last without its barrier."""
    first, last = min(times, default=0), max(times, default=0)
    return [first, max(first, last - BARRIER_CYCLES)]


def _whole(event: Any, name: str, where: str, at: int) -> int:
    value = event.get(name) if isinstance(event, Mapping) else None
    if not _is_number(value):
        raise TraceError(
            f"{where}, event {at}: expected a whole number {name!r} from 0, found {shown(value)}"
        )
    return value


def _is_number(value: Any) -> TypeGuard[int]:
    """A whole number that a table holds."""
    return type(value) is int and 0 <= value < 1 << 62
