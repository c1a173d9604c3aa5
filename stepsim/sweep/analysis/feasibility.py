"""Design points of a search that violate its constraints."""

from __future__ import annotations

from pathlib import Path

from stepsim.results import EVERY_MEASURE
from stepsim.sweep.analysis.constraints import Constraints
from stepsim.sweep.analysis.frame import Frame
from stepsim.sweep.analysis.labels import TRACE_COLUMNS
from stepsim.sweep.storage.manifest import read_manifest


def search_constraints(folder: str | Path) -> tuple[str, ...]:
    """The constraints of a search as they were written; empty for a sweep."""
    return tuple(read_manifest(folder).spec.get("search", {}).get("constraints", ()))


def violated_constraints(frame: Frame) -> dict[int, tuple[str, ...]]:
    """The violated constraints of each design point that violates any, over all its runs."""
    texts = search_constraints(frame.folder)
    if not texts:
        return {}
    weights = read_manifest(frame.folder).spec["search"].get("cost") or None
    kinds = {name: kind for name, kind in frame.kinds().items() if name not in TRACE_COLUMNS}
    constraints = Constraints(texts, kinds, EVERY_MEASURE, weights)
    found = {
        point: constraints.violated(frame.designs[point], list(own.values()))
        for point, own in frame.runs.items()
    }
    return {point: own for point, own in found.items() if own}
