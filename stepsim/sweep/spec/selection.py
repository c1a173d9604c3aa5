"""Selection of the batches that a sweep runs: layers, steps, windows, and a sample of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from stepsim.errors import SweepError, TraceError
from stepsim.sweep.planning.batches import Batch, Experts, Group, layer_steps, lengths_of, refuse
from stepsim.sweep.planning.traces import Content, Source, Trace, read_sources
from stepsim.sweep.spec.sizes import MOST_TRACES, check_size
from stepsim.sweep.spec.specification import TraceSelection
from stepsim.trace_io import check_window

_SHOWN = 10


def routing_traces(selection: TraceSelection, shape: Experts, where: str = "traces") -> list[Trace]:
    """The selected layer-steps or windows, in the order of source, layer, step.

    Raises
    ------
    SweepError
        Neither or both of files and synthetic are given, a layer, step or window does not exist, or
        nothing is selected, or no file can be opened.
    """
    if bool(selection.files) == bool(selection.synthetic):
        found = "both" if selection.files else "neither"
        raise SweepError(
            f"{where}: expected either files or synthetic, found {found}; give one of them"
        )
    if selection.column is not None:
        raise SweepError(f"{where}.column: applies only to files of lengths; remove it")
    batches = layer_steps(selection, shape, where)
    _check_labels(selection, shape, batches, where)
    rows = np.array([batch.rows for batch in batches])
    kept = _large_enough(selection, rows)
    group = Group(rows[kept], lambda index: batches[int(kept[index])])
    if not len(kept):
        raise _all_too_small(selection, int(rows.max()), where)
    return _select(selection, [group], where)


def kv_traces(selection: TraceSelection, where: str = "traces") -> list[Trace]:
    """The selected files, steps of replays, or windows.

    Raises
    ------
    SweepError
        Keys of routing traces are given, there is no file, a step or window does not exist, or
        nothing is selected.
    """
    if selection.synthetic or selection.layers is not None:
        raise SweepError(
            f"{where}: cache lengths are read from files; synthetic and layers are for routing. "
            "Give files, such as one that numpy.save wrote"
        )
    if not selection.files:
        raise SweepError(
            f"{where}.files: expected at least one file of cache lengths, found none; add one"
        )
    groups = [
        lengths_of(selection, number, name, where) for number, name in enumerate(selection.files)
    ]
    _check_steps(selection, groups, where)
    kept = [_large_enough(selection, group.rows) for group in groups]
    if not any(map(len, kept)):
        most = max(int(group.rows.max()) for group in groups if len(group.rows))
        raise _all_too_small(selection, most, where)
    large = [
        Group(group.rows[own], partial(_of_kept, group, own))
        for group, own in zip(groups, kept, strict=True)
    ]
    return _select(selection, large, where)


def _of_kept(group: Group, kept: npt.NDArray[np.intp], index: int) -> Batch:
    return group.batch(int(kept[index]))


def _large_enough(selection: TraceSelection, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Numbers of the batches with at least the required rows; unreadable batches stay in."""
    return np.flatnonzero((rows >= (selection.min_tokens or 0)) | (rows == 0))


def _all_too_small(selection: TraceSelection, most: int, where: str) -> SweepError:
    return SweepError(
        f"{where}.min_tokens: no batch has {selection.min_tokens} rows, the longest has {most}; "
        "choose a smaller number"
    )


def _select(selection: TraceSelection, groups: Sequence[Group], where: str) -> list[Trace]:
    counts = np.concatenate([_window_counts(selection, group, where) for group in groups])
    ends = np.cumsum(counts)
    first = np.cumsum([0, *(len(group.rows) for group in groups)])
    total = int(ends[-1])
    if not total:
        most = max(int(group.rows.max()) for group in groups)
        raise SweepError(
            f"{where}.windows: no batch has {selection.tokens} rows, the longest has {most}; "
            "choose smaller tokens"
        )
    if selection.seed and selection.sample is None:
        raise SweepError(
            f"{where}.seed: is the seed of the sample, which is missing; give sample as well, or "
            "remove it (synthetic tables have a seed of their own)"
        )
    count = total if selection.sample is None else min(total, selection.sample)
    check_size(where, count, MOST_TRACES, "traces are selected", "draw a smaller sample of them")
    chosen: Sequence[int] = range(total)
    if selection.sample is not None:
        if selection.sample > total:
            raise SweepError(
                f"{where}.sample: {selection.sample} traces requested, but only {total} are "
                "selected; sample fewer, or leave the key out to run all"
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


def _window_counts(selection: TraceSelection, group: Group, where: str) -> npt.NDArray[np.int64]:
    """The number of windows to run of each batch; 1 for a whole batch."""
    windows, size = selection.windows, selection.tokens
    whole = np.ones(len(group.rows), dtype=np.int64)
    if windows is None:
        return whole
    if size is None:
        raise SweepError(
            f"{where}.windows: the number of tokens per window is missing; give tokens as well"
        )
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


def _window(selection: TraceSelection, batch: Batch, offset: int) -> int | None:
    """The window of a batch that comes ``offset`` windows after its first."""
    if selection.windows is None or not batch.rows:
        return None
    return selection.windows[offset] if isinstance(selection.windows, list) else offset


def _check_labels(
    selection: TraceSelection, shape: Experts, found: Sequence[Batch], where: str
) -> None:
    """Refuse layers and steps without anything to run."""
    absent = {
        key: sorted(set(wanted) - {getattr(batch, key) for batch in found})
        for key, wanted in (("layer", selection.layers), ("step", selection.steps))
        if wanted is not None
    }
    if not any(absent.values()):
        return
    every = layer_steps(selection.model_copy(update={"layers": None, "steps": None}), shape, where)
    held = {key: {getattr(batch, key) for batch in every} for key in ("layer", "step")}
    there = (
        f"the sources hold layers {_span(held['layer'])} and steps {_span(held['step'])}; choose "
        "among these"
    )
    for key, values in absent.items():
        missing = [value for value in values if value not in held[key]]
        if missing:
            raise SweepError(f"{where}.{key}s: no source holds {key} {_span(missing)}; {there}")
    # Everything exists, but a layer has none of the steps, or a step none of the layers.
    key, values = next((key, values) for key, values in absent.items() if values)
    other = "steps" if key == "layer" else "layers"
    raise SweepError(f"{where}.{key}s: {key} {_span(values)} has none of the {other}; {there}")


def _check_steps(selection: TraceSelection, groups: Sequence[Group], where: str) -> None:
    """Refuse steps that no replay has, unless an unreadable file may have them."""
    known = [group.steps for group in groups if group.steps is not None]
    if selection.steps is None or len(known) < len(groups):
        return
    held = np.concatenate(known)
    missing = sorted(set(np.setdiff1d(selection.steps, held).tolist()))
    if missing:
        raise SweepError(
            f"{where}.steps: no file holds step {_span(missing)}; found steps "
            f"{_span(held.tolist())}; choose among these"
        )


def _reader(
    selection: TraceSelection, batch: Batch, window: int | None, where: str
) -> Callable[[], Content]:
    """Reads a batch or a window of it; a batch of the wrong size is not read at all."""
    wanted = selection.tokens
    if selection.windows is None and batch.rows and wanted not in (None, batch.rows):
        message = (
            f"{batch.source}: {batch.label}, expected {wanted} by {where}.tokens; leave "
            f"smaller ones out with {where}.min_tokens, or add {where}.windows to run {wanted} each"
        )
        return partial(refuse, message, window)
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
