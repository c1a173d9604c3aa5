"""Units in which the numbers of a column are short enough to read."""

from __future__ import annotations

from typing import Final

from stepsim.results import COLUMNS

_DECIMAL: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY: Final = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))
_LEAST = 10_000
"""Numbers below it are shown unscaled."""

_SHORT: Final = {"bytes": "B", "fraction": ""}


def axis_unit(label: str, largest: float) -> tuple[float, str]:
    """The divisor of numbers and the resulting unit, for a label that names a column.

    The label may have more words, as in ``mean onchip_bytes (executed)``. On-chip memory is counted
    in
    powers of 1024, everything else in powers of 1000: ``(1048576, "MiB")``, ``(1e6, "Mcycles")``. A
    label that names no column has no unit.
    """
    column = next((word for word in label.split() if word in COLUMNS), None)
    unit = "" if column is None else COLUMNS[column].metadata[b"unit"].decode()
    unit = _SHORT.get(unit, unit)
    binary = column is not None and "onchip" in column and unit == "B"
    if abs(largest) < _LEAST:
        return 1, unit
    if unit == "ms":
        return 1e3, "s"
    for scale, prefix in _BINARY if binary else _DECIMAL:
        if abs(largest) >= scale:
            return scale, f"{prefix}{unit}"
    raise AssertionError(largest)
