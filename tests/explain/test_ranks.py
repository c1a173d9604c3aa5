"""The order of changes without prices."""

from __future__ import annotations

import pytest

from stepsim.explain.changes.cost import Size, ranks_of

HARDWARE, SETTING = Size(True, 1, 1, 0), Size(False, 1, 1, 8)


@pytest.mark.parametrize(
    ("hardware", "setting", "first"),
    [(0.48, 0.33, 0), (0.33, 0.48, 1), (0.332, 0.33, 1), (0.336, 0.33, 0)],
)
def test_the_largest_gain_comes_first(hardware: float, setting: float, first: int) -> None:
    """Of gains that differ by half a percent of the run at most, that of a setting."""
    rows = [
        {"gain": gain, "gain_per_cost": None, "buildable": True} for gain in (hardware, setting)
    ]
    assert ranks_of(rows, [HARDWARE, SETTING]).index(1) == first
