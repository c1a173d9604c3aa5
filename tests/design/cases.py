"""Cases with expected values: those of the shared folder, or of ``STEPSIM_STREAMTENSOR_CASES``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepsim.sizing.network import Fifo, FifoNetwork, SteppingKernel
from tests.shared import STREAMTENSOR_CASES

__all__ = ["cases_of", "each_case", "network_of", "ratio"]


def cases_of(family: str) -> list[dict[str, Any]]:
    """All cases of a family; skips the test where there are none."""
    found = _read(family)
    if not found:
        pytest.skip(_absent(family))
    return found


def each_case(family: str) -> pytest.MarkDecorator:
    """Parametrize ``case`` over a family; one skipped test where it is absent."""
    cases = _read(family)
    if cases:
        return pytest.mark.parametrize("case", cases, ids=lambda case: case["id"])
    skipped = pytest.param({}, marks=pytest.mark.skip(_absent(family)))
    return pytest.mark.parametrize("case", [skipped])


def _read(family: str) -> list[dict[str, Any]]:
    path = STREAMTENSOR_CASES / f"{family}.json"
    if not path.is_file():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return found


def _absent(family: str) -> str:
    return f"no {family}.json in {STREAMTENSOR_CASES}; set STEPSIM_STREAMTENSOR_CASES"


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
