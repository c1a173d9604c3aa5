"""The network of a machine: places, links between them, and how fast they are.

A network states flits, byte rates, or both: packets cut into flits compete for the inputs and
outputs of routers, whole transfers for rates of bytes. Places are numbered row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from stepsim.deferred import deferred
from stepsim.machine.section import (
    Section,
    choice,
    integer,
    number,
    optional,
    section,
    setting,
    text,
)

if TYPE_CHECKING:
    from stepsim.machine import network_loading as networks
else:
    # Presets are read by what reads machines, of which a network may be a part.
    networks = deferred("stepsim.machine.network_loading")

MOST_PLACES: Final = 1 << 16
"""Places that a network may have."""

MOST_LISTED: Final = 1 << 10
"""Places of a network whose links are listed."""

STREAMS: Final = ("by-access", "shorter", "first", "second")
"""Choices between two networks for the tokens of placed programs."""

CORES: Final = {"W": "worker", "D": "dram", "E": "ethernet", "U": "unused"}
"""Kinds of cores by the letter that stands for them in a map."""

_RATE = number(0, above=True)
_CYCLES = integer(0, 1 << 20)


@section
class Flits(Section):
    """Packets as flits; the defaults are the router of BookSim2 with stages of one cycle."""

    router: int = setting(
        _CYCLES,
        "cycles from the arrival of a flit at a router to its earliest departure",
        default=4,
    )
    wire: int = setting(_CYCLES, "cycles of a flit on a link", default=1)
    inject: int = setting(_CYCLES, "cycles from a source to its router", default=2)
    quantum: int = setting(
        integer(1, 1 << 16), "flits of a segment, which goes through a router as a whole", default=4
    )
    flit_bytes: int | None = optional(
        integer(1, 1 << 16), "bytes of a flit, which packets given in bytes need"
    )
    window: int | None = optional(
        integer(1, 1 << 20),
        "tokens of a stream of a placed program that may be under way at once; as many as a stream "
        "that never waits has, if absent",
    )


@section
class PortRates(Section):
    """Bytes per cycle of the ports between cores and network, by the kind of the core."""

    worker: float = setting(_RATE, "of worker cores, and of all without a map of cores")
    dram: float | None = optional(_RATE, "of cores in front of a DRAM; as workers if absent")
    ethernet: float | None = optional(_RATE, "of Ethernet cores; as workers if absent")
    unused: float | None = optional(_RATE, "of cores without a use; as workers if absent")

    def of(self, letter: str) -> float:
        """The rate of a kind of core by its letter."""
        rate: float | None = getattr(self, CORES[letter])
        return self.worker if rate is None else rate


@section
class Rates(Section):
    """Whole transfers, as bytes per cycle."""

    link: float = setting(_RATE, "bytes per cycle of a link")
    source: PortRates = setting(PortRates, "ports from cores into the network")
    sink: PortRates = setting(PortRates, "ports from the network into cores")
    packets: str | None = optional(
        text(),
        "bytes of a packet and the bytes per cycle of packets of that size, as '0:0 128:5.5'; "
        "between two of them the rate is interpolated. The model npe needs it",
    )

    @classmethod
    def contradictions(
        cls, given: Mapping[Any, Any], checked: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """The table of packets must be one."""
        if checked["packets"] is None:
            return
        table = packet_table(checked["packets"])
        if table is None or len(table) < 2:
            yield (
                "packets",
                "expected two or more pairs of bytes and rate such as '0:0 128:5.5 256:10.1'",
            )
        elif any(a >= b for (a, _), (b, _) in pairwise(table)):
            yield "packets", "expected bytes that rise from pair to pair"
        elif table[0][0] != 0:
            yield "packets", f"expected a first pair for 0 bytes, found {table[0][0]}"
        elif any(rate <= 0 for _, rate in table[1:]) or table[0][1] < 0:
            yield "packets", "expected rates above 0, or 0 for 0 bytes"


@section
class Latencies(Section):
    """Cycles from the issue of a read or write to the start of its transfer, for event traces."""

    same_node: int = setting(_CYCLES, "read from the place itself")
    same_column: int = setting(_CYCLES, "read from the same column")
    same_row: int = setting(_CYCLES, "read from the same row")
    other: int = setting(_CYCLES, "read from anywhere else")
    write: int = setting(_CYCLES, "write, before its hops")
    write_per_hop: int = setting(_CYCLES, "write, for each hop")


@section
class Network(Section):
    """A network of places on a chip, or of any nodes; build one with `load_network`.

    Raises
    ------
    MachineError : an unknown, missing, mistyped or out-of-range value, or a topology that does not
        connect its places.
    """

    name: str = setting(text(), "short name, shown in results")
    description: str = setting(text(empty=True), "what the network describes", default="")
    topology: str = setting(
        choice("mesh", "torus", "ring", "switch", "links"),
        "'mesh' of rows and columns; 'torus', whose rows and columns close; 'ring' of one row; "
        "'switch' that one row of places is connected to; 'links' as listed",
    )
    rows: int = setting(integer(1, 1 << 10), "rows of places", default=1)
    cols: int = setting(integer(1, 1 << 16), "columns of places")
    routing: str = setting(
        choice("shortest", "one-way"),
        "'shortest': along the row, then along the column, with ties to the east and south; "
        "'one-way', of a torus: two networks, of which 0 goes east, then south, and 1 goes north, "
        "then west",
        default="shortest",
    )
    streams: str = setting(
        choice(*STREAMS),
        "which of two networks the tokens of a placed program take: 'by-access' 0 for what loads "
        "ask for and get, 1 for the rest; 'shorter' that with the shorter route, 0 if they are "
        "equal, and 1 for trees; 'first' always 0, 'second' always 1",
        default=STREAMS[0],
    )
    broadcast: str = setting(
        choice("routes", "tree"),
        "how a stream goes to several readers: 'routes', one to each of them; 'tree', one over "
        "links that they share until their routes part",
        default="routes",
    )
    links: str | None = optional(
        text(),
        "links of the topology 'links': '0-1' both ways, '0>1' one way, separated by spaces; a "
        "route has the fewest links, and of several the one through the lowest places",
    )
    cores: str | None = optional(
        text(),
        "map of the cores, a row of letters for each row of places: W worker, D DRAM, E Ethernet, "
        "U unused; all are workers if absent",
    )
    flits: Flits | None = optional(Flits, "packets as flits, for the model link")
    rates: Rates | None = optional(Rates, "rates of bytes, for the models link, flow and npe")
    latencies: Latencies | None = optional(Latencies, "latencies of reads and writes, for traces")

    @classmethod
    def contradictions(
        cls, given: Mapping[Any, Any], checked: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """What does not fit the topology, and places that no route reaches."""
        get = checked.__getitem__
        topology, rows, cols = get("topology"), get("rows"), get("cols")
        if topology in ("ring", "switch", "links") and rows != 1:
            yield "rows", f"expected 1 with the topology '{topology}', whose places are in cols"
            return
        if topology == "ring" and cols < 3:
            yield "cols", f"expected 3 or more places of a ring, found {cols}"
        if rows * cols > MOST_PLACES:
            yield "cols", f"expected at most {MOST_PLACES} places, found {rows * cols}"
            return
        if get("routing") == "one-way" and topology != "torus":
            yield (
                "routing",
                f"'one-way' does not connect the places of a {topology}, whose ends do not meet; "
                "use the topology 'torus', or routing 'shortest'",
            )
        if get("streams") != STREAMS[0] and get("routing") != "one-way":
            yield "streams", "has an effect only with the two networks of the routing 'one-way'"
        if get("broadcast") == "tree" and topology == "links":
            yield (
                "broadcast",
                "routes over listed links need not form a tree; leave it out, or use another "
                "topology",
            )
        if get("flits") is None and get("rates") is None:
            yield "flits", "a network states flits, rates, or both; found neither"
        if get("cores") is not None:
            yield from _of_cores(get("cores"), rows, cols)
        if topology == "links":
            yield from _of_links(get("links"), cols)
        elif get("links") is not None:
            yield "links", f"has an effect only with the topology 'links', found '{topology}'"

    @property
    def note(self) -> str:
        """What runs of programs on a machine with this network use of it."""
        return (
            f"cycles are those without the network on chip '{self.name}': streams cross it in no "
            "time unless the program is placed"
        )

    @property
    def places(self) -> int:
        """Number of places."""
        return self.rows * self.cols

    @property
    def networks(self) -> int:
        """Number of networks that connect the places."""
        return 2 if self.routing == "one-way" else 1

    @property
    def core_letters(self) -> str:
        """The letter of the core at every place."""
        return "".join(self.cores.split()) if self.cores is not None else "W" * self.places

    @property
    def listed_links(self) -> list[tuple[int, int]]:
        """Links of the topology 'links', each in one direction, in the order of the list."""
        return [] if self.links is None else link_pairs(self.links) or []


def network_named(name: str) -> Network:
    """The network of a name or a file, as `load_network` takes them."""
    return networks.load_network(name)


def packet_table(written: str) -> list[tuple[int, float]] | None:
    """Bytes and rates of a table of packets; None if it cannot be read."""
    table = []
    for pair in written.replace(",", " ").split():
        size, colon, rate = pair.partition(":")
        try:
            table.append((int(size), float(rate)))
        except ValueError:
            return None
        if not colon or not table[-1][1] < float("inf"):
            return None
    return table


def link_pairs(written: str) -> list[tuple[int, int]] | None:
    """Links as pairs of places, each in one direction; None if the text cannot be read."""
    pairs = []
    for link in written.replace(",", " ").split():
        one, way, other = link.partition("-" if "-" in link else ">")
        if not (one.isdecimal() and other.isdecimal()):
            return None
        pairs.append((int(one), int(other)))
        if way == "-":
            pairs.append((int(other), int(one)))
    return pairs


def _of_cores(written: str, rows: int, cols: int) -> Iterator[tuple[str, str]]:
    lines = written.split()
    if len(lines) != rows or any(len(line) != cols for line in lines):
        yield (
            "cores",
            f"expected {rows} rows of {cols} letters, found {len(lines)} rows of "
            + (", ".join(str(one) for one in sorted({len(line) for line in lines}))),
        )
    elif wrong := sorted(set("".join(lines)) - set(CORES)):
        yield "cores", f"expected the letters {', '.join(CORES)}, found {wrong[0]!r}"


def _of_links(written: str | None, places: int) -> Iterator[tuple[str, str]]:
    if written is None:
        yield "links", "missing; the topology 'links' needs them, as in '0-1 1-2 2>0'"
        return
    pairs = link_pairs(written)
    if pairs is None:
        yield "links", "expected links such as '0-1 1-2 2>0'"
    elif places > MOST_LISTED:
        yield "cols", f"expected at most {MOST_LISTED} places with listed links, found {places}"
    elif outside := [one for one in pairs if max(one) >= places]:
        one, other = outside[0]
        yield "links", f"expected places from 0 to {places - 1}, found the link {one} to {other}"
    elif same := [one for one, other in pairs if one == other]:
        yield "links", f"expected links between two places, found one from {same[0]} to itself"
    elif len(set(pairs)) < len(pairs):
        one, other = next(pair for pair in pairs if pairs.count(pair) > 1)
        yield "links", f"the link from {one} to {other} is listed twice; keep one"
    else:
        reached = _reached(0, pairs, places)
        back = _reached(0, [(other, one) for one, other in pairs], places)
        for found, way in ((reached, "from place 0 to"), (back, "to place 0 from")):
            if missing := sorted(set(range(places)) - found):
                yield (
                    "links",
                    f"the topology does not connect its places: no route {way} place {missing[0]}; "
                    "add a link",
                )
                return


def _reached(start: int, pairs: list[tuple[int, int]], places: int) -> set[int]:
    nexts: list[list[int]] = [[] for _ in range(places)]
    for one, other in pairs:
        nexts[one].append(other)
    found, waiting = {start}, [start]
    while waiting:
        for other in nexts[waiting.pop()]:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found
