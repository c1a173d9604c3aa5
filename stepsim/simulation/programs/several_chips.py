"""Programs on several chips: each a copy of the machine, with streams between them as messages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.deferred import deferred
from stepsim.errors import ArgError, LoweringError
from stepsim.frozen import frozen
from stepsim.graph import (
    Buffer,
    ElementType,
    LinearLoad,
    LinearStore,
    RandomLoad,
    RandomStore,
    TupleType,
    WiredUnit,
    Wiring,
)
from stepsim.kernels import OF_CHIPS
from stepsim.lowering import ChipLinks, Network, Path, with_messages
from stepsim.machine import Machine
from stepsim.simulation.outcome.token_bytes import payload_of

if TYPE_CHECKING:
    from stepsim import noc
else:
    noc = deferred("stepsim.noc")

_LEAST_RATE: Final = 2.0**-10
"""Bytes per cycle of a link: times of the largest tiles stay far below 2**62 cycles."""

_MOST_LATENCY: Final = 2.0**40
_NAMED: Final = 3
"""Largest tensors that a message names."""


def chips_of(wiring: Wiring, machine: Machine) -> tuple[int, ...]:
    """The chips that the units of a program are on, each once.

    Raises
    ------
    ArgError
        The machine does not have them, or does not say what a program on several chips needs.
    LoweringError
        The tensors of a chip do not fit its off-chip memory.
    """
    used = tuple(sorted({unit.chip for unit in wiring.units}))
    if used in ((), (0,)):
        return used
    highest = next(unit for unit in wiring.units if unit.chip == used[-1])
    where = f"program '{wiring.program.name}': {highest.name} is on chip {highest.chip}"
    place = f" ({highest.source})" if highest.source else ""
    chips = machine.chips
    if chips is None:
        raise ArgError(
            f"{where}, but machine '{machine.name}' is a single chip; state its section chips: "
            f"chips.count={used[-1] + 1} (or more), chips.topology, chips.gib_per_s and "
            f"chips.latency_ns{place}"
        )
    if used[-1] >= chips.total:
        raise ArgError(
            f"{where}, but machine '{machine.name}' has chips 0 to {chips.total - 1}; state more "
            f"in chips.count, or use fewer{place}"
        )
    if len(used) > 1:
        _check_machine(where, machine)
        _check_capacity(wiring, machine)
    return used


def _check_machine(where: str, machine: Machine) -> None:
    """Refuse a machine whose copies cannot be simulated together."""
    where = f"{where}, and machine '{machine.name}'"
    if machine.clock_ghz is None:
        raise ArgError(
            f"{where} states no clock, by which latency and bandwidth between chips become cycles; "
            "state clock_ghz"
        )
    if machine.hbm.model not in OF_CHIPS:
        raise ArgError(
            f"{where} has hbm.model '{machine.hbm.model}', which is for programs on one chip; use "
            f"{', '.join(OF_CHIPS[:-1])}"
        )
    assert machine.chips is not None
    for number, one in enumerate(machine.chips.dimensions):
        rate = one.bytes_per_ns / machine.clock_ghz
        latency = one.latency_ns * machine.clock_ghz
        if rate < _LEAST_RATE or latency > _MOST_LATENCY:
            raise ArgError(
                f"{where} has links of {rate:g} bytes per cycle and {latency:g} cycles of latency "
                f"in dimension {number}; expected 2**-10 bytes per cycle or more and 2**40 cycles "
                "or fewer"
            )


def _check_capacity(wiring: Wiring, machine: Machine) -> None:
    """Refuse a chip whose tensors do not fit its off-chip memory."""
    most = machine.hbm.capacity_bytes
    if most is None:
        return
    chips: dict[int, dict[str | int, tuple[str, int]]] = {}
    for unit in wiring.units:
        key, size = _tensor(unit)
        if size:
            held = chips.setdefault(unit.chip, {})
            name, known = held.get(key, (key if isinstance(key, str) else unit.name, 0))
            held[key] = name, max(known, size)
    for chip, tensors in sorted(chips.items()):
        needed = sum(size for _, size in tensors.values())
        if needed > most:
            order = sorted(tensors.values(), key=lambda one: (-one[1], one[0]))[:_NAMED]
            named = ", ".join(f"{name} ({size:,})" for name, size in order)
            raise LoweringError(
                f"program '{wiring.program.name}': the tensors of chip {chip} have {needed:,} "
                f"bytes, but the off-chip memory of a chip of machine '{machine.name}' has "
                f"{most:,} (hbm.capacity_bytes); the largest are {named}. Put operators on more "
                "chips"
            )


def _tensor(unit: WiredUnit) -> tuple[str | int, int]:
    """The tensor that a unit moves off chip, and its bytes; 0 where they are not known.

    Without a name it is the array or the spec that was given to one operator or to several.
    """
    operator = unit.operator
    if isinstance(operator, LinearLoad | RandomLoad | RandomStore) and "par" in unit.params:
        tensor = operator.tensor
        given = tensor if tensor.data is None else tensor.data
        return tensor.name or id(given), -(-prod(tensor.shape) * tensor.dtype.bits // 8)
    if isinstance(operator, LinearStore):
        stream = operator.inputs[0]
        size, count = payload_of(stream.type), stream.cardinality()
        known = size is not None and isinstance(count, int)
        return operator.tensor_name or unit.name, size * count if known else 0  # type: ignore[operator]
    return "", 0


@frozen
class Crossing:
    """How the streams of a program go from chip to chip.

    Attributes
    ----------
    links : all links between the chips of the machine.
    used : numbers of those that the engine knows, in its order.
    routes : FIFO and used links of every route, in the order of the numbers of routes.
    unit_chips : chip of every unit, carriers included.
    """

    links: Any
    used: NDArray[np.int64]
    routes: tuple[tuple[int, Path], ...]
    unit_chips: NDArray[np.int64]

    @property
    def chips(self) -> tuple[int, ...]:
        """The chips that units are on."""
        return tuple(sorted(set(self.unit_chips.tolist())))

    def link_name(self, link: int) -> str:
        """A link in words, by its number among all links."""
        begin, end = (self._device(int(ends[link])) for ends in (self.links.begin, self.links.end))
        return f"{begin} to {end}"

    def _device(self, number: int) -> str:
        chips = self.links.chips.total
        if number < chips:
            return f"chip {number}"
        several = max(int(self.links.begin.max()), chips) > chips
        return f"switch {number - chips}" if several else "the switch"


def on_chips(
    network: Network, wiring: Wiring, machine: Machine, used: Collection[int]
) -> tuple[Network, Crossing]:
    """The units of a program on several chips, with carriers on its FIFOs between them.

    Raises
    ------
    ArgError
        A buffer would be read on another chip, or chips of the machine are joined by a topology
        that needs more of them.
    """
    assert machine.chips is not None  # see chips_of
    assert machine.clock_ghz is not None
    links = noc.ChipLinks(machine.chips)
    latency, rate = links.rates(machine.clock_ghz)
    producer = {c: unit for unit in wiring.units for c in unit.outputs}
    consumer = {c: unit for unit in wiring.units for c in unit.inputs}
    ways: list[Path] = []
    sizes: list[int] = []
    for c, fifo in enumerate(wiring.fifos):
        source, to = producer[c].chip, consumer[c].chip
        ways.append(() if source == to else links.path(source, to))
        sizes.append(0)
        if source != to:
            if _has_buffers(fifo.stream.type):
                raise ArgError(
                    f"program '{wiring.program.name}': {consumer[c].name} on chip {to} reads "
                    f"buffers of {producer[c].name} on chip {source} ({consumer[c].source}); a "
                    "buffer is in the on-chip memory of its chip, so read it there, with "
                    "streamify, and send the tiles"
                )
            sizes[-1] = payload_of(fifo.stream.type) or 0
    numbers = sorted({link for way in ways for link in way})
    place = {link: i for i, link in enumerate(numbers)}
    paths = [tuple([place[link] for link in way]) for way in ways]
    picked = np.array(numbers, np.int64)
    between = ChipLinks(
        tuple([unit.chip for unit in wiring.units]),
        tuple(latency[picked].tolist()),
        tuple(rate[picked].tolist()),
    )
    timing = replace(network.timing, chips=len(used))
    made = with_messages(replace(network, timing=timing), between, paths, sizes)
    assert made.between is not None
    routes = tuple((c, path) for c, path in enumerate(paths) if path)
    return made, Crossing(links, picked, routes, np.array(made.between.units, np.int64))


def _has_buffers(kind: ElementType) -> bool:
    if isinstance(kind, TupleType):
        return any(_has_buffers(part) for part in kind.counts)
    return isinstance(kind, Buffer)
