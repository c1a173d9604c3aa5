"""Networks of hardware units, which are simulated cycle by cycle.

A message is one hardware tile, or one reference to a stored group of tiles, with a *stop*: the
number of innermost dims of which it is the last element. A network only lists its units and how
they are connected; depths, rates and latencies are those of the machine
(:mod:`stepsim.hardware.machine`), except where a network states them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepsim.arguments import Range, shown, text_of
from stepsim.errors import ArgError, GraphError, did_you_mean
from stepsim.hardware.units import STOPS, Fifo, Unit
from stepsim.typed import typed

_RANK = Range(62, "inner dims")
_STOP = Range(62, "dims that a message ends")
_TIMES = Range(1 << 40, "times that a reference is repeated")
_SIZE = Range(1 << 40, "size of a dim")
_CYCLE = Range(1 << 50, "a cycle", low=0)
_PERIOD = Range(1 << 50, "cycles")
_DEPTH = Range(1 << 20, "messages that a FIFO holds")
_WAYS = Range(64, "copies", low=2)
_ADDRESS = Range((1 << 40) - 1, "byte address", low=0)


class Network:
    """Units and FIFOs, built step by step: every method adds a unit and returns its output FIFO.

    Inputs are given as the names of FIFOs. A wire, which moves one message per cycle, connects each
    to the unit's own input FIFO, ``UNIT.in`` (``UNIT.in1``, ``UNIT.in2`` of a map with two inputs,
    ``UNIT.din`` of a buffer). A fork and a writer have no input FIFOs: they take straight from the
    given FIFO.

    Attributes
    ----------
    name : shown in results.
    """

    def __init__(self, name: str = "network") -> None:
        self.name = text_of("network name", name)
        self._units: dict[str, Unit] = {}
        self._fifos: dict[str, Fifo] = {}
        self._readers: dict[str, str] = {}
        self._ports: set[int] = set()

    @property
    def units(self) -> tuple[Unit, ...]:
        """All units, in the order in which they were added."""
        return tuple(self._units.values())

    @property
    def fifos(self) -> tuple[Fifo, ...]:
        """All FIFOs except those of the memory path, which belong to the machine."""
        return tuple(self._fifos.values())

    @property
    def ports(self) -> int:
        """Memory ports in use: one for each reader and writer."""
        return len(self._ports)

    # Units ---------------------------------------------------------------------------------------

    def wire(self, source: str, fifo: str) -> str:
        """Connect a FIFO to a new one; returns the name of the new one.

        A FIFO needs no wire to itself: a source with the name of a unit's own input FIFO is that
        FIFO.
        """
        if source == fifo and fifo in self._fifos:
            return fifo
        self._fifo(fifo, holds=self._known(source, "wire").holds)
        return self._add(Unit(f"{source} > {fifo}", "wire", (source,), (fifo,)))

    @typed
    def fork(self, name: str, source: str, ways: int = 2) -> tuple[str, ...]:
        """Copy every message into ``ways`` FIFOs ``NAME.1``, ``NAME.2``, ... when all have room."""
        ways = _WAYS.checked(f"fork {name!r}: ways", ways)
        outputs = tuple(f"{name}.{i + 1}" for i in range(ways))
        for output in outputs:
            self._fifo(output)
        self._add(Unit(name, "fork", (source,), outputs))
        return outputs

    @typed
    def map(
        self,
        name: str,
        *sources: str,
        function: str = "",
        interval: int | None = None,
        latency: int | None = None,
    ) -> str:
        """One message of every input makes one output message; the stops must be equal.

        Parameters
        ----------
        sources : one or more FIFOs.
        function : what it computes, such as ``silu``. ``product`` means that a firing is a product
            of tiles, so that the machine's product rate and latency apply.
        interval : cycles between two firings; None: that of the machine.
        latency : cycles from a firing until the output is available; None: that of the machine.
        """
        if not sources:
            raise ArgError(f"map {name!r}: expected the FIFO of one input or more, found none")
        inputs = self._inputs(name, sources)
        values = {}
        if interval is not None:
            values["interval"] = _PERIOD.checked(f"map {name!r}: interval", interval)
        if latency is not None:
            values["latency"] = _PERIOD.checked(f"map {name!r}: latency", latency)
        output = self._fifo(f"{name}.out")
        function = text_of(f"map {name!r}: function", function) if function else ""
        self._add(Unit(name, "map", inputs, (output,), values, function=function))
        return output

    @typed
    def inner_sum(self, name: str, source: str, rank: int = 1) -> str:
        """Sum over the ``rank`` innermost dims: one message for each input with stop >= rank."""
        rank = _RANK.checked(f"inner sum {name!r}: rank", rank)
        return self._simple(name, "sum", source, {"rank": rank})

    @typed
    def promote(self, name: str, source: str, rank: int) -> str:
        """Insert a dim of size 1 at ``rank``: a stop of ``rank`` or more grows by 1."""
        rank = _RANK.checked(f"promote {name!r}: rank", rank)
        return self._simple(name, "promote", source, {"rank": rank})

    @typed
    def repeat(self, name: str, source: str, times: int) -> str:
        """Repeat every reference; the last copy releases the group and ends one dim more."""
        times = _TIMES.checked(f"repeat {name!r}: times", times)
        self.wire(source, f"{name}.in")
        self._fifo(f"{name}.out", holds="reference")
        return self._add(Unit(name, "repeat", (f"{name}.in",), (f"{name}.out",), {"times": times}))

    @typed
    def buffer(self, name: str, source: str, rank: int, times: int | None = None) -> str:
        """Store groups of the ``rank`` innermost dims and play each back ``times`` times.

        Parameters
        ----------
        rank : a group ends with a message of this stop or more.
        times : None: references go straight back, by a wire and no repeat; groups play once.
        """
        rank = _RANK.checked(f"buffer {name!r}: rank", rank)
        if times is not None:
            times = _TIMES.checked(f"buffer {name!r}: times", times)
        stored = self.wire(source, f"{name}.din")
        out = self._fifo(f"{name}.tout", holds="reference")
        back = out if times is None else self.repeat(f"{name}.rep", out, times)
        played = self._fifo(f"{name}.dout")
        wanted = self.wire(back, f"{name}.tin")
        self._add(Unit(name, "buffer", (stored, wanted), (out, played), {"rank": rank}))
        return played

    @typed
    def matmul(self, name: str, a: str, b: str, repeat_a: int, repeat_b: int) -> str:
        """Products of tiles summed over the innermost dim: two buffers, a product, an inner sum.

        Rows of ``a`` (its innermost dim) are played ``repeat_a`` times; groups of the two innermost
        dims of ``b`` are played ``repeat_b`` times.
        """
        left = self.buffer(f"{name}.a", a, 1, repeat_a)
        right = self.buffer(f"{name}.b", b, 2, repeat_b)
        product = self.map(f"{name}.mm", left, right, function="product")
        return self.inner_sum(f"{name}.sum", product, 1)

    @typed
    def accumulator(self, name: str, source: str, rank: int) -> str:
        """Sum whole logical tiles of two dims over the dims from 2 to ``rank``.

        The partial sums live in a buffer of rank 2, ``NAME.buf``.
        """
        rank = _RANK.checked(f"accumulator {name!r}: rank", rank)
        (into,) = self._inputs(name, (source,))
        partial, output = self._fifo(f"{name}.pout"), self._fifo(f"{name}.out")
        returned = self.buffer(f"{name}.buf", partial, 2)
        back = self.wire(returned, f"{name}.pin")
        self._add(Unit(name, "accumulator", (into, back), (partial, output), {"rank": rank}))
        return output

    @typed
    def reader(
        self,
        name: str,
        dims: Sequence[int],
        *,
        port: int | None = None,
        base: int | None = None,
        start: int = 0,
    ) -> str:
        """Load a stream of tiles from off-chip memory, stored in the order of its use.

        Parameters
        ----------
        dims : sizes of the stream, outermost first; data that is read again is stored again.
        port : number of its memory port; None: the next free one.
        base : byte address of its first entry; None: that of the machine.
        start : cycle of its first request.
        """
        sizes = _SIZE.list(f"reader {name!r}: dims", dims)
        if not sizes:
            raise ArgError(f"reader {name!r}: dims must have one size or more, found none")
        _STOP.checked(f"reader {name!r}: number of dims", len(sizes))
        values = {"port": self._port(name, port)}
        values["start"] = _CYCLE.checked(f"reader {name!r}: start", start)
        base = _base(f"reader {name!r}", base)
        responses = self._fifo(f"{name}.resp", holds="response")
        self._readers[responses] = name  # written by the memory path
        output = self._fifo(f"{name}.out")
        self._add(Unit(name, "reader", (), (output,), values, dims=sizes, base=base))
        return output

    @typed
    def writer(
        self,
        name: str,
        source: str,
        *,
        last: int | None = None,
        port: int | None = None,
        base: int | None = None,
    ) -> None:
        """Store tiles in off-chip memory; takes straight from ``source``.

        Parameters
        ----------
        last : stop of the very last tile, that is, the number of dims of the stream; accepting it
            finishes this sink. None: the last tile is not known.
        """
        values = {"port": self._port(name, port), **_last(name, last)}
        base = _base(f"writer {name!r}", base)
        self._add(Unit(name, "writer", (source,), (), values, base=base))

    @typed
    def printer(self, name: str, source: str, *, last: int | None = None) -> None:
        """Take a tile per cycle, without any memory; ``last`` as for `writer`."""
        inputs = self._inputs(name, (source,))
        self._add(Unit(name, "printer", inputs, (), _last(name, last)))

    @typed
    def source(
        self,
        fifo: str,
        messages: Sequence[int],
        start: int = 0,
        times: Sequence[int] | None = None,
        *,
        holds: str = "tile",
        depth: int | None = None,
    ) -> str:
        """Test bench: put messages into a FIFO, one per cycle, in order, when there is room.

        Parameters
        ----------
        messages : stops, or references as made by :func:`~stepsim.hardware.reference`.
        start : cycle of the first.
        times : in place of ``start``, the first cycle in which each message may be put.
        """
        if times is None:
            begin = _CYCLE.checked(f"source {fifo!r}: start", start)
            times = [begin] * len(messages)
        if len(times) != len(messages):
            raise ArgError(
                f"source {fifo!r}: expected a time for each of {len(messages)} messages, found "
                f"{len(times)}"
            )
        if holds == "tile":
            messages = STOPS.list(f"source {fifo!r}: messages", messages)
        self._fifo(fifo, depth, holds)
        cycles = _CYCLE.list(f"source {fifo!r}: times", times)
        name = f"source of {fifo}"
        return self._add(Unit(name, "source", (), (fifo,), messages=tuple(messages), times=cycles))

    @typed
    def sink(self, fifo: str, start: int = 0, period: int = 1, *, last: int | None = None) -> None:
        """Test bench: take a message, if there is one, in the cycles start, start + period, ..."""
        values = {
            "start": _CYCLE.checked(f"sink of {fifo!r}: start", start),
            "period": _PERIOD.checked(f"sink of {fifo!r}: period", period),
            **_last(fifo, last),
        }
        self._add(Unit(f"sink of {fifo}", "sink", (fifo,), (), values))

    # Wiring --------------------------------------------------------------------------------------

    def check(self) -> None:
        """Reject a network with a FIFO that has no reader, or with gaps in its ports.

        Raises
        ------
        GraphError : it names the FIFO or port.
        """
        idle = [name for name in self._fifos if name not in self._readers]
        if idle:
            raise GraphError(
                f"network {self.name!r}: nothing takes from FIFO {idle[0]!r}; connect it to a "
                "unit, or to a sink"
            )
        if not self._units:
            raise GraphError(f"network {self.name!r} has no unit; add one, such as reader()")
        if self._ports and max(self._ports) != len(self._ports) - 1:
            raise GraphError(
                f"network {self.name!r}: memory ports {sorted(self._ports)} have gaps; number them "
                "from 0, or leave port= out"
            )

    def _simple(self, name: str, kind: str, source: str, values: dict[str, int]) -> str:
        inputs = self._inputs(name, (source,))
        output = self._fifo(f"{name}.out")
        return self._add(Unit(name, kind, inputs, (output,), values))

    def _inputs(self, name: str, sources: tuple[str, ...]) -> tuple[str, ...]:
        if len(sources) == 1:
            return (self.wire(sources[0], f"{name}.in"),)
        return tuple(self.wire(one, f"{name}.in{i + 1}") for i, one in enumerate(sources))

    def _fifo(self, name: str, depth: int | None = None, holds: str = "tile") -> str:
        if text_of("FIFO name", name) in self._fifos:
            raise GraphError(f"network {self.name!r}: FIFO {name!r} exists; use another name")
        if depth is not None:
            depth = _DEPTH.checked(f"FIFO {name!r}: depth", depth)
        self._fifos[name] = Fifo(name, depth, holds)
        return name

    def _known(self, fifo: Any, who: str) -> Fifo:
        if not isinstance(fifo, str) or fifo not in self._fifos:
            near = did_you_mean(fifo, self._fifos)
            raise GraphError(
                f"network {self.name!r}, {who}: expected the name of a FIFO, found {shown(fifo)}"
                f"{near}"
            )
        return self._fifos[fifo]

    def _port(self, name: str, port: int | None) -> int:
        number = (
            len(self._ports)
            if port is None
            else Range(255, "a port", low=0).checked(f"{name}: port", port)
        )
        if number in self._ports:
            raise GraphError(f"{name}: memory port {number} is taken; use another or leave it out")
        self._ports.add(number)
        return number

    def _add(self, unit: Unit) -> str:
        """Add a unit; returns the name of its last output, or of the unit itself."""
        if text_of("unit name", unit.name) in self._units:
            raise GraphError(f"network {self.name!r}: unit {unit.name!r} exists; use another name")
        for fifo in unit.inputs:
            self._known(fifo, f"unit {unit.name!r}")
            if fifo in self._readers:
                raise GraphError(
                    f"network {self.name!r}: FIFO {fifo!r} is read by {self._readers[fifo]!r} and "
                    f"by {unit.name!r}; put a fork in front of them"
                )
            self._readers[fifo] = unit.name
        self._units[unit.name] = unit
        return unit.outputs[-1] if unit.outputs else unit.name


def _base(who: str, base: int | None) -> int | None:
    return None if base is None else _ADDRESS.checked(f"{who}: base", base)


def _last(who: str, last: int | None) -> dict[str, int]:
    return {} if last is None else {"last": _STOP.checked(f"{who}: last", last)}
