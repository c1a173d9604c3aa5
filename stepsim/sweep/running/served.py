"""The runs of services: one for each design point."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stepsim.machine import machine_columns
from stepsim.sweep.planning.plan import Chunk
from stepsim.sweep.planning.services import ServicePoint

_NO_MACHINE = {"machine": "", "machine_json": json.dumps({})}

_NO_PROGRAM = {"program_hash": "", "image_hash": ""}
"""A service runs as many programs as it has different steps."""


def served(
    chunk: Chunk, point: ServicePoint, versions: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the services of a chunk: of those that ran, and of those that failed.

    Parameters
    ----------
    versions : columns of versions.
    """
    runs: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    identity = {
        "point": point.group,
        "replicate": point.replicate,
        "workload": point.source.text,
        "counting": point.counting,
        **(_NO_MACHINE if point.machine is None else machine_columns(point.machine)),
        **point.columns(),
        **versions,
    }
    for trace in chunk.traces:
        own = {**identity, "run": chunk.run_key(trace)}
        try:
            result = point.prepared().run()
        # An error in one run must not affect the others.
        except Exception as error:
            failures.append(_failure(own, type(error).__name__, str(error)))
            continue
        every = result.metrics | _estimates(result.summary.get("estimators", []))
        metrics = {name: value for name, value in every.items() if name in chunk.metrics}
        runs.append({**own, **metrics, **_NO_PROGRAM, "status": result.status})
        if result.status != "ok":
            left = result.summary["requests"] - result.metrics["completed"]
            failures.append(
                _failure(
                    own, result.status,
                    f"the service was stopped with {left:,} requests left; give a larger "
                    "max_steps, or leave it out",
                )
            )  # fmt: skip
    return runs, failures


def _estimates(reports: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The error of estimated steps by column, of the replica where it is largest."""
    known = [one for one in reports if one["bias"] is not None]
    if not known:
        return {}
    worst = max(known, key=lambda one: abs(one["bias"]))
    ends = {"": "bias", "_low": "low", "_high": "high"}
    return {f"estimate_bias{end}": worst[name] for end, name in ends.items()}


def _failure(identity: Mapping[str, Any], error: str, message: str) -> dict[str, Any]:
    return {**identity, "stage": "run", "error": error, "message": message, "fix": None}
