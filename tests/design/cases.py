"""Cases with expected values: those of the shared folder, or of ``STEPSIM_STREAMTENSOR_CASES``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepsim.sizing import Fifo, FifoNetwork, SteppingKernel
from tests.shared import STREAMTENSOR_CASES, recorded

__all__ = ["cases_of", "each_case", "needs_cases", "network_of", "ratio"]


def needs_cases(family: str) -> pytest.MarkDecorator:
    """Mark tests of a family of cases."""
    return recorded(_file(family))


def cases_of(family: str) -> list[dict[str, Any]]:
    """All cases of a family."""
    found: list[dict[str, Any]] = json.loads(_file(family).read_text(encoding="utf-8"))["cases"]
    return found


def each_case(family: str) -> pytest.MarkDecorator:
    """Parametrize ``case`` over a family; one skipped test where it is absent."""
    cases = cases_of(family) if _file(family).is_file() else [{"id": "absent"}]
    needs = needs_cases(family)
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case["id"], marks=needs) for case in cases]
    )


def _file(family: str) -> Path:
    return STREAMTENSOR_CASES / f"{family}.json"


def network_of(case: dict[str, Any]) -> FifoNetwork:
    """The stepping kernels of a case of sizing.json or sizing_step.json."""
    return FifoNetwork(
        tuple(SteppingKernel(k["steps"], k["II"], k["D"]) for k in case["kernels"]),
        tuple(
            Fifo(e["src"], e["dst"], e["out_period"], e["in_period"], e["bits"])
            for e in case["edges"]
        ),
        case["hop"],
    )


def ratio(value: int | list[int]) -> float:
    """A whole number, or numerator and denominator."""
    return value[0] / value[1] if isinstance(value, list) else value
