"""Rows of a figure's table: a run's settings and numbers, and the published ones beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stepsim.reproduce.figure import Figure, Ratio, Row
from stepsim.reproduce.points import Point, Run
from stepsim.reproduce.published import Published, PublishedRow
from stepsim.reproduce.runs import COUNTING, Outcome
from stepsim.reproduce.schema import MEASURED

__all__ = ["SYNTHETIC", "figure_rows"]

SYNTHETIC: Final = "synthetic"


def figure_rows(
    figure: Figure,
    points: Sequence[Point],
    outcomes: Mapping[Run, Outcome],
    published: Published | None,
) -> list[Row]:
    """One row for each of the points of a figure, then its summary.

    Columns are those of :func:`~stepsim.reproduce.schema.points_schema`; absent ones are null.
    """
    rows = []
    for point in points:
        row = _ours(point, outcomes[point.run], recorded=published is not None)
        if figure.ratio is not None:
            row |= _ratio(figure.ratio, point, points, outcomes)
        if published is not None:
            row |= _theirs(row, published.plotted(point.figure, point.run), published)
            row |= dict(figure.beside(point, published))
        rows.append(row)
    return rows + figure.summary(rows, published)


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


def _ratio(
    ratio: Ratio, point: Point, points: Sequence[Point], outcomes: Mapping[Run, Outcome]
) -> Row:
    """The normalized value of a point."""

    def cycles(series: str) -> int:
        """Of the point of a series that differs from this one in nothing else."""
        ours = (point.run.model, point.run.batch, point.run.lengths)
        for other in points:
            same = (other.run.model, other.run.batch, other.run.lengths) == ours
            if same and other.series == series:
                return outcomes[other.run].cycles
        raise AssertionError(f"figure {point.figure} has no {series} point beside {point.point_id}")

    value = cycles(ratio.over) / cycles(ratio.of or point.series)
    return {"ratio": value, "ratio_of": ratio.meaning}


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
