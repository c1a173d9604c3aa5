"""Which batches of which sources a sweep runs: layers, steps, windows, and a sample of them."""

from __future__ import annotations

import bisect
import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

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
    batches = list(
        _synthetic(selection, shape) if selection.synthetic else _files(selection, shape)
    )
    if not batches:
        raise _nothing(selection, shape, where)
    return _select(selection, batches, where)


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
            f"{where}: attention reads cache lengths from files; synthetic and layers are for "
            "routing. Give files, and of replays steps"
        )
    if not selection.files:
        raise SweepError(f"{where}.files: no file; attention needs at least one file of lengths")
    batches = [
        batch
        for number, name in enumerate(selection.files)
        for batch in _lengths(selection, number, name, where)
    ]
    if not batches:
        raise SweepError(f"{where}.steps: no file holds one of them; choose others")
    return _select(selection, batches, where)


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


def _lengths(selection: TraceSelection, number: int, name: str, where: str) -> Iterator[_Batch]:
    source = Path(name).name
    try:
        file = open_kv_lengths(name, column=selection.column)
    except TraceError as error:
        yield _Batch(source, None, None, 0, "", (number, 0), partial(_refuse, str(error)))
        return
    if file.steps is None and selection.steps is not None:
        raise SweepError(
            f"{where}.steps: {source} has no steps, only files of `stepsim trace replay` have; "
            "remove the key"
        )
    for batch, rows in enumerate(file.sizes):
        step = None if file.steps is None else int(file.steps[batch])
        if step is None or _wanted(selection.steps, step):
            yield _Batch(
                source, None, step, int(rows), file.label(batch), (number, batch),
                partial(_cached_tokens, file, batch, selection.tokens),
            )  # fmt: skip


def _cached_tokens(file: KvFile, batch: int, requests: int | None, window: int | None) -> Content:
    lengths = file.read(batch, requests=requests, window=window)
    return digest(lengths.tobytes()), lengths


def _refuse(message: str, window: int | None) -> Content:
    raise TraceError(message)


def _select(selection: TraceSelection, batches: Sequence[_Batch], where: str) -> list[Trace]:
    windows = [_windows(selection, batch, where) for batch in batches]
    ends = list(accumulate(map(len, windows)))
    total = ends[-1]
    if not total:
        most = max(batch.rows for batch in batches)
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
        number = bisect.bisect_right(ends, index)
        batch = batches[number]
        window = windows[number][index - ends[number] + len(windows[number])]
        place = (*batch.place, -1 if window is None else window)
        read = partial(batch.read, window)
        sources.append(Source(batch.source, batch.layer, batch.step, window, place, read))
    return read_sources(sources)


def _windows(selection: TraceSelection, batch: _Batch, where: str) -> Sequence[int | None]:
    """Numbers of the windows of a batch that are run; a single None for the batch as a whole."""
    windows, size = selection.windows, selection.tokens
    if windows is None or not batch.rows:
        return [None]
    if size is None:
        raise SweepError(f"{where}.windows: of how many tokens is not known; give tokens as well")
    if windows == "all":
        return range(batch.rows // size)
    wanted = range(windows) if isinstance(windows, int) else windows
    if len(set(wanted)) < len(wanted):
        raise SweepError(f"{where}.windows: holds a window twice; give each once")
    try:
        check_window(batch.source, batch.label, batch.rows, max(wanted), size)
    except TraceError as error:
        raise SweepError(f"{where}.windows: {error}") from None
    return wanted


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
