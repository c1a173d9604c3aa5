"""The table of the memory model ``dram``: the DRAM, its ports, and the path between them.

The words of the DRAM come first, as :func:`stepsim.kernels.dram.table.dram_words` makes them. Then
come a word per DRAM channel, the clock of its next tick that can do anything, and the numbers of
those that have one; the stages of the request path; a set of the ports that want to request; the
walks of the ports; and a record of ``PORT_WORDS`` for every port. The ``HEADER`` words that say
where all of it lies come last, where they are found from the number of words alone. Behind them, as
a cache that is written before it is read, lie the requests in the path and a ring of responses per
port.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stepsim.frozen import NamedTuple
from stepsim.kernels.dram.table import DramSpec, dram_words
from stepsim.kernels.layout import INFINITY
from stepsim.kernels.memory.declaration import MemoryTable

ARBITERS: Final = ("rotating", "on-grant", "fair")
"""Arbiters by their number."""

ROTATING: Final = 0
ON_GRANT: Final = 1
FAIR: Final = 2

# Words of the header, from the first of its words.
NEXT_AT: Final = 1
STAGE_AT: Final = 2
STAGES: Final = 3
STAGE_ROOM: Final = 4  # requests that a stage holds
WIDTH: Final = 5  # requests that move on in a cycle
QUEUE_AT: Final = 6
QUEUE_MASK: Final = 7
QUEUE_HEAD: Final = 8  # requests that left the path
QUEUE_TAIL: Final = 9  # requests that entered it
SET_AT: Final = 10
SET_WORDS: Final = 11
WANTING: Final = 12  # ports in the set
PORTS_AT: Final = 13
PORTS: Final = 14
ARBITER: Final = 15
POINTER: Final = 16
PARTS: Final = 17  # accesses of the DRAM that a request is split into
ACCESS_BYTES: Final = 18
REQUEST_BYTES: Final = 19
HEAD_OF_LINE: Final = 20  # a refused request holds up those behind it
RESPONSE: Final = 21  # cycles from the return of a read to its unit
CLOCKS: Final = 22  # of the DRAM, in PER_CYCLES cycles
PER_CYCLES: Final = 23
READS: Final = 24  # requests that have not returned
GRANTS: Final = 25
LIMIT: Final = 26  # of reads of a port that are under way
ACTIVE: Final = 27  # channels of the DRAM that have something to do
ACTIVE_AT: Final = 28  # their numbers, in any order
HEADER: Final = 32

# Words of a port.
BASE: Final = 0
ROWS: Final = 1  # runs of bytes of a tile
COLUMNS: Final = 2  # tiles side by side
PITCH: Final = 3  # bytes from one run to the next of the tensor
ROW_BYTES: Final = 4
IS_STREAM: Final = 5  # a request that two tiles share is made once
IS_WRITE: Final = 6
IS_RANDOM: Final = 7
EXTENT: Final = 8  # tiles of the region; numbers from there on start anew
DIM_COUNT: Final = 9
WALK_AT: Final = 10  # dims, then strides
TILES: Final = 11  # of a walk
TOTAL: Final = 12  # accesses that may be run ahead of
AHEAD: Final = 13  # requests ahead of those that the unit has asked for
MARK: Final = 14  # added to addresses, above those of the DRAM
RING_AT: Final = 15
RING_MASK: Final = 16
ASKS: Final = 17  # accesses begun
ASKED: Final = 18  # requests of them
ISSUED: Final = 19  # requests granted
ARRIVED: Final = 20  # requests that came back, without a gap
MADE: Final = 21  # access that requests are made of at present
ROW: Final = 22
INDEX: Final = 23  # tile of it
ADDRESS: Final = 24  # of the next request
END: Final = 25
LAST: Final = 26  # address of the last request
IS_WAITING: Final = 27
BEGUN: Final = 28  # clock at which the access was issued
NEED: Final = 29  # requests of it
IS_IN_SET: Final = 30
GRANTED: Final = 31  # number of the last grant
CHOSEN: Final = 32  # tile that the token of a random access names
PORT_WORDS: Final = 33

QUEUE_WORDS: Final = 3  # address, tag, accesses of it that were sent
PORT_BITS: Final = 20  # of a tag, behind the number of the request

_RETURNS: Final = 1024
"""Reads of a channel that wait for their data or are answered by its write queue, at most."""

BITS: Final = 62
"""Ports in a word of the set; the sign stays clear."""


class FrontEnd(NamedTuple):
    """What stands between the ports and the DRAM.

    Attributes
    ----------
    request_bytes : of one request; parts : accesses of the DRAM that it is split into.
    outstanding : reads of a port under way, at most.
    request_latency : cycles from the grant to the DRAM, 1 to 64.
    response_latency : cycles from the return to the unit.
    arbiter : number in ``ARBITERS``. first : port that is asked first.
    width : requests granted, moved on, and sent in a cycle.
    head_of_line : a refused request holds up those behind it.
    clocks, cycles : the DRAM has so many clocks in so many cycles.
    """

    request_bytes: int
    parts: int
    outstanding: int
    request_latency: int
    response_latency: int
    arbiter: int
    first: int
    width: int
    head_of_line: bool
    clocks: int
    cycles: int


class DramTiming(NamedTuple):
    """A DRAM, and what stands in front of it."""

    spec: DramSpec
    front: FrontEnd


class PortAccess(NamedTuple):
    """Where the accesses of a port go, tile by tile, in bytes.

    The bytes of run ``r`` of tile ``i`` are the ``row_bytes`` from ``base + (i // columns * rows +
    r) * pitch + i % columns * row_bytes`` on.

    Attributes
    ----------
    stream : tiles lie behind each other in the order of use, and a request that two of them share
        is made once.
    write, random : kind of the port; a random one gets the tile from every address.
    extent : tiles of the region.
    dims, strides : the walk over tiles of a load, which starts anew behind its end; of other ports
        where tiles lie that are numbered block by block. Empty for the order of the tiles.
    ahead : requests of a load that may run ahead of its unit; total : accesses that it makes.
    mark : added to the addresses, above the bits of the DRAM.
    """

    base: int
    rows: int
    columns: int
    pitch: int
    row_bytes: int
    stream: bool = False
    write: bool = False
    random: bool = False
    extent: int = 1
    dims: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    ahead: int = 0
    total: int = 0
    mark: int = 0


def dram_table(timing: DramTiming, ports: Sequence[PortAccess]) -> MemoryTable:
    """The table of a machine's DRAM behind these ports, reads first."""
    spec, front = timing.spec, timing.front
    reads = sum(not port.write for port in ports)
    dram = dram_words(spec, min(_RETURNS, max(1, reads) * front.outstanding * front.parts))
    walks = [word for port in ports for word in (*port.dims, *port.strides)]
    sets = np.zeros(len(ports) // BITS + 1, np.int64)
    sizes = {
        NEXT_AT: spec.channels, ACTIVE_AT: spec.channels, STAGE_AT: front.request_latency,
    }  # fmt: skip
    at, header = len(dram), np.zeros(HEADER, np.int64)
    for word, size in sizes.items():
        header[word] = at
        at += size
    header[SET_AT], at = at, at + len(sets)
    walk_at, at = at, at + len(walks)
    header[PORTS_AT], at = at, at + PORT_WORDS * len(ports)
    cache = at + HEADER
    room = 2 * front.width
    places = _power_from(room * front.request_latency + 1)
    header[QUEUE_AT], header[QUEUE_MASK] = cache, places - 1
    behind = cache + QUEUE_WORDS * places
    records = np.zeros((len(ports), PORT_WORDS), np.int64)
    for number, (port, record) in enumerate(zip(ports, records, strict=True)):
        ring = 0 if port.write else _power_from(front.outstanding + port.ahead + 1)
        _fill(record, port, walk_at, behind, ring)
        walk_at += 2 * len(port.dims)
        behind += ring
        if port.ahead > 0:
            record[IS_IN_SET] = 1
            sets[number // BITS] |= 1 << (number % BITS)
    header[[STAGES, STAGE_ROOM, WIDTH]] = front.request_latency, room, front.width
    header[[SET_WORDS, WANTING, PORTS]] = len(sets), records[:, IS_IN_SET].sum(), len(ports)
    header[[ARBITER, POINTER]] = front.arbiter, front.first % max(1, len(ports))
    header[[PARTS, ACCESS_BYTES, REQUEST_BYTES]] = (
        front.parts, spec.access_bytes, front.request_bytes,
    )  # fmt: skip
    header[[HEAD_OF_LINE, RESPONSE]] = front.head_of_line, front.response_latency
    header[[CLOCKS, PER_CYCLES, LIMIT]] = front.clocks, front.cycles, front.outstanding
    next_clocks = np.full(spec.channels, INFINITY)
    parts = [
        dram, next_clocks, np.zeros(spec.channels + front.request_latency, np.int64), sets,
        np.array(walks, np.int64), records.ravel(), header,
    ]  # fmt: skip
    return MemoryTable(np.concatenate(parts), cache=behind - cache)


def _fill(record: np.ndarray, port: PortAccess, walk_at: int, ring_at: int, ring: int) -> None:
    record[BASE] = port.base
    record[[ROWS, COLUMNS, PITCH, ROW_BYTES]] = (
        port.rows, port.columns, port.pitch, port.row_bytes,
    )  # fmt: skip
    record[[IS_STREAM, IS_WRITE, IS_RANDOM]] = port.stream, port.write, port.random
    record[EXTENT] = port.extent
    tiles = 1
    for dim in port.dims:
        tiles *= dim
    record[[DIM_COUNT, WALK_AT, TILES]] = len(port.dims), walk_at, tiles
    record[TOTAL] = port.total if port.ahead > 0 else INFINITY
    record[[AHEAD, MARK]] = port.ahead, port.mark
    record[[RING_AT, RING_MASK]] = ring_at, ring - 1
    record[ROW], record[LAST] = port.rows - 1, -1
    record[MADE] = -1


def _power_from(number: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << (number - 1).bit_length()
