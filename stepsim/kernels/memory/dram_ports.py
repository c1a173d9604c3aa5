"""Ports of the memory model ``dram``: which requests they make, and when an access is complete.

A port turns the tiles that its unit asks for into requests of ``request_bytes``, in order. A load
that walks over a tensor by itself may run ahead of its unit: up to ``AHEAD`` requests beyond those
asked for. Responses come in any order; an access is complete when all requests up to its last one
have come back, ``RESPONSE`` cycles later, and not before the port could have made its requests at
``bundle`` a cycle. Writes are posted: an access is complete when its last request was granted.
"""

from __future__ import annotations

from typing import Final

from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.calendar import schedule
from stepsim.kernels.memory.dram_table import (
    ADDRESS,
    AHEAD,
    ARRIVED,
    ASKED,
    ASKS,
    BASE,
    BEGUN,
    BITS,
    CHOSEN,
    COLUMNS,
    DIM_COUNT,
    END,
    EXTENT,
    HEADER,
    INDEX,
    IS_IN_SET,
    IS_RANDOM,
    IS_STREAM,
    IS_WAITING,
    IS_WRITE,
    ISSUED,
    LAST,
    LIMIT,
    MADE,
    NEED,
    PITCH,
    PORT_WORDS,
    PORTS_AT,
    REQUEST_BYTES,
    RESPONSE,
    RING_AT,
    RING_MASK,
    ROW,
    ROW_BYTES,
    ROWS,
    SET_AT,
    TILES,
    TOTAL,
    WALK_AT,
    WANTING,
)

NEVER: Final = 1 << 62


@inlined
def header_of(state):
    """Where the header of the table is."""
    return state.globals[0].memory_words - HEADER


@inlined
def port_at(words, header, p):
    """Where the words of a port are."""
    return words[header + PORTS_AT] + p * PORT_WORDS


@inlined
def _tile_of(words, its, number):
    # The tile of an access of a port, from its number.
    if words[its + IS_RANDOM] != 0:
        number = words[its + CHOSEN]
    count = words[its + DIM_COUNT]
    if count == 0:
        return number % words[its + EXTENT]
    left = number % words[its + TILES]
    walk = words[its + WALK_AT]
    tile = 0
    for i in range(count - 1, -1, -1):
        dim = words[walk + i]
        tile += left % dim * words[walk + count + i]
        left //= dim
    return tile


