"""The traces of a sweep: read, selected and sampled; a bad one is kept with its error."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepsim.errors import SweepError, TraceError
from stepsim.sweep.spec import TraceSelection
from stepsim.trace_io import read_kv_lengths, routing_parts, synthetic_routing
from stepsim.workloads import MoEShape

__all__ = ["NO_TRACE", "Trace", "kv_traces", "routing_traces"]


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace as the runs see it.

    Attributes
    ----------
    source, layer, step : labels; None where they do not apply.
    identity : SHA-256 of the content, or of the labels when it could not be read.
    data : expert ids ``[tokens, k]`` or lengths ``[requests]``; None without data.
    error : why the trace cannot be used; empty when it can.
    """

    source: str | None
    layer: int | None
    step: int | None
    identity: str | None
    data: Any
    error: str = ""

    @property
    def rows(self) -> int | None:
        return None if self.data is None else len(self.data)


NO_TRACE = Trace(None, None, None, None, None)
"""The trace of workloads that have none."""

_Item = tuple[str, int, int, Callable[[], Any]]


def routing_traces(selection: TraceSelection, shape: MoEShape) -> list[Trace]:
    """The selected layer-steps, in the order of source, layer, step.

    Raises
    ------
    SweepError
        Neither or both of files and synthetic, or nothing is selected.
    TraceError
        A file cannot be opened at all.
    """
    _one_source(selection)
    items = list(_synthetic(selection, shape) if selection.synthetic else _files(selection, shape))
    kept = [item for item in items if _selected(selection, item)]
    if not kept:
        layers = sorted({layer for _, layer, _, _ in items})
        steps = sorted({step for _, _, step, _ in items})
        raise SweepError(
            f"traces: the selection is empty; the sources hold layers {_span(layers)} and steps "
            f"{_span(steps)}"
        )
    return [_read(item) for item in _sampled(selection, kept)]


def kv_traces(selection: TraceSelection) -> list[Trace]:
    """Every file is one trace of cache lengths.

    Raises
    ------
    SweepError
        Keys of routing traces are given, or no file.
    """
    if selection.synthetic or selection.layers is not None or selection.steps is not None:
        raise SweepError(
            "traces: attention reads cache lengths, one batch per file; synthetic, layers and "
            "steps are for routing. Give files only"
        )
    if not selection.files:
        raise SweepError("traces.files: no file; attention needs at least one file of lengths")

    def reader(name: str) -> Callable[[], Any]:
        return lambda: read_kv_lengths(name, requests=selection.tokens)

    items = [(Path(name).name, 0, 0, reader(name)) for name in selection.files]
    traces = []
    for source, _, _, read in _sampled(selection, items):
        try:
            lengths = read()
        except TraceError as error:
            traces.append(Trace(source, None, None, _digest(source), None, str(error)))
        else:
            traces.append(Trace(source, None, None, _digest(lengths.tobytes()), lengths))
    return traces


def _one_source(selection: TraceSelection) -> None:
    if bool(selection.files) == bool(selection.synthetic):
        found = "both" if selection.files else "neither"
        raise SweepError(
            f"traces: expected either files or synthetic, found {found}; give one of them"
        )


def _synthetic(selection: TraceSelection, shape: MoEShape) -> Iterator[_Item]:
    drawn = selection.synthetic
    assert drawn is not None

    def reader(layer: int, step: int) -> Callable[[], Any]:
        return lambda: synthetic_routing(
            drawn.tokens, shape.experts, shape.active,
            seed=drawn.seed, skew=drawn.skew, layer=layer, step=step,
        )  # fmt: skip

    source = f"synthetic (seed {drawn.seed}, skew {drawn.skew:g})"
    for layer in range(drawn.layers):
        for step in range(drawn.steps):
            yield source, layer, step, reader(layer, step)


def _files(selection: TraceSelection, shape: MoEShape) -> Iterator[_Item]:
    for name in selection.files:
        # The folder is not part of the rows, so that a sweep can be compared with one elsewhere.
        parts = routing_parts(
            name, experts=shape.experts, k=shape.active, tokens=selection.tokens
        )  # fmt: skip
        for part in parts:
            yield Path(name).name, part.layer, part.step, part.read


def _selected(selection: TraceSelection, item: _Item) -> bool:
    _, layer, step, _ = item
    return (selection.layers is None or layer in selection.layers) and (
        selection.steps is None or step in selection.steps
    )


def _sampled(selection: TraceSelection, items: list[_Item]) -> list[_Item]:
    """A sample without replacement, in the order of the sources."""
    if selection.sample is None:
        return items
    if selection.sample > len(items):
        raise SweepError(
            f"traces.sample: {selection.sample} traces wanted, but only {len(items)} are selected; "
            "sample fewer, or leave the key out to run all"
        )
    chosen = random.Random(selection.seed).sample(range(len(items)), selection.sample)
    return [items[i] for i in sorted(chosen)]


def _read(item: _Item) -> Trace:
    source, layer, step, read = item
    try:
        table = read()
    except TraceError as error:
        return Trace(source, layer, step, _digest(f"{source} {layer} {step}"), None, str(error))
    return Trace(source, layer, step, table.identity(), np.asarray(table.experts))


def _digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _span(values: list[int]) -> str:
    dense = values == list(range(values[0], values[-1] + 1))
    return f"{values[0]}..{values[-1]}" if dense else ", ".join(map(str, values))
