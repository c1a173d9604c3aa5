"""The properties shared by all units of one row of the registry, computed once per row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stepsim.errors import LoweringError
from stepsim.frozen import frozen
from stepsim.kernels import code_of
from stepsim.lowering.network import UnitSpec
from stepsim.lowering.rows.registry import REGISTRY
from stepsim.lowering.rows.row import Row, refused

MOST_PARAMETER: Final = 1 << 53
"""Parameters of units are below it."""


@frozen
class UnitLayout:
    """A row of the registry, and the properties derived from it.

    Attributes
    ----------
    code : number of the kind.
    inputs, outputs : their number, None for one or more.
    parameters : names in order, and whether each may be negative.
    """

    row: Row
    code: int
    inputs: int | None
    outputs: int | None
    parameters: tuple[tuple[str, bool], ...]

    @classmethod
    def of(cls, row: Row) -> UnitLayout:
        """The layout derived from a row."""
        names = [parameter.removeprefix("*") for parameter in row.kind.parameters]
        signed = tuple((name, name in row.kind.signed) for name in names)
        return cls(row, code_of(row.kind), row.arity("inputs"), row.arity("outputs"), signed)


LAYOUTS: Final = {op: UnitLayout.of(row) for op, row in REGISTRY.items()}
"""The layout of every operator."""


def layout_of(spec: UnitSpec) -> UnitLayout:
    """The layout of a unit. Raises LoweringError for an unknown operator."""
    try:
        return LAYOUTS[spec.op]
    except KeyError:
        raise LoweringError(f"unit '{spec.name}': unknown operator {spec.op!r}") from None


def in_order(
    spec: UnitSpec, layout: UnitLayout, values: Mapping[str, int | list[int]]
) -> list[int]:
    """The parameters of a unit in the order of its declaration."""
    numbers: list[int] = []
    for name, signed in layout.parameters:
        value = values[name]
        if type(value) is int and 0 <= value < MOST_PARAMETER:
            numbers.append(value)
            continue
        found = [int(v) for v in value] if isinstance(value, list) else [int(value)]
        if found and min(found) < 0 and not signed:
            negative = next(number for number in found if number < 0)
            raise refused(spec, f"parameter {negative} is negative")
        if found and max(max(found), -min(found)) >= MOST_PARAMETER:
            large = next(number for number in found if abs(number) >= MOST_PARAMETER)
            raise refused(spec, f"parameter {large} is too large")
        numbers += found
    return numbers