@inlined
def _run_begin(words, its, tile, row):
    # First byte of a run of a tile.
    columns = words[its + COLUMNS]
    first = (tile // columns * words[its + ROWS] + row) * words[its + PITCH]
    return words[its + BASE] + first + tile % columns * words[its + ROW_BYTES]


@inlined
def _requests_of(words, its, tile, size):
    # Requests of a tile, each of ``size`` bytes.
    length = words[its + ROW_BYTES]
    if words[its + IS_STREAM] != 0:
        begin = _run_begin(words, its, tile, 0)
        first = begin // size
        # The first tile shares nothing, wherever it begins; any other, with the tile before it.
        shared = tile != 0 and first * size != begin
        if words[its + IS_RANDOM] != 0:
            # That is the tile before in time, of which all was requested by now.
            shared = tile != 0 and first * size == words[its + LAST]
        return (begin + length - 1) // size - first + (0 if shared else 1)
    count = 0
    for row in range(words[its + ROWS]):
        begin = _run_begin(words, its, tile, row)
        count += (begin + length - 1) // size - begin // size + 1
    return count


@kernel
def _has_request(words, header, its):
    # Whether there is a next request; ``ADDRESS`` is then that of it.
    available = words[its + ASKS] if words[its + AHEAD] == 0 else words[its + TOTAL]
    while words[its + ADDRESS] >= words[its + END]:
        row = words[its + ROW] + 1
        number = words[its + MADE]
        if row >= words[its + ROWS]:
            row = 0
            number += 1
            if number >= available:
                return False
            words[its + MADE] = number
            words[its + INDEX] = _tile_of(words, its, number)
        words[its + ROW] = row
        size = words[header + REQUEST_BYTES]
        begin = _run_begin(words, its, words[its + INDEX], row)
        first = begin // size * size
        if words[its + IS_STREAM] != 0:
            if words[its + INDEX] == 0:
                words[its + LAST] = -1
            if first == words[its + LAST]:
                first += size
        words[its + ADDRESS] = first
        words[its + END] = begin + words[its + ROW_BYTES]
    return True


@inlined
def _may_request(words, header, its):
    if words[its + IS_WRITE] != 0:
        return words[its + ISSUED] < words[its + ASKED]
    issued = words[its + ISSUED]
    return (
        issued - words[its + ASKED] < words[its + AHEAD]
        and issued - words[its + ARRIVED] < words[header + LIMIT]
    )


@inlined
def update_set(words, header, its, p):
    """Whether the port wants to request, which the arbiter looks at in the next cycle."""
    wants = 0
    if _may_request(words, header, its) and _has_request(words, header, its):
        wants = 1
    if wants != words[its + IS_IN_SET]:
        words[its + IS_IN_SET] = wants
        words[words[header + SET_AT] + p // BITS] ^= 1 << (p % BITS)
        words[header + WANTING] += 2 * wants - 1


@inlined
def _done(state, words, its, p, cycle):
    # The access of the port is complete at ``cycle``, or when it could have been made.
    bundle = state.ports[p].bundle
    least = words[its + BEGUN] + (words[its + NEED] + bundle - 1) // bundle
    done = max(cycle, least)
    words[its + IS_WAITING] = 0
    schedule(state, state.ports[p].unit, done)
    return done


@kernel
def ask(state, p, clock):
    """The unit of port ``p`` asked for its next tile at ``clock``; when it has it, if that is known
    by now."""
    shared = state.globals[0]
    words = state.memory_table
    header = header_of(state)
    its = port_at(words, header, p)
    un = state.units[state.ports[p].unit]
    if words[its + IS_RANDOM] != 0:
        words[its + CHOSEN] = un.tile_index
    tile = _tile_of(words, its, words[its + ASKS])
    need = _requests_of(words, its, tile, words[header + REQUEST_BYTES])
    # What the unit counted is without the places of the tiles.
    un.requests += need - un.need
    shared.memory_requests += need - un.need
    un.need = need
    words[its + ASKS] += 1
    words[its + ASKED] += need
    words[its + NEED] = need
    words[its + BEGUN] = clock
    words[its + IS_WAITING] = 1
    asked = words[its + ASKED]
    done = NEVER
    if words[its + IS_WRITE] != 0:
        if words[its + ISSUED] == asked:
            done = _done(state, words, its, p, clock + 1)
    elif words[its + ARRIVED] >= asked:
        came = words[words[its + RING_AT] + ((asked - 1) & words[its + RING_MASK])]
        done = _done(state, words, its, p, max(came + words[header + RESPONSE], clock + 1))
    update_set(words, header, its, p)
    return done


@inlined
def take_request(words, header, its, parts):
    """Take the next request of a port, in ``parts``; its number. Needs that there is one."""
    words[its + LAST] = words[its + ADDRESS]
    words[its + ADDRESS] += words[header + REQUEST_BYTES]
    number = words[its + ISSUED]
    words[its + ISSUED] = number + 1
    if words[its + IS_WRITE] == 0:
        words[words[its + RING_AT] + (number & words[its + RING_MASK])] = -parts
    return number


@inlined
def complete_write(state, words, its, p, cycle):
    """A request of the port was granted; when its access is complete, if it is a write's last."""
    if (
        words[its + IS_WRITE] != 0
        and words[its + IS_WAITING] != 0
        and words[its + ISSUED] == words[its + ASKED]
    ):
        return _done(state, words, its, p, cycle)
    return NEVER


@kernel
def arrive(state, p, number, cycle):
    """A part of a request came back; when the access of the port is complete, if it is by this.

    Below zero while other parts of the request are to come.
    """
    words = state.memory_table
    header = header_of(state)
    its = port_at(words, header, p)
    ring = words[its + RING_AT]
    mask = words[its + RING_MASK]
    place = ring + (number & mask)
    words[place] += 1
    if words[place] < 0:
        return -1
    words[place] = cycle
    arrived = words[its + ARRIVED]
    if number == arrived:
        issued = words[its + ISSUED]
        while arrived < issued and words[ring + (arrived & mask)] > 0:
            words[ring + (arrived & mask)] = cycle
            arrived += 1
        words[its + ARRIVED] = arrived
        update_set(words, header, its, p)
        if words[its + IS_WAITING] != 0 and arrived >= words[its + ASKED]:
            return _done(state, words, its, p, cycle + words[header + RESPONSE])
    return NEVER
