"""A recorded run over time: memory, on-chip bytes and what units do, in bins of equal length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import Range
from stepsim.deferred import deferred
from stepsim.results.arrays import arrow_table
from stepsim.results.events import Events, Memory
from stepsim.results.occupancy import levels, onchip_levels

if TYPE_CHECKING:
    import pyarrow as pa

    from stepsim.results import schemas
else:
    schemas = deferred("stepsim.results.schemas")

BINS: Final = Range(1_000_000, "of equal length", low=1)

_Amounts = NDArray[Any]
_Times = NDArray[np.int64]

_INPUT: Final = ("token", "closure", "decision")
"""Causes of waits for an input; the others are ``slot``, ``memory`` and ``packet``."""


def timeline(events: Events, bins: Any = 100) -> pa.Table:
    """The run in ``bins`` intervals, equal to within a cycle; fewer if it has fewer cycles.

    Raises
    ------
    ArgError : ``bins`` is not a valid number of bins.
    """
    count = min(BINS.checked("timeline: bins", bins), events.cycles)
    edges = np.arange(count + 1) * events.cycles // max(count, 1)
    columns: dict[str, Any] = {
        "bin": np.arange(count, dtype=np.int32),
        "begin": edges[:-1],
        "end": edges[1:],
        **_memory(events, edges),
        **_onchip(events, edges),
        **_units(events, edges),
    }
    return arrow_table(columns, schemas.TIMELINE_SCHEMA)


def link_timeline(events: Events, bins: Any = 100) -> pa.Table:
    """The load of every link over time, in ``bins`` intervals as those of `timeline`.

    Raises
    ------
    ArgError : ``bins`` is not a valid number of bins.
    """
    count = min(BINS.checked("link_timeline: bins", bins), events.cycles)
    edges = np.arange(count + 1) * events.cycles // max(count, 1)
    used = np.unique(events.passed["port"])
    bounds = (
        np.searchsorted(events.passed["port"], used, side="left"),
        np.searchsorted(events.passed["port"], used, side="right"),
    )
    shares = []
    for first, after in zip(*(bound.tolist() for bound in bounds), strict=True):
        own = events.passed[first:after]
        begin, end = (np.minimum(own[name], events.cycles) for name in ("begin", "end"))
        shares.append(binned_mean(begin, end, np.ones(len(own)), edges))
    columns: dict[str, Any] = {
        "link_name": [events.ports[port] for port in used.tolist() for _ in range(count)],
        "bin": np.tile(np.arange(count, dtype=np.int32), len(used)),
        "begin": np.tile(edges[:-1], len(used)),
        "end": np.tile(edges[1:], len(used)),
        "link_load": np.concatenate([np.zeros(0), *shares]),
    }
    return arrow_table(columns, schemas.LINK_TIMELINE_SCHEMA)


def binned_mean(begin: _Times, end: _Times, amount: _Amounts, edges: _Times) -> NDArray[Any]:
    """Mean of a sum in every bin; amounts count from their beginning to their end."""
    total = _ramp(begin, amount, edges) - _ramp(end, amount, edges)
    found: NDArray[Any] = np.diff(total) / np.diff(edges)
    return found


def _ramp(begin: _Times, slope: _Amounts, at: _Times) -> NDArray[Any]:
    """The sum, at given times, of lines that rise from zero at their beginning."""
    order = np.argsort(begin, kind="stable")
    begin, slope = begin[order].astype(np.float64), slope[order].astype(np.float64)
    slopes = np.concatenate(([0.0], np.cumsum(slope)))
    lags = np.concatenate(([0.0], np.cumsum(slope * begin)))
    count = np.searchsorted(begin, at, side="left")
    found: NDArray[Any] = slopes[count] * at - lags[count]
    return found


def binned_peak(at: _Times, value: _Amounts, edges: _Times) -> NDArray[Any]:
    """Largest value in every bin of a step function that takes each value from its time on."""
    first = np.searchsorted(at, edges[:-1], side="right") - 1
    after = np.searchsorted(at, edges[1:], side="left")
    spans = np.stack((first, after), axis=1).ravel()
    found: NDArray[Any] = np.maximum.reduceat(np.append(value, 0), spans)[::2]
    return found


def _memory(events: Events, edges: _Times) -> dict[str, Any]:
    accesses, memory = events.accesses, events.memory
    begin, end = accesses["begin"], accesses["end"]
    requests = accesses["requests"]
    alone = memory.issuing(accesses["unit"], requests)
    if memory.per_cycle is not None:
        alone = np.maximum(alone, np.ceil(requests / memory.per_cycle))
    late = np.minimum(begin + alone.astype(np.int64) + memory.latency, end)
    rate = bandwidth(events, edges)
    chips = len({*events.chips}) or 1
    peak = memory.per_cycle and chips * memory.per_cycle * memory.request_bytes
    share = [None] * len(rate) if peak is None else rate / peak
    return {
        "offchip_bytes_per_cycle": rate,
        "offchip_share": share,
        "outstanding_requests": binned_mean(begin, end, requests, edges),
        "queued_requests": binned_mean(late, end, requests, edges),
    }


def bandwidth(events: Events, edges: _Times) -> NDArray[Any]:
    """Payload per cycle in every bin, of the memories of all chips together.

    Requests are served in the order in which they are issued, as many per cycle as the memory can
    serve.
    """
    memory, accesses = events.memory, events.accesses
    if not events.chips:
        return _of_one_memory(memory, accesses, edges)
    total: NDArray[Any] = np.zeros(len(edges) - 1)
    chip = np.array(events.chips)[accesses["unit"]]
    for number in np.unique(chip).tolist():
        total += _of_one_memory(memory, accesses[chip == number], edges)
    return total


def _of_one_memory(memory: Memory, accesses: NDArray[np.void], edges: _Times) -> NDArray[Any]:
    if not len(accesses):
        return np.zeros(len(edges) - 1)
    # Tiles below one request share one: an access may issue no request of its own.
    cycles = np.maximum(memory.issuing(accesses["unit"], accesses["requests"]), 1)
    begin = accesses["begin"] + 1
    end = begin + cycles
    times = np.unique(np.concatenate((begin, end, edges)))
    rates = (accesses["requests"] / cycles, accesses["nbytes"] / cycles)
    requests, nbytes = (_ramp(begin, rate, times) - _ramp(end, rate, times) for rate in rates)
    served = requests
    if memory.per_cycle is not None:
        # The backlog is the number of arrivals minus the memory's service since it was last idle.
        ahead = requests - memory.per_cycle * times
        served = requests - (ahead - np.minimum.accumulate(ahead))
    done = np.interp(served, requests, nbytes)
    found: NDArray[Any] = np.diff(done[np.searchsorted(times, edges)]) / np.diff(edges)
    return found


def _onchip(events: Events, edges: _Times) -> dict[str, Any]:
    held = onchip_levels(events)
    in_fifos = levels(events.sent, events.freed, events.nbytes, events.cycles)
    tokens = levels(events.sent, events.freed, np.ones_like(events.nbytes), events.cycles)
    return {
        "onchip_bytes_in_use": [None] * (len(edges) - 1)
        if held is None
        else binned_peak(*held, edges),
        "fifo_bytes_in_use": binned_peak(*in_fifos, edges),
        "fifo_slots_in_use": binned_peak(*tokens, edges),
    }


def _units(events: Events, edges: _Times) -> dict[str, Any]:
    waits, clocks = events.waits, events.final_clocks
    begin, end = waits["begin"], waits["end"]
    zero = np.zeros_like(clocks)
    waited = np.zeros(len(clocks), np.int64)
    np.add.at(waited, waits["unit"], end - begin)
    worked = np.maximum(clocks - waited, 1)

    def working(weight: _Amounts) -> NDArray[Any]:
        there = binned_mean(zero, clocks, weight, edges)
        waited = binned_mean(begin, end, weight[waits["unit"]], edges)
        found: NDArray[Any] = np.maximum(there - waited, 0)
        return found

    def waiting(*causes: str) -> NDArray[Any]:
        own = np.isin(waits["cause"], [events.causes.index(one) for one in causes])
        return binned_mean(begin[own], end[own], np.ones(int(own.sum())), edges)

    return {
        "flops_per_cycle": working(events.flops / worked),
        "units_working": working(np.ones(len(clocks))),
        "units_waiting_input": waiting(*_INPUT),
        "units_waiting_output": waiting("slot"),
        "units_waiting_memory": waiting("memory"),
        "units_waiting_network": waiting("packet"),
    }
