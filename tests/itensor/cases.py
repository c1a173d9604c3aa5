"""The recorded cases of typed streams: where they are, and types from what they say."""

from __future__ import annotations

import json
from typing import Any

from stepsim.itensor import AffineMap, ITensor
from tests.shared import STREAMTENSOR_CASES, recorded

__all__ = ["cases", "needs_cases", "parts_of", "stream"]

needs_cases = recorded(STREAMTENSOR_CASES)


def cases(family: str) -> list[dict[str, Any]]:
    """All cases of a family."""
    path = STREAMTENSOR_CASES / f"{family}.json"
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cases"]
    return found


def parts_of(raw: dict[str, Any]) -> dict[str, Any]:
    """The parts of a type that the verifier judges."""
    nest = raw["map"]
    return {
        "element": tuple(raw["element"]),
        "trips": tuple(raw["trips"]),
        "steps": tuple(raw["steps"]),
        "map": AffineMap(
            tuple((tuple(result["coeffs"]), result["const"]) for result in nest["results"]),
            nest["num_dims"],
            nest["num_symbols"],
        ),
        "depth": raw["depth"],
    }


def stream(raw: dict[str, Any]) -> ITensor:
    """The type that a case describes."""
    return ITensor(**parts_of(raw), dtype=raw["dtype"])
