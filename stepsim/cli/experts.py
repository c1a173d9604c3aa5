"""The number of experts that a routing trace loads, by one definition for all commands.

It is the number of experts of the model, idle ones included: as given, as the file notes it, or
that of the built-in model that its rows name. Where nothing states it, the highest id is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import stepsim.trace_io
import stepsim.workloads


def noted_experts(file: Path) -> int | None:
    """The number that the file notes; None if it notes none."""
    noted = stepsim.trace_io.read_origin(file).get("experts")
    return noted if isinstance(noted, int) and noted > 0 else None


def experts_of_rows(models: Iterable[str], least: int) -> int | None:
    """Experts of the built-in model that all rows name, if it has the ``least`` of the ids."""
    named = tuple(models)
    model = stepsim.workloads.MODELS.get(named[0]) if len(named) == 1 else None
    if model is None or model.experts is None or model.experts.count < least:
        return None
    return model.experts.count
