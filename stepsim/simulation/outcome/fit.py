"""Whether a program fits its machine: on-chip memory and compute bandwidth, by region where placed.

Of a program on several chips, each chip has the resources of the machine.

Imported for machines that state a capacity. On-chip memory is what the operators of the program
need, the column ``onchip_bytes`` of executed counting: FIFOs do not count. Compute bandwidth is
that of the column ``allocated_flops_per_cycle``, with what a machine or a change makes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stepsim.arguments import is_whole, shown
from stepsim.errors import ArgError, did_you_mean
from stepsim.graph import allocates_compute, named_now, number_of, substitution
from stepsim.lowering import compute_bandwidths

if TYPE_CHECKING:
    from stepsim.graph import Bindings
    from stepsim.simulation.programs.prepared import Prepared

_NAMED = 3
"""Largest contributors that a message names."""

ONCHIP, COMPUTE = "onchip.capacity_bytes", "compute.flops_per_cycle"


@dataclass(frozen=True, slots=True)
class Excess:
    """A resource that a program needs more of than its machine has.

    Attributes
    ----------
    resource : key of the machine.
    needed, available : bytes, or FLOPs per cycle.
    region : number of the die or region; None for the whole machine.
    chip : number of the chip; None where the program is on one chip alone.
    largest : the operators that need most, with their amounts.
    """

    resource: str
    needed: int
    available: int
    region: int | None
    largest: tuple[tuple[str, int], ...]
    chip: int | None = None

    def __str__(self) -> str:
        unit = "bytes of on-chip memory"
        if self.resource == COMPUTE:
            unit = "FLOPs per cycle of compute bandwidth"
        where, share = "", ""
        if self.region is not None:
            where, share = f" in region {self.region}", ", an even share of it"
        if self.chip is not None:
            where, share = f" on chip {self.chip}", ", each chip of it"
        named = ", ".join(f"{name} ({amount:,})" for name, amount in self.largest)
        return (
            f"it needs {self.needed:,} {unit}{where}, but the machine has {self.available:,} "
            f"({self.resource}{share}); the largest are {named}"
        )


class Fit:
    """Compares the needs of a prepared program with the resources of its machine."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._machine = prepared.machine

    def excess(self, symbols: Mapping[Any, Any] | Bindings) -> tuple[Excess, ...]:
        """The resources that are exceeded for these values of the program's symbols."""
        found: list[Excess] = []
        compute = self._machine.compute
        if compute is not None and compute.flops_per_cycle is not None:
            found += self._over(COMPUTE, self.bandwidths, compute.flops_per_cycle)
        if self._machine.onchip.capacity_bytes is not None:
            held = self.held(symbols)
            if held is not None:
                found += self._over(ONCHIP, held, self._machine.onchip.capacity_bytes)
        return tuple(found)

    def unknown(self, symbols: Mapping[Any, Any] | Bindings) -> str:
        """A sentence on what is unknown before a run; empty if everything is known."""
        if self._machine.onchip.capacity_bytes is None or self.held(symbols) is not None:
            return ""
        return (
            f"on-chip memory of '{self._prepared.program.name}' depends on sizes that only the run "
            "decides, so that it is not compared with onchip.capacity_bytes"
        )

    def _over(self, resource: str, amounts: Mapping[str, int], most: int) -> Iterable[Excess]:
        if self._prepared.crossing is not None:
            yield from self._over_chips(resource, amounts, most)
            return
        regions = self._machine.regions
        placed = self._prepared.regions
        groups: dict[int | None, Mapping[str, int]] = {None: amounts}
        if regions > 1:
            for region in sorted(set(placed.values())):
                groups[region] = {
                    name: amount for name, amount in amounts.items() if placed.get(name) == region
                }
        for place, own in groups.items():
            room = most if place is None else most // regions
            needed = sum(own.values())
            if needed > room:
                yield Excess(resource, needed, room, place, _largest(own))

    def _over_chips(self, resource: str, amounts: Mapping[str, int], most: int) -> Iterable[Excess]:
        chips: dict[int, dict[str, int]] = {}
        for unit in self._prepared.wiring.units:
            if unit.name in amounts:
                chips.setdefault(unit.chip, {})[unit.name] = amounts[unit.name]
        for chip, own in sorted(chips.items()):
            needed = sum(own.values())
            if needed > most:
                yield Excess(resource, needed, most, None, _largest(own), chip)

    @cached_property
    def bandwidths(self) -> dict[str, int]:
        """FLOPs per cycle of every operator that is counted as compute, as the image has them."""
        units = self._prepared.wiring.units
        present = compute_bandwidths(self._prepared.template.first)
        return {
            units[number].name: bandwidth
            for number, bandwidth in present.items()
            if (operator := units[number].operator) is not None and allocates_compute(operator)
        }

    @cached_property
    def _sizes(self) -> dict[str, Any]:
        """On-chip bytes of every operator that needs some, as numbers or formulas."""
        rows = self._prepared.program.metrics(counting="executed").table()
        return {row.operator.title(): row.sizes[1] for row in rows if row.sizes[1] != 0}

    def held(self, symbols: Mapping[Any, Any] | Bindings) -> dict[str, int] | None:
        """Bytes by operator; None where sizes are not known, or contradict an assumption."""
        sizes = self._sizes
        if all(isinstance(size, int) for size in sizes.values()):
            return sizes
        try:
            table = substitution(self._prepared.program, symbols)
        except ArgError:
            return None  # the run fails for it, and says why
        used = {s for size in sizes.values() if not isinstance(size, int) for s in size.symbols()}
        if not used <= table.keys():
            return None
        return {name: number_of(size, table) for name, size in sizes.items()}


def _largest(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    order = sorted(amounts.items(), key=lambda one: (-one[1], one[0]))
    return tuple(order[:_NAMED])


def checked_regions(prepared: Prepared, regions: object) -> dict[str, int]:
    """Numbers of regions by operator; a name that ends with ``*`` stands for all that begin so.

    Raises
    ------
    ArgError
        It is not a mapping, a name fits no operator, a number is not one of the machine's regions,
        or the machine has none.
    """
    where = f"program '{prepared.program.name}', regions"
    if not isinstance(regions, Mapping):
        raise ArgError(
            f"{where} must be a mapping from names of operators to numbers of regions, found "
            f"{shown(regions)}"
        )
    if prepared.crossing is not None:
        raise ArgError(
            f"{where} are of programs on one chip, and this one is on several; leave them out"
        )
    count = prepared.machine.regions
    if count == 1:
        raise ArgError(
            f"{where}: machine '{prepared.machine.name}' has no regions, so that they have no "
            "effect; state compute.regions or device.dies, or leave them out"
        )
    names = [unit.name for unit in prepared.wiring.units]
    found: dict[str, int] = {}
    for name, region in named_now(where, prepared.wiring, "operator", regions).items():
        if not (is_whole(region) and 0 <= region < count):
            raise ArgError(
                f"{where}[{shown(name)}] must be a number from 0 to {count - 1}, one of the "
                f"{count} regions of machine '{prepared.machine.name}', found {shown(region)}"
            )
        chosen = [one for one in names if _fits(name, one)] if isinstance(name, str) else []
        if not chosen:
            near = did_you_mean(name, names)
            raise ArgError(
                f"{where} names {shown(name)}, which is not an operator{near} Names are those of "
                "Result.units; one that ends with * matches all with that prefix"
            )
        found.update(dict.fromkeys(chosen, int(region)))
    return found


def _fits(name: str, unit: str) -> bool:
    return unit.startswith(name[:-1]) if name.endswith("*") else unit == name
