"""Rows of a figure's table: a run's settings and numbers, and the published ones beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from stepsim.reproduce.points import Point, Run
from stepsim.reproduce.published import Published, PublishedRow
from stepsim.reproduce.runs import COUNTING, Outcome
from stepsim.reproduce.schema import MEASURED

__all__ = ["SYNTHETIC", "figure_rows", "geometric_mean"]

SYNTHETIC: Final = "synthetic"
Row = dict[str, Any]

_RATIOS: Final = {
    "14": ("interleaved", "interleaved cycles / dynamic cycles"),
    "15": ("coarse", "coarse cycles / dynamic cycles"),
    "17": ("memory-matched", "memory-matched cycles / cycles"),
}
_MEAN: Final = "geometric mean over 3 traces of cycles / dynamic cycles"


def figure_rows(
    points: Sequence[Point], outcomes: Mapping[Run, Outcome], published: Published | None
) -> list[Row]:
    """One row for each point, then the means of figure 21.

    Columns are those of :func:`~stepsim.reproduce.schema.points_schema`; absent ones are null.
    """
    rows = []
    for point in points:
        row = _ours(point, outcomes[point.run], recorded=published is not None)
        row |= _ratio(point, points, outcomes)
        if published is not None:
            found = published.plotted(point.figure, point.run)
            row |= _theirs(row, found, published)
            if point.figure == "8" and isinstance(point.run.tile, int):
                hardware = published.hardware.get((point.run.tile, point.run.tile_inter or 0))
                if hardware is not None:
                    row |= {
                        "hdl_cycles": hardware.cycles,
                        "hdl_offchip_bytes": hardware.offchip_bytes,
                    }
        rows.append(row)
    if points[0].figure == "21":
        rows += _means(points, outcomes, published)
    return rows


def geometric_mean(values: Sequence[float]) -> float:
    """The n-th root of the product."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _ours(point: Point, outcome: Outcome, *, recorded: bool) -> Row:
    run = point.run
    trace = "; ".join(name for name in (run.routing, run.lengths) if name)
    return {
        "figure": point.figure,
        "point_id": point.point_id,
        "workload": run.workload,
        "model": run.model,
        "batch": run.batch,
        "trace": trace if recorded or not trace else SYNTHETIC,
        "series": point.series,
        "kv_class": point.kv_class or None,
        "tile": str(run.tile) or None,
        "tile_inter": run.tile_inter,
        "regions": run.regions,
        "fifo_depth": run.fifo_depth,
        "machine": run.machine,
        "closure_slack": run.closure_slack,
        "counting": COUNTING,
        "status": outcome.status,
        **{name: outcome.measures[name] for name in MEASURED},
        "program_hash": outcome.program_hash,
        "wall_seconds": outcome.wall_seconds,
        "seconds": outcome.seconds,
    }


def _ratio(point: Point, points: Sequence[Point], outcomes: Mapping[Run, Outcome]) -> Row:
    """The normalized value of a point, for figures that show some."""
    if point.figure not in _RATIOS:
        return {}
    baseline, meaning = _RATIOS[point.figure]

    def cycles(series: str) -> int:
        """Of the point of a series that differs from this one in nothing else."""
        ours = (point.run.model, point.run.batch, point.run.lengths)
        for other in points:
            same = (other.run.model, other.run.batch, other.run.lengths) == ours
            if same and other.series == series:
                return outcomes[other.run].cycles
        raise AssertionError(f"figure {point.figure} has no {series} point beside {point.point_id}")

    # The decoder's figure gives each point its own speed; the others one gain for each pair.
    reached = point.series if point.figure == "17" else "dynamic"
    return {"ratio": cycles(baseline) / cycles(reached), "ratio_of": meaning}


def _theirs(row: Row, found: PublishedRow | None, published: Published) -> Row:
    if found is None:
        return {}
    theirs: Row = {
        "published_cycles": found.cycles,
        "canonical_cycles": published.canonical.get(found.point_id),
        "published_offchip_bytes": found.offchip_bytes,
        "published_onchip_bytes": found.onchip_bytes,
        "published_flops": found.flops,
        "published_padded_flops": found.padded_flops,
        "published_allocated_flops_per_cycle": found.allocated_flops,
        "published_compute_utilization": found.compute_utilization,
        "published_bandwidth_utilization": found.bandwidth_utilization,
        "published_ratio": found.ratio,
    }
    if found.cycles is not None:
        theirs["cycles_difference"] = row["cycles"] - found.cycles
        theirs["cycles_relative"] = row["cycles"] / found.cycles - 1
    if found.ratio is not None:
        theirs["ratio_relative"] = row["ratio"] / found.ratio - 1
    return theirs


def _means(
    points: Sequence[Point], outcomes: Mapping[Run, Outcome], published: Published | None
) -> list[Row]:
    """Figure 21: means over the traces of each batch and spread."""
    cycles: dict[tuple[int, str, str], list[int]] = {}
    for point in points:
        group = (point.run.batch, point.kv_class, point.series)
        cycles.setdefault(group, []).append(outcomes[point.run].cycles)
    rows = []
    for (batch, kv_class, series), own in cycles.items():
        if series == "dynamic":
            continue
        dynamic = cycles[batch, kv_class, "dynamic"]
        ratio = geometric_mean([a / b for a, b in zip(own, dynamic, strict=True)])
        short = "interleave" if series == "interleaved" else series
        row: Row = {
            "figure": "21",
            "point_id": f"f21_b{batch}_{kv_class}_{short}_geomean",
            "workload": "attention",
            "model": points[0].run.model,
            "batch": batch,
            "series": series,
            "kv_class": kv_class,
            "ratio": ratio,
            "ratio_of": _MEAN,
        }
        found = None if published is None else published.mean(batch, kv_class, series)
        if found is not None and found.ratio is not None:
            row |= {"published_ratio": found.ratio, "ratio_relative": ratio / found.ratio - 1}
        rows.append(row)
    return rows
