"""A row of the registry: the kind of a unit, and how its parameters are encoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepsim.errors import LoweringError
from stepsim.frozen import frozen
from stepsim.kernels import UnitKind

if TYPE_CHECKING:
    from stepsim.lowering.builder import ImageBuilder
    from stepsim.lowering.network import UnitSpec

Parameters = Mapping[str, int | list[int]]
Encoder = Callable[["ImageBuilder", "UnitSpec"], Parameters]
EncodeOne = Callable[[Mapping[str, Any]], Sequence[int]]
ManyEncoder = Callable[["ImageBuilder", "UnitSpec"], EncodeOne]


@frozen
class Row:
    """How one unit of the vocabulary is laid out.

    Attributes
    ----------
    kind : declaration of the step function.
    encode : parameters of the kind by name, a list for a name with a star.
    inputs : number of inputs, where it differs between units of one kind.
    many : of units without a port, private slots and scratch space, of which a network has
        thousands in a row: for the first of them, what encodes the parameters of each, in the order
        of the declaration.
    """

    kind: UnitKind
    encode: Encoder
    inputs: int | None = None
    many: ManyEncoder | None = None

    def arity(self, side: str) -> int | None:
        """How many "inputs" or "outputs", None for one or more."""
        if side == "inputs" and self.inputs is not None:
            return self.inputs
        names: tuple[str, ...] = getattr(self.kind, side)
        return None if any(name.startswith("*") for name in names) else len(names)


def refused(spec: UnitSpec, what: str) -> LoweringError:
    """The error for a unit whose parameters cannot be used."""
    return LoweringError(f"{spec.op} '{spec.name}': {what}")


def no_parameters(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    """Encoder of units that have none."""
    return {}


def at_least(spec: UnitSpec, name: str, least: int) -> int:
    """A parameter that is a whole number from ``least`` on.

    Raises
    ------
    LoweringError
        It is smaller.
    """
    number = int(spec.params[name])
    if number < least:
        raise refused(spec, f"{name} is {number}, expected at least {least}")
    return number


def switch_costs(spec: UnitSpec, count: int) -> list[int]:
    """The cycles for switching to each of ``count`` ports.

    Raises
    ------
    LoweringError
        There are more or fewer.
    """
    costs = [int(cost) for cost in spec.params["switch"]]
    if len(costs) != count:
        raise refused(spec, f"{len(costs)} switch costs, expected {count}")
    return costs


def element_bits(spec: UnitSpec, width: float) -> int:
    """Bits of an element that is ``width`` bytes wide: networks use bytes, the engine bits.

    Raises
    ------
    LoweringError
        The width is neither half a byte nor a whole number of bytes up to 1024.
    """
    if width != 0.5 and not (1 <= width <= 1024 and width == int(width)):
        raise refused(spec, f"{width} bytes per element, expected 0.5 or 1..1024")
    return int(8 * width)


def tile_sides(spec: UnitSpec) -> dict[str, int]:
    """The parameters of a unit whose tiles all have one size."""
    rows, cols = spec.params["tile"]
    return {"rows": int(rows), "cols": int(cols)}
