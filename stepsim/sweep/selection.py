"""Which batches of which sources a sweep runs: layers, steps, windows, and a sample of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stepsim.errors import SweepError, TraceError
from stepsim.sweep.problems import SeveralProblems
from stepsim.sweep.sizes import MOST_DRAWN, MOST_TRACES, check_size
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
from stepsim.trace_io.synthetic import MOST_ENTRIES

__all__ = ["kv_traces", "routing_traces"]

_SHOWN = 10

Experts = tuple[int, int] | tuple[None, None]
"""Experts of the model and of a token; None where the workload does not say."""


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
    """Batches with their numbers of rows, made one by one: a replay may have millions of steps.

    ``steps`` are all that the source holds, chosen or not; None where they are not known.
    """

    rows: npt.NDArray[np.int64]
    batch: Callable[[int], _Batch]
    steps: npt.NDArray[np.int64] | None = None


def routing_traces(selection: TraceSelection, shape: Experts, where: str = "traces") -> list[Trace]:
    """The selected layer-steps or windows, in the order of source, layer, step.

    Raises
    ------
    SweepError
        Neither or both of files and synthetic, a layer, step or window that is not there, or
        nothing is selected, or files cannot be opened at all.
    """
    if bool(selection.files) == bool(selection.synthetic):
        found = "both" if selection.files else "neither"
        raise SweepError(
            f"{where}: expected either files or synthetic, found {found}; give one of them"
        )
    if selection.column is not None:
        raise SweepError(f"{where}.column: is for files of lengths; remove it")
    batches = _layer_steps(selection, shape, where)
    _check_labels(selection, shape, batches, where)
    rows = np.array([batch.rows for batch in batches])
    kept = _large_enough(selection, rows)
    group = _Group(rows[kept], lambda index: batches[int(kept[index])])
    if not len(kept):
        raise _all_too_small(selection, int(rows.max()), where)
    return _select(selection, [group], where)


def kv_traces(selection: TraceSelection, where: str = "traces") -> list[Trace]:
    """The selected files, steps of replays, or windows.

    Raises
    ------
    SweepError
        Keys of routing traces are given, no file, a step or window that is not there, or nothing
        is selected.
    """
    if selection.synthetic or selection.layers is not None:
        raise SweepError(
            f"{where}: cache lengths are read from files; synthetic and layers are for routing. "
            "Give files, such as one that numpy.save wrote"
        )
    if not selection.files:
        raise SweepError(f"{where}.files: no file; give at least one file of cache lengths")
    groups = [
        _lengths(selection, number, name, where) for number, name in enumerate(selection.files)
    ]
    _check_steps(selection, groups, where)
    kept = [_large_enough(selection, group.rows) for group in groups]
    if not any(map(len, kept)):
        most = max(int(group.rows.max()) for group in groups if len(group.rows))
        raise _all_too_small(selection, most, where)
    large = [
        _Group(group.rows[own], partial(_of_kept, group, own))
        for group, own in zip(groups, kept, strict=True)
    ]
    return _select(selection, large, where)


def _of_kept(group: _Group, kept: npt.NDArray[np.intp], index: int) -> _Batch:
    return group.batch(int(kept[index]))


def _large_enough(selection: TraceSelection, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Numbers of the batches that have the least rows wanted; of unreadable ones, none is known."""
    return np.flatnonzero((rows >= (selection.min_tokens or 0)) | (rows == 0))


def _all_too_small(selection: TraceSelection, most: int, where: str) -> SweepError:
    return SweepError(
        f"{where}.min_tokens: no batch has {selection.min_tokens} rows, the longest has {most}; "
        "choose a smaller number"
    )


def _layer_steps(selection: TraceSelection, shape: Experts, where: str) -> list[_Batch]:
    if selection.synthetic:
        return list(_synthetic(selection, shape))
    problems: list[str] = []
    batches = list(_files(selection, shape, where, problems))
    if problems:
        raise SeveralProblems(problems)
    return batches


def _files(
    selection: TraceSelection, shape: Experts, where: str, problems: list[str]
) -> Iterator[_Batch]:
    """The layer-steps of all files; those that cannot be opened are added to ``problems``."""
    for number, name in enumerate(selection.files):
        try:
            parts = routing_parts(
                name, experts=shape[0], k=shape[1],
                layers=selection.layers, steps=selection.steps,
            )  # fmt: skip
        except TraceError as error:
            problems.append(f"{where}.files[{number}]: {error}")
            continue
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


