"""The timeline of a service, as a file for ui.perfetto.dev."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from stepsim._version import __version__
from stepsim.atomic import replacing
from stepsim.errors import ArgError, OutputError
from stepsim.report.perfetto import LIMIT_BYTES
from stepsim.report.serving.series import (
    KINDS,
    EngineSteps,
    Ints,
    engines_of,
    kinds_of,
    span_of,
    with_spans,
)
from stepsim.report.serving.stages import STAGES, Served, lanes_of, served_of
from stepsim.report.slices import Changes, Slices, thinned, thinned_changes
from stepsim.report.trace_file import TraceFile, require_perfetto, sizes
from stepsim.serving import ServeResult
from stepsim.typed import typed

_STEP: Final = "step"
_STEP_NUMBERS: Final = {
    "new tokens": "new_tokens", "cached tokens": "context_tokens", "requests": "batch_requests",
    "running": "running_requests", "waiting": "waiting_requests", "free blocks": "free_blocks",
    "cycles": "step_cycles", "off-chip bytes": "step_offchip_bytes",
}  # fmt: skip
_REQUEST_NUMBERS: Final = {
    "request": "request", "prompt tokens": "prompt_tokens", "output tokens": "output_tokens",
    "tokens from the prefix cache": "cached_tokens", "tokens computed again": "recomputed_tokens",
    "preemptions": "preemptions", "TTFT (ns)": "ttft_ns", "E2EL (ns)": "e2el_ns",
}  # fmt: skip
_COUNT: Final = "steps"
_NUMBER_BYTES: Final = 12
_ARROW_BYTES: Final = 20
_NAME_BYTES: Final = 24
_TRACK_BYTES: Final = 100
_FACTS_BYTES: Final = 2000

_REQUEST_SHARE: Final = 0.5
_STEP_SHARE: Final = 0.6
"""Of what the requests leave; the rest is for counters."""


@dataclass(frozen=True, slots=True)
class ServiceTimelineFile:
    """The properties of a written timeline of a service.

    Attributes
    ----------
    nbytes : size of the file.
    grain_ns : adjacent steps shorter than this are merged; 1 shows every step.
    request_stride : one request in this many is shown.
    slices, counts, arrows : their numbers.
    missing : why it is not known which steps computed each request; empty if it is.
    """

    nbytes: int
    grain_ns: int
    request_stride: int
    slices: int
    counts: int
    arrows: int
    missing: str

    @property
    def remark(self) -> str:
        """The omissions of the file, as a sentence; empty if there are none."""
        parts = []
        if self.grain_ns > 1:
            parts.append(
                f"runs of steps shorter than {self.grain_ns / 1e6:,.3f} ms are shown as one, named "
                "'mostly ...' after what took most of it"
            )
        if self.request_stride > 1:
            parts.append(f"one of {self.request_stride:,} requests is shown")
        if self.missing:
            parts.append(
                "preemptions and arrows are not shown, since it is not known which steps computed "
                f"each request: {self.missing}"
            )
        return f"the timeline lacks details: {'; '.join(parts)}" if parts else ""


@typed
def write_service_perfetto(
    result: ServeResult, path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES
) -> ServiceTimelineFile:
    """Write the timeline of a service, to open in https://ui.perfetto.dev.

    Each replica has a track of its steps, with their tokens, requests, cycles and what limits them;
    counters of running and waiting requests and of free KV blocks; and tracks of its requests,
    which wait, are computed, or lose their blocks. Arrows lead from what a request does to the step
    that begins it. If the file would be larger than ``limit_bytes``, it is sampled.

    Parameters
    ----------
    path : file to write; it is written completely or not at all.
    limit_bytes : largest size of the file.

    Raises
    ------
    ArgError : the limit is not above 0.
    OutputError : the file cannot be written or needs more bytes, or the package ``perfetto`` is not
        installed.
    """
    require_perfetto()
    if limit_bytes < 1:
        raise ArgError(f"limit_bytes: expected a number above 0, found {limit_bytes}")
    known, missing = with_spans(result)
    picture = _Picture(known, limit_bytes, missing)
    with replacing(path) as (part,), Path(part).open("wb") as file:
        return picture.write(file)


class _Picture:
    """The content of a timeline, sampled to fit the limit."""

    def __init__(self, result: ServeResult, limit: int, missing: str) -> None:
        self._result, self._missing = result, missing
        self._engines = engines_of(result)
        self._first, self._after = span_of(result)
        rows = result.requests.num_rows
        self._size = sizes(self._after, 2 * rows + 10 * len(self._engines), 100)
        room = limit - _FACTS_BYTES - 6 * _TRACK_BYTES * len(self._engines)
        if room < limit // 10:
            raise OutputError(
                f"a timeline of {len(self._engines):,} replicas needs more than "
                f"{limit - room:,} bytes, the limit is {limit:,}; allow more"
            )
        self._served, self.stride, used = self._sampled_requests(int(room * _REQUEST_SHARE))
        room -= used
        self.grain, self._steps = self._sampled_steps(int(room * _STEP_SHARE))
        room -= len(self._steps) * self._step_bytes
        self._changes = self._sampled_changes(room)

    @property
    def _step_bytes(self) -> int:
        numbers = len(_STEP_NUMBERS) * _NUMBER_BYTES
        return self._size.slice + self._size.text + numbers

    def _sampled_requests(self, room: int) -> tuple[list[Served], int, int]:
        """Every request, or one of so many that these fit, and their bytes."""
        every = np.arange(self._result.requests.num_rows)
        owner = self._result.requests["computed_steps"].combine_chunks()
        spans = len(owner) * 2 if owner.null_count else len(owner.values) // 2
        # A span is up to two stages with an arrow, and a gap.
        each = self._size.slice + _NAME_BYTES + len(_REQUEST_NUMBERS) * _NUMBER_BYTES
        each += _TRACK_BYTES + self._size.slice
        of_span = 3 * self._size.slice + 2 * _ARROW_BYTES
        need = len(every) * each + spans * of_span
        stride = max(1, -(-need // max(room, 1)))
        rows = every[::stride]
        found = list(served_of(self._result, self._engines, rows, self._after))
        used = sum(each + len(one.stages) * (self._size.slice + _ARROW_BYTES) for one in found)
        return found, stride, used

    def _sampled_steps(self, room: int) -> tuple[int, Slices]:
        """The finest sampling of the steps that fits."""
        grain = 1
        while True:
            parts = [self._thinned(number, grain) for number in range(len(self._engines))]
            columns = ([getattr(part, name) for part in parts] for name in Slices.__slots__)
            found = Slices(*(np.concatenate(column) for column in columns))
            fits = len(found) * self._step_bytes <= room
            if fits or grain > self._after - self._first:
                return grain, found
            grain = max(2 * grain, (self._after - self._first) // 1_000_000)

    def _thinned(self, number: int, grain: int) -> Slices:
        """The steps of a replica; ``about`` is the first of those in a slice."""
        one = self._engines[number]
        none = np.zeros(len(one), np.int64)
        kind = none + len(KINDS) if one.decode is None else kinds_of(one.new, one.decode)
        # Short times between steps do not keep these apart.
        closed = one.end.copy()
        near = one.start[1:] - one.end[:-1] < grain
        closed[:-1][near] = one.start[1:][near]
        found = thinned(Slices(none + number, one.start, closed, kind, none), grain)
        last = np.searchsorted(one.start, found.end) - 1
        first = np.searchsorted(one.start, found.begin)
        return Slices(found.track, found.begin, one.end[last], found.kind, first)

    def _sampled_changes(self, room: int) -> Changes:
        lines = [line for one in self._engines for line in self._lines(one)]
        counts = [len(at) for at, _ in lines]
        at, value = (np.concatenate([line[part] for line in lines]) for part in (0, 1))
        every = Changes(np.repeat(np.arange(len(lines)), counts), at, value)
        grain, found = 1, every
        while len(found) * self._size.counter > room and grain <= self._after - self._first:
            grain = max(2 * grain, (self._after - self._first) // 1_000_000)
            found = thinned_changes(every, grain)
        return found

    def _lines(self, one: EngineSteps) -> list[tuple[Ints, Ints]]:
        return [one.line(one.running, 0), one.line(one.waiting, 0), (one.start, one.free)]

    def write(self, file: Any) -> ServiceTimelineFile:
        bounds = sorted({text for one in self._engines for text in one.columns["bound"]})
        kinds = [*KINDS, _STEP]
        names = [*kinds, *(f"mostly {kind}" for kind in kinds), *STAGES]
        numbers = [*_STEP_NUMBERS, _COUNT, *_REQUEST_NUMBERS]
        trace = TraceFile(file, names, bounds, "limited by", numbers)
        about = trace.track("service")
        groups = [trace.track(f"replica {number}") for number in range(len(self._engines))]
        tracks = [trace.track("steps", group) for group in groups]
        self._write_counters(trace, groups)
        shown = {
            (track, first): arrow
            for arrow, (track, first) in enumerate(
                zip(self._steps.track.tolist(), self._steps.about.tolist(), strict=True)
            )
        }
        arrows = self._write_requests(trace, groups, shown)
        self._write_steps(trace, tracks, names, bounds, arrows)
        trace.facts(about, self._first, self._after, "service", self._facts())
        trace.close()
        stages = sum(1 + len(one.stages) for one in self._served)
        return ServiceTimelineFile(
            trace.written, self.grain, self.stride, stages + len(self._steps),
            len(self._changes), sum(map(len, arrows.values())), self._missing,
        )  # fmt: skip

    def _write_counters(self, trace: TraceFile, groups: list[int]) -> None:
        titles = (("running", "requests"), ("waiting", "requests"), ("free KV blocks", "blocks"))
        tracks = [trace.counter(name, group, unit) for group in groups for name, unit in titles]
        changes = self._changes
        for counter, at, value in zip(
            changes.counter.tolist(), changes.at.tolist(), changes.value.tolist(), strict=True
        ):
            trace.count(tracks[counter], at, value)

    def _write_requests(
        self, trace: TraceFile, groups: list[int], shown: dict[tuple[int, int], int]
    ) -> dict[int, list[int]]:
        """Write the requests; the arrows that arrive at each slice of steps."""
        table = self._result.requests
        rows = [one.row for one in self._served]
        owner = table["replica"].to_numpy()[rows]
        columns = {
            key: table[name].take(rows).to_pylist() for key, name in _REQUEST_NUMBERS.items()
        }
        arrows: dict[int, list[int]] = {}
        count = 0
        for replica, group in enumerate(groups):
            own = [k for k in range(len(rows)) if owner[k] == replica]
            own.sort(key=lambda k: self._served[k].begin)
            inner = trace.track("requests", group)
            begins, ends = ([getattr(self._served[k], edge) for k in own]
                            for edge in ("begin", "end"))  # fmt: skip
            lanes = lanes_of(begins, ends)
            count_of = max(lanes, default=-1) + 1
            tracks = [trace.track(f"requests {lane}", inner) for lane in range(count_of)]
            for k, lane in zip(own, lanes, strict=True):
                one, track = self._served[k], tracks[lane]
                numbers = {key: values[k] for key, values in columns.items()}
                trace.begin(track, one.begin, f"request {numbers['request']}", numbers)
                for stage in one.stages:
                    target = shown.get((replica, stage.step))
                    leaving = []
                    if target is not None:
                        count += 1
                        leaving = [count]
                        arrows.setdefault(target, []).append(count)
                    trace.begin(track, stage.begin, stage.name, {}, leaving=leaving)
                    trace.end(track, stage.end)
                trace.end(track, one.end)
        return arrows

    def _write_steps(
        self, trace: TraceFile, tracks: list[int], names: list[str], bounds: list[str],
        arrows: dict[int, list[int]],
    ) -> None:  # fmt: skip
        place = {bound: number for number, bound in enumerate(bounds)}
        kinds = len(KINDS) + 1
        for number, (track, begin, end, kind, first) in enumerate(self._steps.rows()):
            one = self._engines[track]
            after = int(np.searchsorted(one.start, end))
            numbers: dict[str, int | None]
            if after == first + 1:
                numbers = {key: _known(one, name, first) for key, name in _STEP_NUMBERS.items()}
                name, about = names[kind], place[one.columns["bound"][first]]
            else:
                tokens = int(one.new[first:after].sum())
                numbers = {_COUNT: after - first, "new tokens": tokens}
                name, about = names[kind % 128 + kinds], -1
            trace.begin(
                tracks[track], begin, name, numbers, about if about >= 0 and bounds[about] else -1,
                arriving=arrows.get(number, ()),
            )  # fmt: skip
            trace.end(tracks[track], end)

    def _facts(self) -> dict[str, Any]:
        summary = self._result.summary
        sampled = ServiceTimelineFile(0, self.grain, self.stride, 0, 0, 0, self._missing).remark
        machine = summary.get("machine") or {}
        return {
            "status": summary["status"],
            "requests": summary["requests"],
            "steps": self._result.steps.num_rows,
            "model": str(summary["settings"].get("model") or ""),
            "machine": str(machine.get("name", "")),
            "KV blocks": summary.get("kv_blocks") or "not known",
            "sampling": sampled or "none, every step and request is shown",
            "stepsim": __version__,
        }


def _known(one: EngineSteps, name: str, step: int) -> int | None:
    """A number of a step; None where its step model does not know it."""
    value = int(one.columns[name][step])
    return None if value < 0 else value
