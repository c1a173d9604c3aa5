"""Lay a network out as an :class:`~stepsim.lowering.image.Image`."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.collection import without_collection
from stepsim.errors import LoweringError
from stepsim.kernels import (
    CHANNEL,
    GROWING,
    KINDS,
    MARK,
    MAX_TILE_SIDE,
    OF_CHIPS,
    PORT,
    SLOT,
    MemoryTable,
    Payload,
    have_producers_park,
    message_words,
    network_words,
)
from stepsim.kernels.catalog import UNIT
from stepsim.kernels.layout import GLOBAL, INFINITY
from stepsim.lowering.carriers import MULTICAST, SEND
from stepsim.lowering.endpoints import endpoints_of
from stepsim.lowering.image import Image
from stepsim.lowering.network import Carriage, Network, TimingParams, UnitSpec
from stepsim.lowering.of_machine import accesses_of, machine_globals, memory_table
from stepsim.lowering.parking import parking_of
from stepsim.lowering.rings import lay_rings
from stepsim.lowering.rows.function_records import EncodedFunction, encode_function
from stepsim.lowering.rows.registry import REGISTRY
from stepsim.lowering.rows.row import element_bits, refused
from stepsim.lowering.rows.unit_layout import LAYOUTS, MOST_PARAMETER, in_order, layout_of
from stepsim.lowering.source_tokens import SourceTokens

_MANY: Final = {op: row.many for op, row in REGISTRY.items() if row.many is not None}
"""Encoders of units of which a network has many in a row."""

_EMPTY: Final = (0,) * 8
"""A slot that holds nothing yet."""

_FIELDS: Final = ("private", "scratch", "kind", "port", "nin", "nout", "in0", "out0", "par")
"""Fields of the record of a unit that encoding sets; the others start equal in all units."""

_MAX_VALUE: Final = (1 << 63) - 1
_MAX_LEVEL: Final = 1000
_MAX_BUNDLE: Final = 1 << 16
_MAX_DEPTH: Final = 1 << 40
_MAX_WORDS: Final = (1 << 31) - 1
_FIRST_EVENTS: Final = 1 << 12
_EVENTS_OF_ROUTE: Final = 16
"""Events of a network on chip that a run begins with room for, at least and for each route."""


class ImageBuilder:
    """Collects slots, parameters and selectors while the units of a network are encoded."""

    def __init__(self, network: Network, always_park: bool = False) -> None:
        self._network = network
        self._always_park = always_park
        self._slots: list[tuple[int, ...]] = []
        self.sources = SourceTokens(network, self._token, self._slots)
        self._params = array("q")
        self._selectors: dict[tuple[int, tuple[int, ...]], int] = {}
        self._private: dict[str, int] = {}
        self._scratch = 0
        self._functions: dict[tuple[int, ...], int] = {}
        self._encoded: dict[int, tuple[Mapping[str, Any], EncodedFunction]] = {}
        self._carriage_at: int | None = None
        self._carried: tuple[int, ...] = ()

    @property
    def carriage(self) -> Carriage:
        """The network on chip of a network whose units send packets."""
        carriage = self._network.carriage
        if carriage is None:
            raise LoweringError("units send packets, and the network has no network on chip")
        return carriage

    @property
    def flit_bytes(self) -> int:
        """Bytes of a flit; messages between chips are counted in bytes."""
        return 1 if self._network.between is not None else self.carriage.flit_bytes

    def carriage_record(self, spec: UnitSpec) -> int:
        """The place of the numbers of the network among the parameters.

        Carriers come after all other units, so that all private words are counted.
        """
        if self._carriage_at is None and self._network.between is not None:
            links = self._network.between
            rates = np.array([links.latency, links.rate], np.float64).T.ravel()
            first = len(self._params)
            self._params.extend(rates.view(np.int64).tolist())
            self._carriage_at = len(self._params)
            self._params.extend((MARK, len(links.rate), self._routes, first))
        if self._carriage_at is None:
            self._carriage_at = len(self._params)
            its = self.carriage
            self._params.extend(
                (its.router, its.wire, its.inject, its.quantum, *self._carried, self._scratch)
            )
        return self._carriage_at

    @property
    def _routes(self) -> int:
        return sum(unit.op == "SendMessage" for unit in self._network.units)

    def _carry(self) -> None:
        """Give the network its words, in front of those of all units."""
        if self._network.between is not None:
            self.private_words(message_words(len(self._network.between.rate), self._routes))
            return
        packets, longest = 0, 0
        channels = self._network.channels
        for unit in self._network.units:
            if unit.op == SEND:
                packets += channels[unit.outputs[0]].capacity or 0
                longest = max(longest, len(unit.params["path"]))
            elif unit.op == MULTICAST:
                packets += sum(channels[c].capacity or 0 for c in unit.outputs)
                packets += unit.params["packets"]
                longest = max(longest, len(unit.params["path"]) + len(unit.outputs))
        self._carried = (self.carriage.ports, self.carriage.routes, packets, longest)
        self.private_words(network_words(*self._carried))

    @property
    def _first_events(self) -> int:
        """Events of a network on chip that a run begins with room for."""
        return max(_FIRST_EVENTS, _EVENTS_OF_ROUTE * self._carried[1])

    @property
    def timing(self) -> TimingParams:
        """The numbers of the machine, for encoders of units whose rules depend on its model."""
        return self._network.timing

    def selector_id(self, width: int, chosen: Iterable[int]) -> int:
        """Number of the selector of ``width`` flags with the ``chosen`` ones set."""
        key = (int(width), tuple(sorted(int(i) for i in chosen)))
        if key[1] and not 0 <= key[1][0] <= key[1][-1] < key[0]:
            raise LoweringError(f"selector {list(key[1])} does not fit a width of {width}")
        return self._selectors.setdefault(key, len(self._selectors))

    def add_tokens(self, spec: UnitSpec, tokens: Iterable[Mapping[str, Any]]) -> int:
        """Append tokens to the arena, next to each other; index of the first."""
        rows = [self._token(spec, token) for token in tokens]
        first = len(self._slots)
        self._slots.extend(rows)
        return first

    def add_slots(self, count: int) -> int:
        """Append slots for tokens that the unit makes; index of the first."""
        first = len(self._slots)
        self._slots.extend([_EMPTY] * count)
        return first

    def private_words(self, count: int) -> None:
        """Give the unit that is being encoded private words of scratch space."""
        self._scratch += count

    def function(self, spec: UnitSpec, record: Mapping[str, Any]) -> tuple[int, EncodedFunction]:
        """The place of the record of a function among the parameters, and the encoded record."""
        known = self._encoded.get(id(record))
        if known is None:
            known = (record, encode_function(spec, record, self.timing.model))
            self._encoded[id(record)] = known
        words = known[1].words
        if words not in self._functions:
            self._functions[words] = len(self._params)
            self._params.extend(words)
        return self._functions[words], known[1]

    def set_private(self, spec: UnitSpec, slot: str, token: Mapping[str, Any]) -> None:
        """Fill a private slot of a unit."""
        place = self._private[spec.name] + layout_of(spec).row.kind.private.index(slot)
        self._slots[place] = self._token(spec, token)

    def _token(self, spec: UnitSpec, token: Mapping[str, Any]) -> tuple[int, ...]:
        """One row of SLOT without its times: value, rows, cols, off, level, bits, kind, rd."""
        level = int(token.get("level", 0))
        self._check_range(spec, "stop level of a token", level, 0, _MAX_LEVEL)
        if "tile" in token:
            rows, cols, rd, off = (int(token["tile"][i]) for i in (0, 1, 3, 4))
            self._check_sides(spec, rows, cols)
            bits = element_bits(spec, token["tile"][2])
            value = int(token.get("value", 0))
            self._check_range(spec, "valid rows of a tile", off, 0, rows)
            self._check_range(spec, "value of a token", value, -_MAX_VALUE, _MAX_VALUE)
            return (value, rows, cols, off, level, bits, Payload.TILE, rd)
        if "selector" in token:
            width = int(token["width"])
            chosen = self.selector_id(width, token["selector"])
            return (chosen, 1, width, 1, level, 8, Payload.SELECTOR, int(token.get("rd", 0)))
        if "buffer" in token:
            return (self._buffer(spec, token), 0, 0, 0, level, 0, Payload.BUFFER, 0)
        raise refused(spec, f"unknown token {dict(token)}")

    def _buffer(self, spec: UnitSpec, token: Mapping[str, Any]) -> int:
        """A block with header for a buffer given as dims (outermost first) and tiles."""
        dims, tiles = token["buffer"], token["tiles"]
        order = (len(tiles)).bit_length()
        first = len(self._slots)
        references = 1 << 30  # source tokens are sent by copy and never freed
        block: list[tuple[int, ...]] = [(0, len(tiles), 0, references, order, 0, 0, 0)]
        for i, tile in enumerate(tiles):
            span, level = 1, 0
            for dim in reversed(dims):
                span *= dim
                if (i + 1) % span:
                    break
                level += 1
            row = self._token(spec, {**tile, "level": level})
            block.append(row)
        block.extend([_EMPTY] * ((1 << order) - len(block)))
        self._slots.extend(block)
        return first

    @staticmethod
    def _check_range(spec: UnitSpec, what: str, value: int, least: int, most: int) -> None:
        if not least <= value <= most:
            raise refused(spec, f"{what} is {value}; expected {least}..{most}")

    @staticmethod
    def _check_sides(spec: UnitSpec, rows: int, cols: int) -> None:
        if not (0 <= rows <= MAX_TILE_SIDE and 0 <= cols <= MAX_TILE_SIDE):
            raise refused(
                spec,
                f"a tile of {rows}x{cols} does not fit; "
                f"sides up to {MAX_TILE_SIDE} are supported; split the tile",
            )

    def build(self) -> Image:
        """The finished image; raises LoweringError for anything that does not fit."""
        network = self._network
        producers, consumers = endpoints_of(network)
        ops = [spec.op for spec in network.units]
        sides = {op: LAYOUTS[op].row.kind.port for op in set(ops)}
        readers = [u for u, op in enumerate(ops) if sides[op] == "read"]
        writers = [u for u, op in enumerate(ops) if sides[op] == "write"]
        between, ports_of_chips = network.between, ()
        with_ports = readers + writers
        if between is not None:
            if network.timing.engine_model not in OF_CHIPS:
                raise LoweringError(
                    f"memory model {network.timing.memory_model!r} is for units on one chip; "
                    f"{', '.join(OF_CHIPS[:-1])} are for several"
                )
            with_ports.sort(key=lambda unit: between.units[unit])
            chips = np.array([between.units[unit] for unit in with_ports], np.int64)
            ports_of_chips = tuple(np.bincount(chips, minlength=between.chips).tolist())
        port_of = {unit: port for port, unit in enumerate(with_ports)}
        if network.carriage is not None or between is not None:
            self._carry()
        units = self._records(port_of)
        selectors = self._selector_table()
        channels, arena_top = self._channels(producers, consumers)
        slots = np.zeros(arena_top, SLOT)
        fields = ["value", "rows", "cols", "off", "level", "bits", "kind", "rd"]
        if self._slots:
            columns = np.array(self._slots, np.int64).T
            for field, column in zip(fields, columns, strict=True):
                slots[field][: len(self._slots)] = column
        ports = np.zeros(len(port_of), PORT)
        ports["unit"] = list(port_of)
        ports["bundle"] = [_bundle(network.units[unit]) for unit in port_of]
        accesses = accesses_of(network, list(port_of))
        bundles = [int(bundle) for bundle in ports["bundle"]]
        table = memory_table(network.timing, bundles, accesses, ports_of_chips)
        g = _globals(network, selectors, arena_top, table)
        parks = parking_of(network.units, len(channels), self._always_park)
        if parks.any():
            have_producers_park(units, channels, g, parks)
        params = np.array(self._params if self._params else [0], np.int64)
        return Image(
            units=units,
            channels=channels,
            slots=slots,
            tokens=self.sources.records(),
            params=params,
            scratch_words=max(self._scratch, 1),
            growing_words=0 if network.carriage is None else GROWING * self._first_events,
            ports=ports,
            memory_table=table.words,
            globals=g,
            memory_model=network.timing.engine_model,
            unit_names=tuple([spec.name for spec in network.units]),
            unit_ops=tuple(ops),
            channel_names=tuple([c.name for c in network.channels]),
            unit_origins=tuple([spec.origin for spec in network.units]),
            selector_widths=tuple(width for width, _ in self._selectors),
            accesses=accesses,
            ports_of_chips=ports_of_chips,
            unit_chips=() if between is None else between.units,
        )

    def _encode(self, spec: UnitSpec, port: int) -> tuple[int, ...]:
        """Append the data of a unit to the other arrays; returns the fields of its record."""
        layout = layout_of(spec)
        kind = layout.row.kind
        private, scratch = len(self._slots), self._scratch
        if kind.private:
            self._private[spec.name] = private
            self._slots.extend([_EMPTY] * len(kind.private))
        if "tile" in spec.params:
            rows, cols = spec.params["tile"]
            self._check_sides(
                spec, rows if isinstance(rows, int) else 1, cols if isinstance(cols, int) else 1
            )
        try:
            params = in_order(spec, layout, layout.row.encode(self, spec))
            if kind.port is not None:
                _bundle(spec)
        except KeyError as error:
            raise refused(spec, f"parameter {error} is missing") from error
        in0 = len(self._params)
        out0 = in0 + len(spec.inputs)
        par = out0 + len(spec.outputs)
        self._params.fromlist([*spec.inputs, *spec.outputs, *params])
        self._scratch += kind.scratch_per_input * len(spec.inputs)
        return (
            private, scratch, layout.code, port, len(spec.inputs), len(spec.outputs), in0, out0,
            par,
        )  # fmt: skip

    def _encode_many(self, specs: Sequence[UnitSpec]) -> NDArray[np.int64]:
        """The same for units of `_MANY` that follow each other: a row for every field."""
        try:
            firsts = {spec.op: spec for spec in reversed(specs)}
            encoders = {op: _MANY[op](self, spec) for op, spec in firsts.items()}
            rows = [
                (*inputs, *outputs, *encoders[op](params))
                for _, op, inputs, outputs, params, _ in specs
            ]
            numbers = np.fromiter(chain.from_iterable(rows), np.int64)
        except (KeyError, OverflowError):
            rows = []
        if not (rows and np.min(numbers) >= 0 and np.max(numbers) < MOST_PARAMETER):
            # Some cannot be used, and those one by one are named.
            return np.array([self._encode(spec, -1) for spec in specs], np.int64).T
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        ends = len(self._params) + np.cumsum(sizes)
        inputs = np.fromiter([len(spec.inputs) for spec in specs], np.int64)
        outputs = np.fromiter([len(spec.outputs) for spec in specs], np.int64)
        codes = {op: LAYOUTS[op].code for op in encoders}
        kinds = [codes[spec.op] for spec in specs]
        self._params.frombytes(numbers.tobytes())
        in0 = ends - sizes
        constant = np.full(len(specs), 1)
        return np.array(
            [
                len(self._slots) * constant, self._scratch * constant, kinds, -constant, inputs,
                outputs, in0, in0 + inputs, in0 + inputs + outputs,
            ]
        )  # fmt: skip

    def _records(self, port_of: Mapping[int, int]) -> NDArray[np.void]:
        """The records of the units, which are encoded in their order."""
        specs = self._network.units
        # Carriers come after all other units.
        first = next((u for u, spec in enumerate(specs) if spec.op in _MANY), len(specs))
        encoded = [self._encode(spec, port_of.get(u, -1)) for u, spec in enumerate(specs[:first])]
        parts = [np.array(encoded, np.int64).reshape(-1, len(_FIELDS)).T]
        for many, run in groupby(specs[first:], lambda spec: spec.op in _MANY):
            if many:
                parts.append(self._encode_many(list(run)))
            else:
                rows = np.array([self._encode(spec, -1) for spec in run], np.int64)
                parts.append(rows.T)
        units = np.zeros(len(specs), UNIT)
        columns = np.concatenate(parts, axis=1)
        for name, column in zip(_FIELDS, columns, strict=True):
            if np.any(column > _MAX_WORDS):
                raise LoweringError(
                    f"the program needs {np.max(column):,} words of parameters, at most "
                    f"{_MAX_WORDS:,} are supported; use fewer operators or shorter lists"
                )
            units[name] = column
        units["hpos"] = -1
        units["wait_channel"] = -1
        units["log"] = -1
        units["watch"] = INFINITY
        for code in sorted(set(columns[_FIELDS.index("kind")].tolist())):
            for word, start in KINDS[code].words.items():
                if start:
                    units[word][units["kind"] == code] = start
        return units

    def _selector_table(self) -> int:
        """Append the selector lists to the parameters: entry per id, then count and indices."""
        table = len(self._params)
        at = table + len(self._selectors)
        entries: list[int] = []
        lists: list[int] = []
        for _, chosen in self._selectors:
            entries.append(at + len(lists))
            lists.extend((len(chosen), *chosen))
        self._params.extend(chain(entries, lists))
        return table

    def _channels(
        self, producers: NDArray[np.int64], consumers: NDArray[np.int64]
    ) -> tuple[np.ndarray, int]:
        depths = [spec.capacity for spec in self._network.channels]
        # A program has FIFOs of only a few different depths.
        for depth in set(depths):
            self._check_depth(depth)
        channels = np.zeros(len(depths), CHANNEL)
        channels["producer"], channels["consumer"] = producers, consumers
        return channels, lay_rings(channels, depths, len(self._slots))

    def _check_depth(self, depth: int | None) -> None:
        if depth is None or 1 <= depth <= _MAX_DEPTH:
            return
        name = next(spec.name for spec in self._network.channels if spec.capacity == depth)
        if depth < 1:
            raise LoweringError(f"FIFO '{name}' has depth {depth}; it needs at least 1 slot")
        raise LoweringError(
            f"FIFO '{name}' has depth {depth}; up to {_MAX_DEPTH} slots are supported, None is "
            "unbounded"
        )


def _bundle(spec: UnitSpec) -> int:
    bundle = int(spec.params["par"])
    if bundle < 1:
        raise refused(spec, f"par_dispatch is {bundle}; expected at least 1 request per cycle")
    if bundle > _MAX_BUNDLE:
        raise refused(
            spec,
            f"par_dispatch is {bundle}; at most {_MAX_BUNDLE} requests per cycle are supported",
        )
    return bundle


def _globals(network: Network, selectors: int, arena_top: int, table: MemoryTable) -> np.ndarray:
    queue = 1
    while queue < 2 * len(network.channels) + 2 * len(network.units) + 2:
        queue *= 2
    values = np.zeros(1, GLOBAL)
    values["work_tail"] = len(network.units)
    values["work_mask"] = queue - 1
    values["arena_top"] = arena_top
    values["selectors"] = selectors
    values["calendar_end"] = len(network.units) + 1
    values["parked_until"] = INFINITY
    machine_globals(values, network.timing, table)
    return values


def build_image(network: Network, *, always_park: bool = False) -> Image:
    """Lay ``network`` out for the engine.

    Parameters
    ----------
    always_park : let producers park at full FIFOs also where that moves no clock, so that the paces
        of units and tokens are exact too.

    Raises
    ------
    LoweringError
        For unknown operators or functions, dangling channels, and sizes that would overflow a
        field.
    """
    with without_collection():
        return ImageBuilder(network, always_park).build()
