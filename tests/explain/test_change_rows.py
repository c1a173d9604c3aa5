"""Rows of a what-if as text."""

from __future__ import annotations

from stepsim.explain.changes.text import WIDTH, change_lines


def test_long_descriptions_are_wrapped_and_lose_nothing() -> None:
    description = ", ".join(f"operator {number} with twice the compute" for number in range(9))
    row = {
        "change": "all", "cycles": 10, "gain": 0.5, "prediction_error": None, "cost": None,
        "predicted_cycles": None, "status": "ok", "buildable": True, "description": description,
    }  # fmt: skip
    _, _, *lines = change_lines([row], "change", None)
    assert " ".join(line.strip() for line in lines) == description
    assert all(line.startswith("    ") and len(line) <= WIDTH for line in lines)
