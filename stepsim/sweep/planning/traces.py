"""The traces of a sweep: read, selected and sampled; a bad one is kept with its error.

All selected traces are read once before the first run, for their identity. Those that fit a budget
stay in memory; the rest is read again when needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stepsim.errors import TraceError
from stepsim.workloads import KV_LENGTHS, Data, Input, Workload

KEPT_BYTES = 64 << 20
"""Bytes of traces that a plan keeps in memory."""

Content = tuple[str, Any]
"""Identity and data of a trace."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace as the runs see it. It is sent to other processes with its data.

    Attributes
    ----------
    source, layer, step, window : labels; None where they do not apply.
    identity : SHA-256 of the content, or of the labels if it could not be read.
    data : expert ids ``[tokens, k]`` or lengths ``[requests]``; None without data, or if it will
        be read again.
    error : why the trace cannot be used; empty when it can.
    rows : tokens or requests; None when it could not be read.
    lengths : cache lengths that go with a routing, for a decoder.
    copy : number of earlier traces that differ only in their files.
    load : reads identity and data; None when ``data`` stays.
    """

    source: str | None
    layer: int | None
    step: int | None
    identity: str | None
    data: Any
    error: str = ""
    window: int | None = None
    rows: int | None = None
    lengths: Trace | None = None
    copy: int = 0
    load: Callable[[], Content] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Its key by content: equal content has equal keys, whatever the file."""
        lengths = None if self.lengths is None else self.lengths.key
        identity = self.identity
        if identity is None and lengths is None and self.rows is not None:
            identity = f"{self.rows} rows"
        return self.layer, self.step, self.window, identity, lengths, self.copy

    def fed_to(self, workload: type[Workload], values: Mapping[str, Any]) -> Data:
        """The data of a workload with these parameters.

        Raises
        ------
        ArgError
            Lengths are negative, or their number differs from that of the tokens.
        """
        needed = [one for one in workload.needed(values) if not one.optional]
        parts = {one.name: self._part(one, workload.inputs) for one in needed}
        arrays: dict[str, Any] = {name: one and one.data for name, one in parts.items()}
        return Data.of(**arrays, rows=None if arrays else self.rows)

    def shape_for(self, workload: type[Workload], values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Equal for traces that one program of the workload with these parameters serves."""
        given = [one for one in workload.shaping_of(values) if not one.optional]
        parts = [self._part(one, workload.inputs) for one in given]
        return self.rows, *(None if one is None else one.identity for one in parts)

    def _part(self, one: Input, inputs: Sequence[Input]) -> Trace | None:
        """The data of an input."""
        return self if one in of_traces(inputs) else self.lengths

    @property
    def label(self) -> str:
        """The trace for messages: ``routing.parquet layer 3 step 7 window 2``."""
        parts = [] if self.source is None else [self.source]
        for name in ("layer", "step", "window"):
            value = getattr(self, name)
            parts += [] if value is None else [f"{name} {value}"]
        return " ".join(parts)

    @property
    def whole_label(self) -> str:
        """Like `label`, with the cache lengths of a decoder; empty without a trace."""
        lengths = "" if self.lengths is None else self.lengths.label
        return " with ".join(filter(None, (self.label, lengths)))

    def loaded(self) -> Trace:
        """The trace with its data, or with an error if it has changed. Never raises."""
        lengths = None if self.lengths is None else self.lengths.loaded()
        error = self.error or ("" if lengths is None else lengths.error)
        if self.load is None:
            return replace(self, lengths=lengths, error=error)
        try:
            identity, data = self.load()
            if identity != self.identity:
                error = f"{self.label}: has changed since the sweep was planned; start it again"
        # A missing, truncated or changing file fails in many ways; only its runs must fail.
        except Exception as found:
            data = None
            error = (
                f"{self.label}: can no longer be read ({found}), although it could when the sweep "
                "was planned; put the file back as it was and start the sweep again"
            )
        return replace(self, data=data, lengths=lengths, error=error, load=None)

    def __reduce__(self) -> tuple[Any, ...]:
        whole = self.loaded()
        return Trace, tuple(getattr(whole, name) for name in Trace.__slots__)


def of_traces(inputs: Sequence[Input]) -> list[Input]:
    """Inputs that the key ``traces`` provides; cache lengths next to a routing have another key.

    No key provides optional ones.
    """
    needed = [one for one in inputs if not one.optional]
    return [one for one in needed if one != KV_LENGTHS or len(needed) == 1]


NO_TRACE = Trace(None, None, None, None, None)
"""The trace of workloads that read none."""


def only_rows(rows: int | None) -> Trace:
    """So many requests without any trace; of one expert, all visit it."""
    data = None if rows is None else np.zeros((rows, 1), dtype=np.int64)
    return replace(NO_TRACE, data=data, rows=rows)


@dataclass(frozen=True, slots=True)
class Source:
    """A trace before it is read.

    Attributes
    ----------
    source, layer, step, window : as in `Trace`.
    place : its place in the sources; reading in this order is fastest.
    read : reads identity and data; raises TraceError.
    """

    source: str
    layer: int | None
    step: int | None
    window: int | None
    place: tuple[int, int, int]
    read: Callable[[], Content]


def read_sources(sources: Iterable[Source]) -> list[Trace]:
    """Read all in the order of their places; returns them in the order given."""
    given = list(sources)
    traces: dict[int, Trace] = {}
    left = KEPT_BYTES
    for index in sorted(range(len(given)), key=lambda i: given[i].place):
        trace = _read(given[index])
        left -= 0 if trace.data is None else trace.data.nbytes
        if left < 0 and trace.data is not None:
            trace = replace(trace, data=None, load=given[index].read)
        traces[index] = trace
    return [traces[index] for index in range(len(given))]


def digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _read(item: Source) -> Trace:
    labels = item.source, item.layer, item.step
    try:
        identity, data = item.read()
    except TraceError as error:
        known = [item.source, item.layer, item.step, item.window]
        name = digest(" ".join(str(label) for label in known if label is not None))
        return Trace(*labels, name, None, str(error), item.window)
    return Trace(*labels, identity, np.asarray(data), "", item.window, len(data))
