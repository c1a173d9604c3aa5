"""Rows of a figure's table: a run's settings and numbers, with the published ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from stepsim.errors import ArgError
from stepsim.reproduce.figure import Figure, Ratio, Row
from stepsim.reproduce.points import Point, Run
from stepsim.reproduce.published import Published, PublishedRow
from stepsim.reproduce.runs import Outcome
from stepsim.reproduce.schema import MEASURED, PARAMETERS

SYNTHETIC: Final = "synthetic"


def figure_rows(
    figure: Figure,
    points: Sequence[Point],
    outcomes: Mapping[Run, Outcome],
    published: Published | None,
) -> list[Row]:
    """The rows of `point_rows`, then the summary of the figure."""
    rows = point_rows(figure, points, outcomes, published)
    return rows + figure.summary(rows, published)


def point_rows(
    figure: Figure,
    points: Sequence[Point],
    outcomes: Mapping[Run, Outcome],
    published: Published | None,
) -> list[Row]:
    """One row for each of the points of a figure, without its summary.

    Columns are those of :func:`~stepsim.reproduce.schema.points_schema` and, for runs of a user,
    of :func:`~stepsim.reproduce.schema.own_schema`; absent ones are null. ``published`` is None
    for no comparison.

    Raises
    ------
    ArgError : a point has no counterpart for its ratio.
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
    return rows


def _ours(point: Point, outcome: Outcome, *, recorded: bool) -> Row:
    run, settings = point.run, outcome.settings
    trace = "; ".join(name for name in (run.routing, run.lengths) if name)
    if trace and not recorded and not run.folder:
        trace = SYNTHETIC
    return {
        **(settings if run.folder else _of_the_paper(settings)),
        "figure": point.figure,
        "point_id": point.point_id,
        "workload": settings["workload"],
        "batch": settings["batch"],
        "trace": (trace or None) if run.folder else trace,
        "layer": run.layer,
        "step": run.step,
        "series": point.series,
        "kv_class": point.kv_class or None,
        "level": run.level,
        "machine": settings["machine"],
        "machine_json": settings["machine_json"],
        "closure_slack": json.loads(settings["machine_json"]).get("closure_slack"),
        "counting": settings["counting"],
        "status": outcome.status,
        **{name: outcome.measures[name] for name in MEASURED},
        "memory_reads": outcome.measures.get("memory_reads"),
        "program_hash": outcome.program_hash,
        "wall_seconds": outcome.wall_seconds,
        "seconds": outcome.seconds,
    }


def _of_the_paper(settings: Mapping[str, Any]) -> Row:
    """The columns common to all figures of the paper, independent of the workload's parameters."""
    found = {name: settings.get(name) for name in PARAMETERS}
    if "expert_regions" in settings:
        found["regions"] = settings["expert_regions"]
    return {"model": settings.get("model", settings["workload"]), **found}


def _ratio(
    ratio: Ratio, point: Point, points: Sequence[Point], outcomes: Mapping[Run, Outcome]
) -> Row:
    """The normalized value of a point."""

    def compared(run: Run) -> list[Any]:
        return [run.parameters.get(name, getattr(run, name, None)) for name in ratio.same]

    def cycles(series: str) -> int:
        """Cycles of the point of another series that is compared with this one."""
        for other in points:
            if other.series == series and compared(other.run) == compared(point.run):
                return outcomes[other.run].cycles
        raise ArgError(
            f"figure {point.figure}: no point of series {series!r} has the same "
            f"{', '.join(ratio.same)} as {point.point_id}; add one, or change `same` of the ratio"
        )

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
