"""Recorded runs that do not appear in any figure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stepsim.reproduce.figures.attention import attention_run
from stepsim.reproduce.figures.regions import shared_point
from stepsim.reproduce.figures.tilings import tiling_points
from stepsim.reproduce.points import Point, Run
from stepsim.reproduce.settings import ARCHIVED_TRACES, STRATEGIES


def archived_points() -> list[Point]:
    """Recorded settings that no figure shows: shallow FIFOs, two regions, extreme KV lengths."""
    shallow = [
        replace(p, figure="", point_id=f"d2_{p.point_id}", run=_with(p.run, fifo_depth=2))
        for p in tiling_points("10")
        if p.run.parameters["fifo_depth"] != 2
    ]
    extreme = [
        Point(
            "", f"b{trace.requests}_{trace.first}_{short}", strategy,
            _with(attention_run(trace, strategy), max_length=tokens), trace.kv_class,
        )
        for tokens, windows in ARCHIVED_TRACES.items()
        for trace in windows
        for strategy, short in STRATEGIES.items()
    ]  # fmt: skip
    return [*shallow, shared_point("", "dynamic", 2), *extreme]


def _with(run: Run, **changed: Any) -> Run:
    """The run with other parameters."""
    return replace(run, parameters={**run.parameters, **changed})
