"""The energy of a run, by unit and in total, on a machine with a table of energies.

Imported for such machines only. Everything is counted from the final records of the engine, so that
no run takes longer for it; tiles whose size the run decides are kept, to be measured.

What counts:

* off chip: requests of the unit x request size x pJ per byte;
* on chip, written: tiles that loads and functions with ``write_back`` put there, and those that go
  into buffers; read: those that come out of buffers, and those that lie on chip when a function or
  a store takes them, once each time;
* FIFOs: the payload of every token that is sent, in and out; references to buffers have none;
* compute: FLOPs executed, padding included, x pJ of the widest element type of the operands;
* links between chips: bytes of the messages x links that each crosses, of the unit that sends;
* static: W x length of the run, of every chip that the program is on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepsim.dtypes import DType
from stepsim.errors import MachineError
from stepsim.graph import (
    Compute,
    LinearStore,
    RandomStore,
    Tile,
    TupleType,
    Wiring,
)
from stepsim.kernels import Payload, message_loads
from stepsim.results import ENERGY, ENERGY_OF_UNITS
from stepsim.simulation.outcome.on_chip_tiles import (
    Lies,
    carries_buffers,
    lies_on_chip,
    measured_bytes,
    puts_on_chip,
    static_bytes,
)
from stepsim.simulation.outcome.token_bytes import payload_of, token_sizes

if TYPE_CHECKING:
    from stepsim.kernels import Execution
    from stepsim.machine import Energy, Machine
    from stepsim.simulation.programs.prepared import Prepared

_PICO = 1e-12


class EnergyTotals(NamedTuple):
    """Joules of a run. ``total`` is the correctly rounded sum over all units, and static."""

    total: float
    offchip: float
    onchip: float
    fifo: float
    compute: float
    links: float
    static: float

    def columns(self, seconds: float | None) -> dict[str, float | None]:
        """The measures of a run of this length."""
        edp = None if seconds is None else self.total * seconds
        return dict(zip(ENERGY, (*self, edp), strict=False))  # tokens are of workloads

    def and_also(self, other: EnergyTotals) -> EnergyTotals:
        """The energy of two runs, one after another."""
        return EnergyTotals._make(math.fsum(pair) for pair in zip(self, other, strict=True))


@dataclass(frozen=True, slots=True)
class UnitEnergy:
    """Joules by unit ``[units]``, and static energy."""

    offchip: NDArray[np.float64]
    onchip: NDArray[np.float64]
    fifo: NDArray[np.float64]
    compute: NDArray[np.float64]
    links: NDArray[np.float64]
    static: float

    @property
    def by_unit(self) -> NDArray[np.float64]:
        """The energy of every unit."""
        return self.offchip + self.onchip + self.fifo + self.compute + self.links

    def totals(self) -> EnergyTotals:
        """Sums over the units."""
        return EnergyTotals(
            # Correctly rounded, so that any exact sum of the column of units gives the same.
            total=math.fsum([*self.by_unit.tolist(), self.static]),
            offchip=math.fsum(self.offchip.tolist()),
            onchip=math.fsum(self.onchip.tolist()),
            fifo=math.fsum(self.fifo.tolist()),
            compute=math.fsum(self.compute.tolist()),
            links=math.fsum(self.links.tolist()),
            static=self.static,
        )

    def columns(self) -> dict[str, NDArray[np.float64]]:
        """Columns of the table of units."""
        parts = (
            self.by_unit, self.offchip, self.onchip, self.fifo, self.compute, self.links,
        )  # fmt: skip
        return dict(zip(ENERGY_OF_UNITS, parts, strict=True))


class EnergyAccount:
    """Counts the energy of runs of a prepared program.

    Attributes
    ----------
    keep : FIFOs whose tokens the execution has to keep, as their size is that of the run; True
        for everything.

    Raises
    ------
    MachineError : the table has no entry for an element type that an operator computes with.
    """

    def __init__(self, prepared: Prepared) -> None:
        assert prepared.machine.energy is not None
        self._machine: Machine = prepared.machine
        self._table: Energy = prepared.machine.energy
        self._request_bytes = prepared.timing.request_bytes
        wiring = prepared.wiring
        self._count = prepared.unit_count
        self._producer = np.zeros(len(wiring.fifos), np.int64)
        self._consumer = np.zeros(len(wiring.fifos), np.int64)
        for number, unit in enumerate(wiring.units):
            self._producer[list(unit.outputs)] = number
            self._consumer[list(unit.inputs)] = number
        # Carriers come last. They compute nothing, and only those between chips spend energy.
        self._flop = np.zeros(self._count)
        self._flop[: len(wiring.units)] = [self._flop_pj(unit) for unit in wiring.units]
        sizes = [payload_of(fifo.stream.type) for fifo in wiring.fifos]
        self._bytes = np.array([0 if size is None else size for size in sizes], np.int64)
        self._measured = tuple(fifo for fifo, size in enumerate(sizes) if size is None)
        tuples = any(isinstance(wiring.fifos[one].stream.type, TupleType) for one in self._measured)
        # The members of tuples are in no FIFO, and stay where everything is kept.
        self.keep = True if tuples else frozenset(self._measured)
        self._places(wiring)
        self._crossing = prepared.crossing

    def _flop_pj(self, unit: Any) -> float:
        """pJ per FLOP of a unit; 0 for a unit without FLOPs."""
        operator = unit.operator
        if not isinstance(operator, Compute) or not operator.has_flops():
            return 0.0
        element = _widest(operator.operands())
        found = self._table.flop_pj(element.text)
        if found is None:
            where = f" ({unit.source})" if unit.source else ""
            key = f"energy.flop_pj_{element.text}"
            fix = f"add {key} to the table"
            if not element.is_arithmetic:
                fix = "compute with another type, for which the table has an entry"
            raise MachineError(
                f"machine '{self._machine.name}', energy: no entry for FLOPs on elements of type "
                f"{element.text}, with which operator '{unit.name}' computes{where}; {fix}"
            )
        return found

    def _places(self, wiring: Wiring) -> None:
        """The FIFOs whose tokens are written to and read from on-chip memory."""
        count = len(wiring.fifos)
        self._written_sent, self._written_taken = np.zeros((2, count), np.bool_)
        self._read_sent, self._read_taken = np.zeros((2, count), np.bool_)
        lies = lies_on_chip(wiring)
        self._partly: list[tuple[int, Lies, int | None]] = []
        for unit in wiring.units:
            into, out = list(unit.inputs), list(unit.outputs)
            if puts_on_chip(unit.operator):
                self._written_sent[out] = True
            makes, takes = carries_buffers(wiring, out), carries_buffers(wiring, into)
            if makes and not takes:
                self._written_taken[into] = True
            if takes and not makes:
                self._read_sent[out] = True
            if isinstance(unit.operator, Compute | LinearStore | RandomStore):
                self._read_taken[into] = [lies[fifo] is True for fifo in into]
                for fifo in into:
                    if not isinstance(lies[fifo], bool):
                        element = wiring.fifos[fifo].stream.type
                        known = (
                            None
                            if payload_of(element) is None
                            else static_bytes(element, lies[fifo])
                        )
                        self._partly.append((fifo, lies[fifo], known))

    def of(self, execution: Execution, cycles: int) -> UnitEnergy:
        """The energy of a run, from the final records of the engine.

        Parameters
        ----------
        cycles : length of the run.
        """
        table, units = self._table, execution.units
        channels = execution.channels[: len(self._producer)]
        sent, taken = self._bytes * channels["sent"], self._bytes * channels["removed"]
        for fifo in self._measured:
            sizes = _sizes(execution, fifo)
            sent[fifo] = sizes.sum()
            taken[fifo] = sizes[: int(channels["removed"][fifo])].sum()

        def added(unit: NDArray[np.int64], amounts: NDArray[np.int64]) -> NDArray[np.float64]:
            # Whole numbers of bytes below 2**53, so that the sums are exact.
            return np.bincount(unit, amounts, self._count).astype(np.float64)

        written = added(self._producer, sent * self._written_sent)
        written += added(self._consumer, taken * self._written_taken)
        read = added(self._producer, sent * self._read_sent)
        read += added(self._consumer, taken * self._read_taken)
        for fifo, lies, size in self._partly:
            removed = int(channels["removed"][fifo])
            if size is None:
                tokens = _tokens(execution, fifo)[:removed]
                read[self._consumer[fifo]] += measured_bytes(execution.slots, tokens, lies)
            else:
                read[self._consumer[fifo]] += removed * size
        bus = units["requests"] * self._request_bytes
        onchip = written * table.onchip_write_pj_per_byte + read * table.onchip_read_pj_per_byte
        milliseconds = self._machine.milliseconds(cycles)
        seconds = 0.0 if milliseconds is None else milliseconds / 1e3
        return UnitEnergy(
            bus * (table.offchip_pj_per_byte * _PICO),
            onchip * _PICO,
            added(self._producer, sent) * (table.fifo_pj_per_byte * _PICO),
            units["flops"] * (self._flop * _PICO),
            self._over_links(execution),
            self._chips * table.static_watts * seconds,
        )

    @property
    def _chips(self) -> int:
        return 1 if self._crossing is None else len(self._crossing.chips)

    def _over_links(self, execution: Execution) -> NDArray[np.float64]:
        """Joules of every unit for what it sends over links between chips."""
        found = np.zeros(self._count)
        crossing, price = self._crossing, self._table.chip_link_pj_per_byte
        if crossing is not None and price is not None and crossing.routes:
            routes = len(crossing.routes)
            loads = message_loads(execution.scratch, len(crossing.used), routes)
            hops = np.array([len(path) for _, path in crossing.routes])
            # Two carriers for each route: that which sends comes first.
            found[self._count - 2 * routes :: 2] = loads.route_bytes * hops * (price * _PICO)
        return found


def _tokens(execution: Execution, fifo: int) -> NDArray[np.void]:
    """All tokens of a FIFO that kept them."""
    record = execution.channels[fifo]
    begin = int(record["start"])
    found: NDArray[np.void] = execution.slots[begin : begin + int(record["sent"])]
    return found


def _sizes(execution: Execution, fifo: int) -> NDArray[np.int64]:
    """Payload of every token of a FIFO that kept them; that of tuples is their members'."""
    return token_sizes(execution.slots, _tokens(execution, fifo), (Payload.TUPLE,))


def _widest(operands: list[Tile]) -> DType:
    """The element type that operands are brought to; of equally wide ones the first."""
    return max((tile.dtype for tile in operands), key=lambda dtype: dtype.bits)
