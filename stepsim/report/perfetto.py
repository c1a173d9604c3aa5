"""The timeline of a recorded run, as a file for ui.perfetto.dev."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepsim._version import __version__
from stepsim.arguments import is_whole, shown
from stepsim.arrow import pa
from stepsim.atomic import replacing
from stepsim.errors import ArgError, OutputError, did_you_mean
from stepsim.report.slices import (
    MIXED,
    Changes,
    Slices,
    fifo_changes,
    joined,
    link_slices,
    thinned,
    thinned_changes,
    unit_slices,
)
from stepsim.report.trace_file import TraceFile, require_perfetto, sizes
from stepsim.results import place_of, unnumbered
from stepsim.typed import typed_but

if TYPE_CHECKING:
    from stepsim.results import Events, Result

LIMIT_BYTES: Final = 45_000_000
"""Default limit of the size of a file; the page is slow to load larger ones."""

_NAMES: Final = {
    "token": "wait for a token",
    "slot": "wait for a slot",
    "closure": "wait for the end of a stream",
    "memory": "off-chip access",
    "decision": "wait for the order of arrivals",
    "packet": "wait for a packet",
}
"""Names of slices, by the cause of a wait."""

_COUNTERS: Final = (
    ("offchip_bytes_per_cycle", "bandwidth", "bytes/cycle"),
    ("outstanding_requests", "outstanding requests", "requests"),
    ("queued_requests", "queued requests", "requests"),
    ("onchip_bytes_in_use", "on-chip memory of operators", "bytes"),
    ("fifo_bytes_in_use", "payload in FIFOs", "bytes"),
    ("flops_per_cycle", "compute", "FLOPs/cycle"),
)
"""Columns of `Result.timeline` that are shown, with names and units."""

_COUNTER_BINS: Final = 2000
_NAMES_SHOWN: Final = 8
_FLOW_SHARE: Final = 0.1  # of a file, at most
_PATH_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class TimelineFile:
    """The properties of a written timeline.

    Attributes
    ----------
    nbytes : size of the file.
    grain : adjacent slices shorter than this many cycles are merged; 1 shows every slice.
    flow_stride : one token in this many has an arrow.
    slices, counts, arrows : their numbers.
    """

    nbytes: int
    grain: int
    flow_stride: int
    slices: int
    counts: int
    arrows: int

    @property
    def remark(self) -> str:
        """The omissions of the file, as a sentence; empty if there are none."""
        parts = []
        if self.grain > 1:
            parts.append(
                f"runs of slices shorter than {self.grain:,} cycles are shown as one, named "
                "'mostly ...' after what took most of it"
            )
        if self.flow_stride > 1:
            parts.append(f"one of {self.flow_stride:,} tokens has an arrow")
        if not parts:
            return ""
        return f"the timeline is sampled: {' and '.join(parts)}; a span of cycles shows more"


@typed_but("span")
def write_perfetto(
    result: Result,
    path: str | os.PathLike[str],
    *,
    span: tuple[int, int] | None = None,
    streams: Sequence[str] = (),
    segments: pa.Table | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> TimelineFile:
    """Write the timeline of a recorded run, to open in https://ui.perfetto.dev.

    Each operator has a track, below its chip if there are several and its stage, with slices for
    its work and for every cause of a wait, with the FIFO concerned. Links have slices for the flits
    of each FIFO, between chips for its messages. FIFOs have counters of the slots in use; the
    memory has those of :meth:`Result.timeline <stepsim.Result.timeline>`. A cycle is shown as a
    nanosecond. If the file would be larger than ``limit_bytes``, it is sampled.

    Parameters
    ----------
    result : result of ``simulate(..., record=True)``.
    path : file to write; it is written completely or not at all.
    span : first cycle to show, and first cycle after it.
    streams : names of FIFOs whose tokens get arrows from their producer to their consumer.
    segments : the critical path, with columns ``begin``, ``end``, ``cause`` and ``operator``: it
        gets a separate track.
    limit_bytes : largest size of the file.

    Raises
    ------
    ArgError : the run was not recorded, there is no such FIFO, or the span is not in the run.
    OutputError : the file cannot be written, or the package ``perfetto`` is not installed.
    """
    require_perfetto()
    events = result.recorded("timeline")
    shown_span = checked_span(span, events.cycles)
    fifos = [fifo for name in streams for fifo in fifos_of(name, events.fifos, "streams")]
    picture = _Picture(result, events, shown_span, fifos, segments, limit_bytes)
    with replacing(path) as (part,), Path(part).open("wb") as file:
        return picture.write(file)


def checked_span(span: object, cycles: int) -> tuple[int, int]:
    """First cycle to show and first one after it, of a run of this length.

    Raises
    ------
    ArgError : the span is no two ascending cycles, or begins after the end.
    """
    if span is None:
        return 0, cycles
    pair = list(span) if isinstance(span, tuple | list) else []
    if len(pair) != 2 or not all(is_whole(edge) for edge in pair):
        raise ArgError(f"span: expected two numbers of cycles, found {shown(span)}")
    first, after = int(pair[0]), int(pair[1])
    if not 0 <= first < after:
        raise ArgError(f"span: expected two ascending cycles from 0, found {first:,} and {after:,}")
    if first >= max(cycles, 1):
        raise ArgError(
            f"span: begins at cycle {first:,}, but the run ends at cycle {cycles:,}; choose an "
            "earlier first cycle"
        )
    return first, min(after, cycles)


def fifos_of(name: str, fifos: Sequence[str], where: str) -> list[int]:
    """Numbers of the FIFOs with a name, given with or without its number.

    Raises
    ------
    ArgError : there is no such FIFO; ``where`` names the origin of the name.
    """
    found = [i for i, fifo in enumerate(fifos) if name in (fifo, unnumbered(fifo))]
    if not found:
        near = did_you_mean(name, list(dict.fromkeys(map(unnumbered, fifos))))
        some = ", ".join(fifos[:_NAMES_SHOWN]) + (", ..." if len(fifos) > _NAMES_SHOWN else "")
        raise ArgError(
            f"{where}: there is no FIFO {shown(name)}{near} The program has {some or 'none'}; the "
            "table of FIFOs next to a run names them"
        )
    return found


class _Picture:
    """The content of a timeline, sampled to fit the limit."""

    def __init__(
        self,
        result: Result,
        events: Events,
        span: tuple[int, int],
        fifos: Sequence[int],
        segments: pa.Table | None,
        limit: int,
    ) -> None:
        self._result, self._events, self._span = result, events, span
        self._fifos = fifos
        self._links = [events.ports[port] for port in np.unique(events.passed["port"]).tolist()]
        self._flits = 1 + len(events.causes)  # kind of slices of links, behind work and waits
        self._idle = self._flits + 1
        groups = len(set(events.chips)) + 20
        tracks = 2 * len(events.units) + len(events.fifos) + len(self._links) + groups
        names = sum(map(len, (*events.units, *events.fifos, *self._links)))
        self._size = sizes(events.cycles, tracks, len(events.fifos) + len(events.units))
        # A counter with fractional values takes 8 bytes more.
        fixed = tracks * self._size.track + 4 * names
        fixed += len(_COUNTERS) * _COUNTER_BINS * (self._size.counter + 8)
        room = limit - fixed
        if room < limit // 10:
            raise OutputError(
                f"a timeline of {len(events.units):,} units and {len(events.fifos):,} FIFOs needs "
                f"more than {fixed:,} bytes, the limit is {limit:,}; allow more"
            )
        self._path, self._causes, self._owners = _path_slices(segments, span)
        each = self._size.slice + self._size.text
        self._path = _fitting(self._path, int(room * _PATH_SHARE / each))
        self._tokens, self.stride = self._flow_tokens(int(room * _FLOW_SHARE / self._size.arrow))
        room -= len(self._path) * each + len(self._tokens) * self._size.arrow
        self.grain, self._slices, self._changes = self._sampled(room)

    def _sampled(self, room: int) -> tuple[int, Slices, Changes]:
        """The finest sampling that fits."""
        first, after = self._span
        events = self._events
        links = link_slices(events, len(events.units), self._flits, self._idle)
        everything = joined(unit_slices(events), links).inside(first, after)
        every_change = fifo_changes(events, first, after)
        grain = 1
        while True:
            slices = thinned(everything, grain)
            slices = slices.chosen(slices.kind != self._idle)
            changes = thinned_changes(every_change, grain)
            size = len(slices) * self._size.slice + len(changes) * self._size.counter
            size += int((slices.about >= 0).sum()) * self._size.text
            if size <= room or grain > after - first:
                return grain, slices, changes
            grain *= 2

    def _flow_tokens(self, most: int) -> tuple[list[tuple[int, int]], int]:
        """FIFO and index of the tokens that get arrows, and the stride at which they were
        chosen."""
        events, (first, after) = self._events, self._span
        found = [
            (fifo, place)
            for fifo in self._fifos
            for place in range(*events.tokens(fifo).indices(len(events.sent)))
            if events.taken[place] and first <= events.sent[place] and events.freed[place] <= after
        ]
        stride = max(1, -(-len(found) // max(most, 1)))
        return found[::stride], stride

    def write(self, file: Any) -> TimelineFile:
        events, (first, after) = self._events, self._span
        passed = "message" if events.chips else "flits"
        waits = [_NAMES[cause] for cause in events.causes]
        if events.chips:
            waits[events.causes.index("packet")] = "wait for a message"
        kinds = ["work", *waits, passed, "idle"]
        names = dict(enumerate(kinds))
        names |= {kind + MIXED: f"mostly {name}" for kind, name in enumerate(kinds)}
        causes = [*self._causes, *(f"mostly {cause}" for cause in self._causes)]
        texts = [*events.fifos, *self._owners]
        trace = TraceFile(file, [*names.values(), *causes, "send", "take"], texts, "about")
        about = trace.track("run")
        self._write_path(trace)
        self._write_memory(trace)
        tracks = _unit_tracks(trace, events.units, events.chips)
        if self._links:
            what = "Messages that every link sent." if events.chips else "Flits that passed links."
            network = trace.track("network", description=what)
            tracks += [trace.track(link, network) for link in self._links]
        for unit, begin, end, kind, fifo in self._slices.rows():
            trace.slice(tracks[unit], begin, end, names[kind], fifo)
        self._write_flows(trace, tracks)
        self._write_fifos(trace)
        trace.facts(about, first, after, self._result.program, self._facts())
        trace.close()
        return TimelineFile(
            trace.written, self.grain, self.stride, len(self._slices), len(self._changes),
            len(self._tokens),
        )  # fmt: skip

    def _facts(self) -> dict[str, Any]:
        result, (first, after) = self._result, self._span
        machine = result.provenance.get("machine")
        sampled = TimelineFile(0, self.grain, self.stride, 0, 0, 0).remark
        return {
            "program": result.program,
            "status": result.status,
            "cycles": result.cycles,
            "span": f"{first} to {after}",
            "unit of time": "1 ns is 1 cycle",
            "sampling": sampled or "none, every slice is shown",
            "grain (cycles)": self.grain,
            "machine": str(machine.get("name", machine)) if isinstance(machine, dict) else "",
            "stepsim": __version__,
        }

    def _write_path(self, trace: TraceFile) -> None:
        if not len(self._path):
            return
        track = trace.track(
            "critical path", description="What the length of the run depends on, end to end."
        )
        fifos = len(self._events.fifos)
        for _, begin, end, kind, about in self._path.rows():
            mixed = kind >= MIXED
            cause = self._causes[kind - MIXED if mixed else kind]
            name = f"mostly {cause}" if mixed else cause
            trace.slice(track, begin, end, name, -1 if about < 0 else fifos + about)

    def _write_memory(self, trace: TraceFile) -> None:
        group = trace.track("memory and compute")
        table = self._result.timeline(_COUNTER_BINS)
        begins = table["begin"].to_pylist()
        first, after = self._span
        for column, name, unit in _COUNTERS:
            track = trace.counter(name, group, unit)
            before = None
            for at, end, value in zip(
                begins, table["end"].to_pylist(), table[column].to_pylist(), strict=True
            ):
                if value is not None and value != before and first < end and at < after:
                    trace.measure(track, max(at, first), value)
                    before = value

    def _write_flows(self, trace: TraceFile, tracks: Sequence[int]) -> None:
        events = self._events
        for flow, (fifo, place) in enumerate(self._tokens, 1):
            source, target = tracks[events.producers[fifo]], tracks[events.consumers[fifo]]
            taken = int(events.freed[place]) - 1
            trace.arrow(flow, source, int(events.sent[place]), target, taken)

    def _write_fifos(self, trace: TraceFile) -> None:
        events, changes = self._events, self._changes
        group = trace.track("FIFOs", description="Slots in use.")
        tracks: dict[int, int] = {}
        for fifo in np.unique(changes.counter).tolist():
            depth = int(events.depths[fifo])
            about = f"depth {depth or 'unbounded'}"
            tracks[fifo] = trace.counter(events.fifos[fifo], group, "tokens", about)
        for fifo, at, value in zip(
            changes.counter.tolist(), changes.at.tolist(), changes.value.tolist(), strict=True
        ):
            trace.count(tracks[fifo], at, value)


def _fitting(slices: Slices, most: int) -> Slices:
    """The slices of one track, thinned to at most ``most``."""
    grain = 1
    found = slices
    while len(found) > max(most, 1):
        grain *= 2
        found = thinned(slices, grain)
    return found


def _path_slices(
    segments: pa.Table | None, span: tuple[int, int]
) -> tuple[Slices, list[str], list[str]]:
    """The critical path in a span of cycles, its causes, and the operators on it."""
    empty = np.zeros(0, np.int64)
    if segments is None or not len(segments):
        return Slices(empty, empty, empty, empty, empty), [], []
    _check_segments(segments)
    causes, kind = _numbered(segments["cause"].to_pylist())
    owners, about = _numbered(segments["operator"].to_pylist())
    begin, end = (segments[name].to_numpy().astype(np.int64) for name in ("begin", "end"))
    made = Slices(np.zeros(len(begin), np.int64), begin, end, kind, about)
    return made.chosen(np.argsort(begin, kind="stable")).inside(*span), causes, owners


def _check_segments(segments: pa.Table) -> None:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary, pa.types.is_null)
    wanted = {
        "begin": ("whole numbers", (pa.types.is_integer,)),
        "end": ("whole numbers", (pa.types.is_integer,)),
        "cause": ("texts", texts),
        "operator": ("texts", texts),
    }
    for name, (what, kinds) in wanted.items():
        found = segments[name].type if name in segments.column_names else "no such column"
        if not isinstance(found, str) and any(is_kind(found) for is_kind in kinds):
            continue
        raise ArgError(
            f"segments: expected {what} in a column '{name}', as in the table of "
            f"critical_path(...).segments, found {found}"
        )


def _numbered(texts: Iterable[str | None]) -> tuple[list[str], Any]:
    """Distinct texts, and the number of each; -1 for none."""
    known: dict[str, int] = {}
    numbers = [-1 if text is None else known.setdefault(text, len(known)) for text in texts]
    return list(known), np.array(numbers, np.int64)


def _unit_tracks(trace: TraceFile, units: Sequence[str], chips: Sequence[int]) -> list[int]:
    """A track for every unit, below its chip if there are several, its stage and, if it is a lane,
    its operator."""
    everything = trace.track("operators")
    places = [place_of(unit) for unit in units]
    of_chips = [f"chip {chip}" for chip in chips] or [""] * len(units)
    lanes: dict[tuple[str, str, str], int] = {}
    for chip, place in zip(of_chips, places, strict=True):
        key = (chip, place.stage, place.operator)
        lanes[key] = lanes.get(key, 0) + 1
    groups: dict[tuple[str, ...], int] = {}
    # Chips in the order of their numbers.
    roots = {f"chip {chip}": trace.track(f"chip {chip}", everything) for chip in sorted({*chips})}

    def group(key: tuple[str, ...], name: str, parent: int) -> int:
        if key not in groups:
            groups[key] = trace.track(name, parent)
        return groups[key]

    tracks = []
    for unit, chip, place in zip(units, of_chips, places, strict=True):
        parent = roots.get(chip, everything)
        if place.stage:
            parent = group((chip, place.stage), place.stage, parent)
        if lanes[chip, place.stage, place.operator] > 1:
            parent = group((chip, place.stage, place.operator), place.operator, parent)
        tracks.append(trace.track(unit, parent))
    return tracks
