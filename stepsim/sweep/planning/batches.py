"""The batches that the sources of a sweep hold: layer-steps of routing, files of lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stepsim.errors import SweepError, TraceError
from stepsim.sweep.planning.traces import Content, digest
from stepsim.sweep.spec.problems import SeveralProblems
from stepsim.sweep.spec.sizes import MOST_DRAWN, MOST_TRACES, check_size
from stepsim.sweep.spec.specification import TraceSelection
from stepsim.trace_io import (
    MOST_ENTRIES,
    KvFile,
    RoutingPart,
    RoutingTable,
    open_kv_lengths,
    routing_parts,
    synthetic_routing,
)

Experts = tuple[int, int] | tuple[None, None]
"""Experts of the model and of a token; None if the workload does not state them."""


class Batch(NamedTuple):
    """A layer-step or a file of lengths, from which windows are taken.

    ``label`` describes it for messages, with its number of ``rows``; ``read`` takes the number
    of a window, or None for all rows.
    """

    source: str
    layer: int | None
    step: int | None
    rows: int
    label: str
    place: tuple[int, int]
    read: Callable[[int | None], Content]


class Group(NamedTuple):
    """Batches with their numbers of rows, made one by one: a replay may have millions of steps.

    ``steps`` are all steps of the source, selected or not; None if unknown.
    """

    rows: npt.NDArray[np.int64]
    batch: Callable[[int], Batch]
    steps: npt.NDArray[np.int64] | None = None


def layer_steps(selection: TraceSelection, shape: Experts, where: str) -> list[Batch]:
    if selection.synthetic:
        return list(_synthetic(selection, shape))
    problems: list[str] = []
    batches = list(_files(selection, shape, where, problems))
    if problems:
        raise SeveralProblems(problems)
    return batches


def _files(
    selection: TraceSelection, shape: Experts, where: str, problems: list[str]
) -> Iterator[Batch]:
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
            # The folder is not part of the rows, so that sweeps in different places can be
            # compared.
            yield Batch(
                Path(name).name, part.layer, part.step, part.tokens,
                f"layer {part.layer} step {part.step} has {part.tokens} tokens",
                (number, part.first_row),
                partial(_content, partial(_recorded, part, selection.tokens)),
            )  # fmt: skip


def _recorded(part: RoutingPart, tokens: int | None, window: int | None) -> RoutingTable:
    return part.read() if window is None else part.read_window(window, tokens or part.tokens)


def _synthetic(selection: TraceSelection, shape: Experts) -> Iterator[Batch]:
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
            yield Batch(
                source, layer, step, drawn.tokens,
                f"layer {layer} step {step} has {drawn.tokens} tokens",
                (layer, step), partial(_content, partial(read, layer, step)),
            )  # fmt: skip


def _known(shape: Experts) -> tuple[int, int]:
    if shape[0] is None:
        raise SweepError(
            "traces.synthetic: this workload does not state its number of experts; give files"
        )
    return shape


def _content(read: Callable[[int | None], RoutingTable], window: int | None) -> Content:
    table = read(window)
    return table.identity(), table.experts


def lengths_of(selection: TraceSelection, number: int, name: str, where: str) -> Group:
    source = Path(name).name
    try:
        file = open_kv_lengths(name, column=selection.column)
    except TraceError as error:
        bad = Batch(source, None, None, 0, "", (number, 0), partial(refuse, str(error)))
        return Group(np.zeros(1, dtype=np.int64), lambda _: bad)
    if file.steps is None and selection.steps is not None:
        raise SweepError(
            f"{where}.steps: {source} has no steps, only files of `stepsim trace replay` have; "
            "remove the key"
        )
    chosen = np.arange(len(file.sizes))
    if file.steps is not None and selection.steps is not None:
        chosen = np.flatnonzero(np.isin(file.steps, selection.steps))

    def batch(index: int) -> Batch:
        own = int(chosen[index])
        return Batch(
            source, None, None if file.steps is None else int(file.steps[own]),
            int(file.sizes[own]), file.label(own), (number, own),
            partial(_cached_tokens, file, own, selection.tokens),
        )  # fmt: skip

    steps = np.empty(0, dtype=np.int64) if file.steps is None else file.steps
    return Group(file.sizes[chosen], batch, steps)


def _cached_tokens(file: KvFile, batch: int, requests: int | None, window: int | None) -> Content:
    lengths = file.read(batch, requests=requests, window=window)
    return digest(lengths.tobytes()), lengths


def refuse(message: str, window: int | None) -> Content:
    raise TraceError(message)


def _wanted(values: Sequence[int] | None, count: int) -> Sequence[int]:
    """The selected ones of the first ``count`` numbers, each once."""
    if values is None:
        return range(count)
    return sorted({value for value in values if value < count})
