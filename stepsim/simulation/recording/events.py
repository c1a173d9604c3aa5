"""From the engine's records of a run that kept all tokens to its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepsim.graph import Wiring
from stepsim.kernels import INFINITY, MEMORY_MODELS, turn_of, window_of
from stepsim.lowering import TimingParams
from stepsim.results import ACCESS, WAIT, Events, Memory, records_by
from stepsim.simulation.outcome.open_waits import open_waits
from stepsim.simulation.outcome.working_memory import working_bytes
from stepsim.simulation.recording.buffers import buffers_of, payload_bytes
from stepsim.simulation.recording.record import ISSUED, WAITS, Cause

if TYPE_CHECKING:
    from stepsim.simulation.running.image_run import ImageRun

_CAUSES = tuple(cause.name.lower() for cause in WAITS if cause != Cause.MARK)
"""Of waits, by number."""

_OF_TOKENS = (Cause.TOKEN, Cause.CLOSURE, Cause.DECISION)


def events_of(
    run: ImageRun, wiring: Wiring, timing: TimingParams, symbols: Mapping[Any, int]
) -> Events:
    """The events of a run.

    Parameters
    ----------
    run : it was recorded, and kept the tokens of all FIFOs.
    wiring, timing : what ran, and on what.
    symbols : numbers of the symbols of the program that the bindings of the run determine.
    """
    assert run.record is not None
    units, channels = run.execution.units, run.execution.channels
    first = np.concatenate(([0], np.cumsum(channels["sent"])))
    owner = np.repeat(np.arange(len(channels)), channels["sent"])
    place = np.arange(int(first[-1])) - first[owner]
    slots = run.execution.slots[channels["start"][owner] + place]
    cycles, taken = run.totals.cycles, place < channels["removed"][owner]
    freed = np.where(taken, slots["rel"], np.maximum(cycles, slots["stamp"]))
    nbytes = payload_bytes(slots, run.execution.slots)
    sent = _sent(slots["stamp"], first, run.record.late)
    largest = np.zeros(len(channels), np.int64)
    np.maximum.at(largest, owner, nbytes)
    own, fifos = len(wiring.units), len(wiring.fifos)  # carriers and their FIFOs come after
    working = np.zeros(len(units), np.int64)
    working[:own] = working_bytes(wiring, largest[:fifos], units["fires"][:own] > 0, symbols)
    caps, waits = channels["cap"], _waits(run)
    return Events(
        cycles=cycles,
        units=run.image.unit_names,
        operators=run.image.unit_ops,
        final_clocks=units["clk"].copy(),
        flops=units["flops"].copy(),
        fifos=run.image.channel_names,
        producers=channels["producer"].copy(),
        consumers=channels["consumer"].copy(),
        depths=np.where(caps >= INFINITY, 0, caps),
        first=first,
        sent=sent,
        seen=slots["stamp"].copy(),
        freed=freed,
        taken=taken,
        nbytes=nbytes,
        buffers=buffers_of(wiring, run, slots, first, freed),
        working=working,
        started=_started(units, channels, first, sent, freed, waits, cycles),
        memory=_memory(run, timing),
        accesses=_accesses(run),
        waits=waits,
        causes=_CAUSES,
    )


def _sent(
    stamps: NDArray[np.int64], first: NDArray[np.int64], late: NDArray[np.void]
) -> NDArray[np.int64]:
    """When tokens were sent: a cycle before they can be seen, unless that is noted as later.

    Of tokens of a FIFO with equal stamps the later ones were sent later: noted ones come first.
    """
    sent = stamps - 1
    for fifo in np.unique(late["fifo"]).tolist():
        own = slice(int(first[fifo]), int(first[fifo + 1]))
        noted = late[late["fifo"] == fifo]
        noted = noted[np.argsort(noted["stamp"], kind="stable")]
        order = np.argsort(stamps[own], kind="stable")
        begin = np.searchsorted(stamps[own][order], noted["stamp"], side="left")
        rank = np.arange(len(noted)) - np.searchsorted(noted["stamp"], noted["stamp"], side="left")
        sent[own][order[begin + rank]] = noted["clock"]
    return sent


def _started(
    units: NDArray[np.void],
    channels: NDArray[np.void],
    first: NDArray[np.int64],
    sent: NDArray[np.int64],
    freed: NDArray[np.int64],
    waits: NDArray[np.void],
    cycles: int,
) -> NDArray[np.int64]:
    """When units began the work on their first token; the end of the run if they never did.

    A unit that waited for nothing but tokens up to then began where the last of these waits ended.
    A map releases its operands when it is done, so that the release is too late.
    """
    started = np.full(len(units), cycles, np.int64)
    some = channels["sent"] > 0
    np.minimum.at(started, channels["producer"][some], sent[first[:-1][some]])
    some = channels["removed"] > 0
    np.minimum.at(started, channels["consumer"][some], freed[first[:-1][some]] - 1)
    worked = started < cycles
    started[worked] = np.minimum(started, _first_tokens(waits, len(units)))[worked]
    return started


def _first_tokens(waits: NDArray[np.void], units: int) -> NDArray[np.int64]:
    """When units had waited for their first tokens: the end of what follows from cycle 0 on."""
    same = waits["unit"][1:] == waits["unit"][:-1]
    before = np.concatenate(([0], np.where(same, waits["end"][:-1], 0)))[: len(waits)]
    follows = np.isin(waits["cause"], _OF_TOKENS) & (waits["begin"] == before)
    found = np.zeros(units, np.int64)
    edges = np.searchsorted(waits["unit"], np.arange(units + 1))
    broken = np.append(np.flatnonzero(~follows), len(waits))
    stops = np.minimum(broken[np.searchsorted(broken, edges[:-1])], edges[1:])
    some = stops > edges[:-1]
    found[some] = waits["end"][stops[some] - 1]
    return found


def _waits(run: ImageRun) -> NDArray[np.void]:
    """All waits; those that the run ended with last to its end."""
    assert run.record is not None
    found, open_ones = run.record.waits, open_waits(run.execution, run.totals.cycles)
    ended = np.full(len(open_ones.unit), run.totals.cycles)
    more = {"unit": open_ones.unit, "cause": open_ones.cause, "fifo": open_ones.fifo,
            "begin": open_ones.begin, "end": ended}  # fmt: skip
    columns = {name: np.concatenate((found[name], own)) for name, own in more.items()}
    # Which of the two it is matters only for what it follows from.
    columns["cause"][columns["cause"] == Cause.MARK] = Cause.DECISION
    return records_by("unit", WAIT, **columns)


def _accesses(run: ImageRun) -> NDArray[np.void]:
    """Accesses with their payload: those of a unit are all of one size."""
    assert run.record is not None
    found, units = run.record.accesses, run.execution.units
    every = np.maximum(units["requests"], 1)[found["unit"]]
    nbytes = units["traffic"][found["unit"]] * found["requests"] // every
    columns = {name: found[name] for name in ISSUED.names or ()}
    return records_by("unit", ACCESS, **columns, nbytes=nbytes)


def _memory(run: ImageRun, timing: TimingParams) -> Memory:
    shared = MEMORY_MODELS[timing.memory_model].shared
    ports, bundle = run.image.ports, np.zeros(len(run.image.units), np.int64)
    bundle[ports["unit"]] = ports["bundle"]
    return Memory(
        request_bytes=timing.request_bytes,
        per_cycle=timing.hbm_channels / timing.hbm_interval if shared else None,
        latency=timing.delay + 2,
        bundle=bundle,
        window=window_of(bundle, timing.window, timing.delay),
        turn=turn_of(timing.delay),
    )
