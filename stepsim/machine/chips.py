"""Several chips and the network that joins them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from stepsim.frozen import NamedTuple
from stepsim.machine.section import (
    Section,
    choice,
    integer,
    number,
    per_dimension,
    section,
    setting,
)

MOST_CHIPS = 1 << 16
"""Chips of all dimensions together."""

GIB = 1 << 30


class ChipDimension(NamedTuple):
    """One dimension of a network of chips."""

    topology: str
    chips: int
    gib_per_s: float
    latency_ns: float

    @property
    def bytes_per_ns(self) -> float:
        """Bandwidth of a link."""
        return self.gib_per_s * GIB / 1e9


@section
class Chips(Section):
    """Chips that the machine describes one of, and the links between them.

    Every value is one number or word, or a list with one for each dimension: two chips have a link
    in a dimension when their places differ in this dimension alone. Dimension 0 comes first, and
    the numbers of chips that are neighbors in it follow each other.

    Raises
    ------
    MachineError : invalid values, or lists of different lengths.
    """

    count: int | tuple[int, ...] = setting(
        per_dimension(integer(1, MOST_CHIPS)), "chips along each dimension"
    )
    topology: str | tuple[str, ...] = setting(
        per_dimension(choice("ring", "fully-connected", "switch")),
        "how the chips of a dimension are joined: each to the next and the last to the first, each "
        "to every other, or all to one switch",
    )
    gib_per_s: float | tuple[float, ...] = setting(
        per_dimension(number(0, above=True)),
        "bandwidth of a link in each direction, in GiB/s",
    )
    latency_ns: float | tuple[float, ...] = setting(
        per_dimension(number(0)), "latency of a link in ns"
    )

    @classmethod
    def contradictions(
        cls, given: Mapping[Any, Any], checked: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Lists are of one length, and the chips of all dimensions are not too many."""
        lists = {name: value for name, value in checked.items() if isinstance(value, tuple)}
        lengths = {name: len(value) for name, value in lists.items()}
        if len(set(lengths.values())) > 1:
            stated = ", ".join(f"{name} {length}" for name, length in lengths.items())
            yield (
                next(iter(lengths)),
                f"expected lists with a value for every dimension, found lists of different "
                f"lengths: {stated}; one value instead of a list holds for every dimension",
            )
            return
        whole = prod(dimension.chips for dimension in _dimensions(checked))
        if whole > MOST_CHIPS:
            yield (
                "count",
                f"expected {MOST_CHIPS} chips or fewer in all dimensions together, found {whole}",
            )

    @property
    def dimensions(self) -> tuple[ChipDimension, ...]:
        """The dimensions, the first one first."""
        return _dimensions(vars(self))

    @property
    def total(self) -> int:
        """Chips of all dimensions together."""
        return prod(dimension.chips for dimension in self.dimensions)

    @property
    def note(self) -> str:
        """Where operators are, for programs that do not say it."""
        return (
            f"operators are on chip 0 of {self.total} unless `with st.chip(...)` puts them on "
            "others"
        )


def _dimensions(values: Mapping[str, Any]) -> tuple[ChipDimension, ...]:
    names = ("topology", "count", "gib_per_s", "latency_ns")
    listed = [values[name] for name in names]
    length = max((len(each) for each in listed if isinstance(each, tuple)), default=1)
    wide = [each if isinstance(each, tuple) else (each,) * length for each in listed]
    return tuple(ChipDimension(*each) for each in zip(*wide, strict=True))
