"""Workloads built for given data, as tests need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepsim.workloads import Built, Data, Workload

__all__ = ["built"]


def built(
    kind: type[Workload],
    *,
    routing: Any = None,
    kv_lengths: Any = None,
    rows: int | None = None,
    **parameters: Any,
) -> tuple[Any, Mapping[Any, Any]]:
    """What a workload builds for the data (a subclass of Built), and the bindings of a run."""
    data = Data.of(routing=routing, kv_lengths=kv_lengths, rows=rows)
    made: Built = kind.of(data=data, **parameters).build(data)
    return made, made.bindings(data)
