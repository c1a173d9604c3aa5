"""Which batches of which sources a sweep runs: layers, steps, windows, and a sample of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stepsim.errors import SweepError, TraceError
from stepsim.sweep.spec import TraceSelection
from stepsim.sweep.traces import Content, Source, Trace, digest, read_sources
from stepsim.trace_io import (
    KvFile,
    RoutingPart,
    RoutingTable,
    open_kv_lengths,
    routing_parts,
    synthetic_routing,
)
from stepsim.trace_io.parts import check_window
from stepsim.workloads import MoEShape

__all__ = ["kv_traces", "routing_traces"]


class _Batch(NamedTuple):
    """A layer-step or a file of lengths: what windows are taken from.

    ``label`` says for messages what it is and how many ``rows`` it has; ``read`` takes the number
    of a window, or None for all rows.
    """

    source: str
    layer: int | None
    step: int | None
    rows: int
    label: str
    place: tuple[int, int]
    read: Callable[[int | None], Content]


class _Group(NamedTuple):
    """Batches with their numbers of rows, made one by one: a replay may have millions of steps."""

    rows: npt.NDArray[np.int64]
    batch: Callable[[int], _Batch]


def routing_traces(
    selection: TraceSelection, shape: MoEShape, where: str = "traces"
) -> list[Trace]:
    """The selected layer-steps or windows, in the order of source, layer, step.

    Raises
    ------
    SweepError
        Neither or both of files and synthetic, a window that is not there, or nothing is selected.
    TraceError
        A file cannot be opened at all.
    """
    if bool(selection.files) == bool(selection.synthetic):
        found = "both" if selection.files else "neither"
        raise SweepError(
            f"{where}: expected either files or synthetic, found {found}; give one of them"
        )
    if selection.column is not None:
        raise SweepError(f"{where}.column: is for files of lengths; remove it")
    batches = _layer_steps(selection, shape)
    if not batches:
        raise _nothing(selection, shape, where)
    rows = np.array([batch.rows for batch in batches])
    return _select(selection, [_Group(rows, batches.__getitem__)], where)


def kv_traces(selection: TraceSelection, where: str = "traces") -> list[Trace]:
    """The selected files, steps of replays, or windows.

    Raises
    ------
    SweepError
        Keys of routing traces are given, no file, a window that is not there, or nothing is
        selected.
    """
    if selection.synthetic or selection.layers is not None:
        raise SweepError(
            f"{where}: cache lengths are read from files; synthetic and layers are for routing. "
            "Give files, and of replays steps"
        )
    if not selection.files:
        raise SweepError(f"{where}.files: no file; give at least one file of cache lengths")
    groups = [
        _lengths(selection, number, name, where) for number, name in enumerate(selection.files)
    ]
    if not any(len(group.rows) for group in groups):
        raise SweepError(f"{where}.steps: no file holds one of them; choose others")
    return _select(selection, groups, where)


def _layer_steps(selection: TraceSelection, shape: MoEShape) -> list[_Batch]:
    return list(_synthetic(selection, shape) if selection.synthetic else _files(selection, shape))


def _files(selection: TraceSelection, shape: MoEShape) -> Iterator[_Batch]:
    whole = selection.tokens if selection.windows is None else None
    for number, name in enumerate(selection.files):
        parts = routing_parts(
            name, experts=shape.experts, k=shape.active, tokens=whole,
            layers=selection.layers, steps=selection.steps,
        )  # fmt: skip
        for part in parts:
            # The folder is no part of the rows, so that a sweep compares with one elsewhere.
            yield _Batch(
                Path(name).name, part.layer, part.step, part.tokens,
                f"layer {part.layer} step {part.step} has {part.tokens} tokens",
                (number, part.first_row),
                partial(_content, partial(_recorded, part, selection.tokens)),
            )  # fmt: skip


def _recorded(part: RoutingPart, tokens: int | None, window: int | None) -> RoutingTable:
    return part.read() if window is None else part.read_window(window, tokens or part.tokens)


def _synthetic(selection: TraceSelection, shape: MoEShape) -> Iterator[_Batch]:
    drawn = selection.synthetic
    assert drawn is not None

    @lru_cache(maxsize=1)  # windows of a table come one after the other
    def table(layer: int, step: int) -> RoutingTable:
        return synthetic_routing(
            drawn.tokens, shape.experts, shape.active,
            seed=drawn.seed, skew=drawn.skew, layer=layer, step=step,
        )  # fmt: skip

    def read(layer: int, step: int, window: int | None) -> RoutingTable:
        whole, size = table(layer, step), selection.tokens
        if window is None or size is None:
            return whole
        first = window * size
        return RoutingTable(
            whole.experts[first : first + size], layer=layer, step=step, first_token=first
        )

    source = f"synthetic (seed {drawn.seed}, skew {drawn.skew:g})"
    for layer in range(drawn.layers):
        for step in range(drawn.steps):
            if _wanted(selection.layers, layer) and _wanted(selection.steps, step):
                yield _Batch(
                    source, layer, step, drawn.tokens,
                    f"layer {layer} step {step} has {drawn.tokens} tokens",
                    (layer, step), partial(_content, partial(read, layer, step)),
                )  # fmt: skip


def _content(read: Callable[[int | None], RoutingTable], window: int | None) -> Content:
    table = read(window)
    return table.identity(), table.experts


def _lengths(selection: TraceSelection, number: int, name: str, where: str) -> _Group:
    source = Path(name).name
    try:
        file = open_kv_lengths(name, column=selection.column)
    except TraceError as error:
        bad = _Batch(source, None, None, 0, "", (number, 0), partial(_refuse, str(error)))
        return _Group(np.zeros(1, dtype=np.int64), lambda _: bad)
    if file.steps is None and selection.steps is not None:
        raise SweepError(
            f"{where}.steps: {source} has no steps, only files of `stepsim trace replay` have; "
            "remove the key"
        )
    chosen = np.arange(len(file.sizes))
    if file.steps is not None and selection.steps is not None:
        chosen = np.flatnonzero(np.isin(file.steps, selection.steps))

    def batch(index: int) -> _Batch:
        own = int(chosen[index])
        return _Batch(
            source, None, None if file.steps is None else int(file.steps[own]),
            int(file.sizes[own]), file.label(own), (number, own),
            partial(_cached_tokens, file, own, selection.tokens),
        )  # fmt: skip

    return _Group(file.sizes[chosen], batch)


def _cached_tokens(file: KvFile, batch: int, requests: int | None, window: int | None) -> Content:
    lengths = file.read(batch, requests=requests, window=window)
    return digest(lengths.tobytes()), lengths


def _refuse(message: str, window: int | None) -> Content:
    raise TraceError(message)


def _select(selection: TraceSelection, groups: Sequence[_Group], where: str) -> list[Trace]:
    counts = np.concatenate([_window_counts(selection, group, where) for group in groups])
    ends = np.cumsum(counts)
    first = np.cumsum([0, *(len(group.rows) for group in groups)])
    total = int(ends[-1])
    if not total:
        most = max(int(group.rows.max()) for group in groups)
        raise SweepError(
            f"{where}.windows: nothing has {selection.tokens} rows, the longest has {most}; choose "
            "smaller tokens"
        )
    chosen: Sequence[int] = range(total)
    if selection.sample is not None:
        if selection.sample > total:
            raise SweepError(
                f"{where}.sample: {selection.sample} traces wanted, but only {total} are selected; "
                "sample fewer, or leave the key out to run all"
            )
        chosen = sorted(random.Random(selection.seed).sample(range(total), selection.sample))
    sources = []
    for index in chosen:
        number = int(np.searchsorted(ends, index, side="right"))
        group = int(np.searchsorted(first, number, side="right")) - 1
        batch = groups[group].batch(number - int(first[group]))
        window = _window(selection, batch, index - int(ends[number] - counts[number]))
        place = (*batch.place, -1 if window is None else window)
        read = partial(batch.read, window)
        sources.append(Source(batch.source, batch.layer, batch.step, window, place, read))
    return read_sources(sources)


def _window_counts(selection: TraceSelection, group: _Group, where: str) -> npt.NDArray[np.int64]:
    """How many windows of each batch are run; 1 for a batch as a whole."""
    windows, size = selection.windows, selection.tokens
    whole = np.ones(len(group.rows), dtype=np.int64)
    if windows is None:
        return whole
    if size is None:
        raise SweepError(f"{where}.windows: of how many tokens is not known; give tokens as well")
    unreadable = group.rows == 0
    if windows == "all":
        return np.where(unreadable, whole, group.rows // size)
    wanted = range(windows) if isinstance(windows, int) else windows
    if len(set(wanted)) < len(wanted):
        raise SweepError(f"{where}.windows: holds a window twice; give each once")
    short = ~unreadable & (group.rows // size <= max(wanted))
    if short.any():
        batch = group.batch(int(np.argmax(short)))
        try:
            check_window(batch.source, batch.label, batch.rows, max(wanted), size)
        except TraceError as error:
            raise SweepError(f"{where}.windows: {error}") from None
    return np.where(unreadable, whole, len(wanted))


def _window(selection: TraceSelection, batch: _Batch, offset: int) -> int | None:
    """The window of a batch that comes ``offset`` windows after its first."""
    if selection.windows is None or not batch.rows:
        return None
    return selection.windows[offset] if isinstance(selection.windows, list) else offset


def _wanted(values: Sequence[int] | None, value: int) -> bool:
    return values is None or value in values


def _nothing(selection: TraceSelection, shape: MoEShape, where: str) -> SweepError:
    every = selection.model_copy(update={"layers": None, "steps": None})
    batches = _layer_steps(every, shape)
    layers = sorted({batch.layer for batch in batches if batch.layer is not None})
    steps = sorted({batch.step for batch in batches if batch.step is not None})
    return SweepError(
        f"{where}: the selection is empty; the sources hold layers {_span(layers)} and steps "
        f"{_span(steps)}"
    )


def _span(values: list[int]) -> str:
    dense = values == list(range(values[0], values[-1] + 1))
    return f"{values[0]}..{values[-1]}" if dense else ", ".join(map(str, values))