def _synthetic(selection: TraceSelection, shape: Experts) -> Iterator[_Batch]:
    drawn = selection.synthetic
    assert drawn is not None
    experts, k = _known(shape)
    layers = _wanted(selection.layers, drawn.layers)
    steps = _wanted(selection.steps, drawn.steps)
    tables = len(layers) * len(steps)
    check_size(
        "traces.synthetic", tables, MOST_TRACES, "tables", "draw fewer, or select layers and steps"
    )
    check_size(
        "traces.synthetic.tokens", drawn.tokens * k, MOST_ENTRIES,
        f"choices of experts in a table, {k} for each of {drawn.tokens:,} tokens",
        "draw smaller tables",
    )  # fmt: skip
    check_size(
        "traces.synthetic", min(tables, selection.sample or tables) * drawn.tokens * k, MOST_DRAWN,
        "choices of experts in all tables", "draw fewer or smaller tables, or a sample",
    )  # fmt: skip

    @lru_cache(maxsize=1)  # windows of a table come one after the other
    def table(layer: int, step: int) -> RoutingTable:
        return synthetic_routing(
            drawn.tokens, experts, k,
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
    for layer in layers:
        for step in steps:
            yield _Batch(
                source, layer, step, drawn.tokens,
                f"layer {layer} step {step} has {drawn.tokens} tokens",
                (layer, step), partial(_content, partial(read, layer, step)),
            )  # fmt: skip


def _known(shape: Experts) -> tuple[int, int]:
    if shape[0] is None:
        raise SweepError(
            "traces.synthetic: this workload does not say how many experts it has; give files"
        )
    return shape


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

    steps = np.empty(0, dtype=np.int64) if file.steps is None else file.steps
    return _Group(file.sizes[chosen], batch, steps)


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
    count = total if selection.sample is None else min(total, selection.sample)
    check_size(where, count, MOST_TRACES, "traces are selected", "draw a smaller sample of them")
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
        read = _reader(selection, batch, window, where)
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
    if isinstance(windows, int):
        number, last = windows, windows - 1
    else:
        number, last = len(windows), max(windows)
        if len(set(windows)) < number:
            raise SweepError(f"{where}.windows: holds a window twice; give each once")
    short = ~unreadable & (group.rows // size <= last)
    if short.any():
        batch = group.batch(int(np.argmax(short)))
        try:
            check_window(batch.source, batch.label, batch.rows, last, size)
        except TraceError as error:
            raise SweepError(f"{where}.windows: {error}") from None
    return np.where(unreadable, whole, number)


def _window(selection: TraceSelection, batch: _Batch, offset: int) -> int | None:
    """The window of a batch that comes ``offset`` windows after its first."""
    if selection.windows is None or not batch.rows:
        return None
    return selection.windows[offset] if isinstance(selection.windows, list) else offset


def _wanted(values: Sequence[int] | None, count: int) -> Sequence[int]:
    """Those of the first ``count`` numbers that are wanted, each once."""
    if values is None:
        return range(count)
    return sorted({value for value in values if value < count})


def _check_labels(
    selection: TraceSelection, shape: Experts, found: Sequence[_Batch], where: str
) -> None:
    """Refuse layers and steps of which there is nothing to run."""
    absent = {
        key: sorted(set(wanted) - {getattr(batch, key) for batch in found})
        for key, wanted in (("layer", selection.layers), ("step", selection.steps))
        if wanted is not None
    }
    if not any(absent.values()):
        return
    every = _layer_steps(selection.model_copy(update={"layers": None, "steps": None}), shape, where)
    held = {key: {getattr(batch, key) for batch in every} for key in ("layer", "step")}
    there = (
        f"the sources hold layers {_span(held['layer'])} and steps {_span(held['step'])}; choose "
        "of these"
    )
    for key, values in absent.items():
        missing = [value for value in values if value not in held[key]]
        if missing:
            raise SweepError(f"{where}.{key}s: no source holds {key} {_span(missing)}; {there}")
    # What is wanted is there, but a layer has none of the steps, or a step none of the layers.
    key, values = next((key, values) for key, values in absent.items() if values)
    other = "steps" if key == "layer" else "layers"
    raise SweepError(f"{where}.{key}s: {key} {_span(values)} has none of the {other}; {there}")


def _check_steps(selection: TraceSelection, groups: Sequence[_Group], where: str) -> None:
    """Refuse steps that no replay holds, unless a file that cannot be read may hold them."""
    known = [group.steps for group in groups if group.steps is not None]
    if selection.steps is None or len(known) < len(groups):
        return
    held = np.concatenate(known)
    missing = sorted(set(np.setdiff1d(selection.steps, held).tolist()))
    if missing:
        raise SweepError(
            f"{where}.steps: no file holds step {_span(missing)}; there are steps "
            f"{_span(held.tolist())}, choose of these"
        )


def _reader(
    selection: TraceSelection, batch: _Batch, window: int | None, where: str
) -> Callable[[], Content]:
    """Reads a batch or window of it; one of another size than wanted is not read at all."""
    wanted = selection.tokens
    if selection.windows is None and batch.rows and wanted not in (None, batch.rows):
        message = (
            f"{batch.source}: {batch.label}, expected {wanted} as {where}.tokens says; leave "
            f"smaller ones out with {where}.min_tokens, or add {where}.windows to run {wanted} each"
        )
        return partial(_refuse, message, window)
    return partial(batch.read, window)


def _span(values: Iterable[int]) -> str:
    """``0..5, 7, 9..12``, the first few of many."""
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    texts = [str(low) if low == high else f"{low}..{high}" for low, high in runs]
    more = ["..."] if len(texts) > _SHOWN else []
    return ", ".join(texts[:_SHOWN] + more)
