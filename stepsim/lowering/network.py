"""The unit network: a program after broadcast insertion and channel assignment, before layout.

A network is plain data: units in construction order (which numbers the memory ports) joined by
channels with explicit capacities. It is the input of the engine's layout step and of the reference
interpreter in the tests, so both simulate the same network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from stepsim.frozen import NamedTuple, frozen
from stepsim.kernels import BOUNDED, CAN_BE_BOUNDED, DramTiming, PortAccess


@frozen
class TimingParams:
    """The numbers of a machine that the timing rules use.

    Attributes
    ----------
    onchip_bytes_per_cycle : bandwidth ``BW`` that each operand sees in the roofline rule.
    request_bytes : size ``G`` of one off-chip request.
    hbm_channels, hbm_interval, hbm_latency, hbm_startup : ``C``, ``II``, ``LAT``, ``SU`` in cycles.
    closure_slack : cycles ``k`` by which a closure is noticed before the producer's pace + 1.
    memory_model : name of the memory model behind the ports.
    outstanding : requests of a port that may be under way, None for any number; that of a memory
        with addresses is part of ``dram``.
    chips : chips in use, each with channels of its own.
    model : rules of the operators where the two public simulators differ, ``step-2025`` or
        ``step-2026``.
    dram : the DRAM and the path to it, for a memory model with addresses. ``hbm_channels`` requests
        in ``hbm_interval`` cycles are then what it can move, and ``hbm_latency`` is that of a read
        of an idle bank.
    """

    onchip_bytes_per_cycle: int = 64
    request_bytes: int = 64
    hbm_channels: int = 32
    hbm_interval: int = 2
    hbm_latency: int = 2
    hbm_startup: int = 14
    closure_slack: int = 0
    memory_model: str = "published"
    model: str = "step-2025"
    dram: DramTiming | None = None
    outstanding: int | None = None
    chips: int = 1

    @property
    def delay(self) -> int:
        """Cycles from the start of a request on a channel to its response."""
        return max(1, self.hbm_startup + self.hbm_latency)

    @property
    def engine_model(self) -> str:
        """Name of the memory model that the engine of a run has."""
        return self.memory_model if self.window is None else BOUNDED.name

    @property
    def window(self) -> int | None:
        """``outstanding``, where the rules of :mod:`stepsim.kernels.memory.bounded` hold; models of
        packages have rules of their own."""
        return self.outstanding if self.memory_model in CAN_BE_BOUNDED else None

    @property
    def ahead(self) -> int:
        """Requests by which a run may exceed the steady rate: queued ones, or ones served in a
        burst."""
        if self.dram is None:
            return 0
        spec, front = self.dram.spec, self.dram.front
        queued = spec.channels * (spec.write_entries + spec.pseudo_channels)
        return 2 * front.request_latency * front.width + -(-queued // front.parts)


class ChannelSpec(NamedTuple):
    """A FIFO with one producer and one consumer. ``capacity=None`` means unbounded."""

    name: str
    capacity: int | None


class UnitOrigin(NamedTuple):
    """Label, function and source line (``file:line``) of the operator of a unit, where it has
    them."""

    label: str | None = None
    function: str | None = None
    source: str | None = None


NO_ORIGIN: Final = UnitOrigin()


class UnitSpec(NamedTuple):
    """One unit: its kind, the channel indices it reads and writes, and the kind's parameters.

    The parameter ``tokens`` of a source is a list of dicts: ``{"tile": [rows, cols, bytes, rd,
    valid], "level": 0, "value": 0}``, or with ``"selector"`` and ``"width"``, or with ``"buffer"``
    and ``"tiles"``. Tiles may also be given as a structured array with the columns ``rows``,
    ``cols``, ``bytes`` (of an element), ``rd`` and ``valid``, and optionally ``level`` and
    ``value``. ``origin`` is its place in the user's program, which results show.
    """

    name: str
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: Mapping[str, Any] = {}
    origin: UnitOrigin = NO_ORIGIN


@frozen
class Carriage:
    """The network on chip that carries tokens, as packets of flits.

    Attributes
    ----------
    ports : number of ports, by which the routes of the units ``SendPacket`` are given.
    flit_bytes : bytes of a flit.
    router, wire, inject, quantum, window : as the section ``flits`` of a network states them.
    routes : number of routes of all carriers.
    """

    ports: int
    flit_bytes: int
    router: int = 4
    wire: int = 1
    inject: int = 2
    quantum: int = 4
    window: int | None = None
    routes: int = 0

    def crossing(self, path: Sequence[int]) -> int:
        """Cycles from the creation of a packet of one flit to its arrival, without others."""
        return self.inject + (self.router + self.wire) * (len(path) - 1)


@frozen
class ChipLinks:
    """The chips that units are on, and the links that carry their tokens as messages.

    Attributes
    ----------
    units : chip of every unit of the network.
    latency, rate : cycles and bytes per cycle of every link, by which the routes of the units
        ``SendMessage`` are given.
    """

    units: tuple[int, ...]
    latency: tuple[float, ...] = ()
    rate: tuple[float, ...] = ()

    @property
    def chips(self) -> int:
        """Number of chips."""
        return max(self.units, default=0) + 1

    def crossing(self, path: Sequence[int], nbytes: int) -> int:
        """Cycles from the creation of a message to its arrival, without others."""
        return sum(int(self.latency[link] + nbytes / self.rate[link]) for link in path)

    def window(self, path: Sequence[int], nbytes: int) -> int:
        """Messages that are under way at once when one follows the other as soon as the links of
        the route allow; a producer sends at most one in a cycle."""
        apart = max(1, *(int(nbytes / self.rate[link]) for link in path))
        return -(-self.crossing(path, nbytes) // apart) + 1


@frozen
class Network:
    """Units in construction order, joined by channels (indices into ``channels``)."""

    units: tuple[UnitSpec, ...]
    channels: tuple[ChannelSpec, ...]
    timing: TimingParams = TimingParams()
    accesses: Mapping[str, PortAccess] = field(default_factory=dict)
    """The accesses of every unit with a memory port, by its name; for a memory model with
    addresses."""
    carriage: Carriage | None = None
    """The network on chip, if units send packets."""
    between: ChipLinks | None = None
    """The chips that the units are on, if there are several."""
