"""Records of the hardware level: units, FIFOs, memory ports, and how messages are packed.

A message is one word. That of a tile is its stop; a reference is number, release flag and stop; a
request or response is address, port, write flag and the place of a read among those in flight.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np

from stepsim.kernels.build.jit import inlined

NEVER: Final = 1 << 62
"""A cycle that never comes."""

EVENT_WORDS: Final = 3
"""Words of an event: cycle; kind and place; message."""

_RELEASE_BIT: Final = 20
_STOP_BIT: Final = 21

ADDRESS_BITS: Final = 40
_PORT_BITS: Final = 8
_WRITE_BIT: Final = ADDRESS_BITS + _PORT_BITS
_SLOT_BIT: Final = _WRITE_BIT + 1


class Kind(IntEnum):
    """Kinds of units, those of the memory path included."""

    WIRE = 0
    FORK = 1
    MAP = 2
    SUM = 3
    PROMOTE = 4
    REPEAT = 5
    ACCUMULATOR = 6
    BUFFER = 7
    READER = 8
    WRITER = 9
    PRINTER = 10
    SOURCE = 11
    SINK = 12
    ARBITER = 13
    ADMISSION = 14
    TABLE = 15
    DEAL = 16


class Acted(IntEnum):
    """What the step of a unit did in a cycle."""

    NOTHING = 0
    """Nothing, and it can do nothing until one of its FIFOs changes or its alarm rings."""
    WORKED = 1
    """It changed its state or a FIFO."""
    WAITS = 2
    """Nothing, but it can act in a later cycle with the FIFOs as they are."""
    SPUN = 3
    """A port was asked in vain: only the pointer of the arbiter moved."""
    MISMATCH = 4
    """Two inputs have heads with unequal stops."""


class Policy(IntEnum):
    """How the arbiter of the memory ports chooses."""

    ROTATING = 0
    ON_GRANT = 1
    FAIR = 2


class Event(IntEnum):
    """What is recorded of a traced run."""

    PUT = 0
    GET = 1
    SEND = 2
    RETURN = 3
    REFUSED = 4


class Outcome(IntEnum):
    """Why the clock stopped."""

    DONE = 0
    """All sinks that know their last message have taken it."""
    IDLE = 1
    """Nothing can act any more, and no sink waits for a last message."""
    STALL = 2
    """Nothing can act any more, and a sink waits for its last message."""
    MISMATCH = 3
    LIMIT = 4
    PAUSED = 5
    FULL = 6
    """There may be no room for the events of another cycle."""


UNIT = np.dtype(
    [
        ("kind", np.int64),
        ("in0", np.int64),  # its FIFOs are listed in `lists` from here on
        ("inputs", np.int64),
        ("out0", np.int64),
        ("outputs", np.int64),
        ("woken", np.int64),  # latest cycle in which it is looked at
        ("alarm", np.int64),  # cycle in which it is looked at whatever its FIFOs do
        ("fired", np.int64),
        ("first", np.int64),  # cycles of the first and last firing, -1 for none
        ("latest", np.int64),
        # parameters
        ("rank", np.int64),
        ("times", np.int64),  # copies of a repeat; cycles between two firings of a map
        ("start", np.int64),  # first cycle of a reader, sink or buffer
        ("period", np.int64),
        ("final", np.int64),  # stop of the last message of a sink, -1 when it is not known
        ("port", np.int64),
        ("origin", np.int64),  # address of the first entry
        ("length", np.int64),  # entries of a reader, messages of a source, frames of a set
        ("table", np.int64),  # first word in `words` or `lists`
        ("entry", np.int64),  # bytes from one entry to the next; references of a buffer
        ("block", np.int64),  # bytes of a request; sets of a buffer
        # state
        ("phase", np.int64),
        ("count", np.int64),
        ("byte", np.int64),
        ("spare", np.int64),
        ("current", np.int64),  # next frame of the set being filled
        ("group", np.int64),  # reference of the next group
        ("before", np.int64),  # frame stored before in the same group
        ("load", np.int64),  # frame of the load register, -1 when it is empty
        ("load_reference", np.int64),
        ("release", np.int64),  # reference of the release register
    ],
    align=True,
)

FIFO = np.dtype(
    [
        ("ring", np.int64),  # first word in `rings`
        ("depth", np.int64),
        ("latency", np.int64),  # cycles from a put until the message can be taken
        ("held", np.int64),  # messages at the start of the cycle
        ("head", np.int64),  # place of the oldest
        ("writer", np.int64),
        ("reader", np.int64),
        ("puts", np.int64),
        ("gets", np.int64),
        ("first", np.int64),  # cycle of the first put, -1 for none
        ("most", np.int64),  # most messages that it held
        ("area", np.int64),  # messages x cycles
        ("since", np.int64),  # cycle up to which `area` counts
    ],
    align=True,
)

GLOBAL = np.dtype(
    [
        ("cycle", np.int64),  # next cycle
        ("limit", np.int64),  # cycle that is not begun any more
        ("pause", np.int64),  # cycle before which the caller is asked
        ("every", np.int64),  # look at every unit in every cycle
        ("progress", np.int64),  # last cycle in which something happened
        ("alarm", np.int64),  # next alarm of a unit
        ("sinks", np.int64),  # those that wait for their last message
        ("woken", np.int64),  # units to be looked at in the next cycle
        ("side", np.int64),  # half of `work` that lists them
        ("changes", np.int64),  # FIFO changes of the cycle
        ("late", np.int64),  # a message was there that cannot be taken yet
        ("tracing", np.int64),
        ("events", np.int64),  # words filled
        ("unit", np.int64),  # first one that has a mismatch, -1 for none
        ("looks", np.int64),  # units looked at, cycles not skipped
        ("ticks", np.int64),
        # memory path
        ("ports", np.int64),
        ("pointer", np.int64),
        ("policy", np.int64),
        ("requests", np.int64),  # first FIFO of the ports' requests, in `lists`
        ("send", np.int64),  # FIFOs, -1 without memory
        ("pop", np.int64),
        ("flight", np.int64),
        ("table", np.int64),  # first word in `words`: which reads in flight are in the table
        ("tabled", np.int64),
        ("places", np.int64),  # of the table
        ("returned", np.int64),  # first word in `words` of the list of returned reads
        ("returned_head", np.int64),
        ("returned_held", np.int64),
        ("returned_size", np.int64),
        ("reads", np.int64),
        ("writes", np.int64),
        ("clock", np.int64),  # last tick of the DRAM
        ("up", np.int64),  # ticks per cycles, a fraction
        ("down", np.int64),
        ("due", np.int64),  # next cycle in which the DRAM can do anything
        ("channels", np.int64),
        ("channel_due", np.int64),  # first word in `words`: next clock of every channel
    ],
    align=True,
)


class Hardware(NamedTuple):
    """All arrays of a run.

    Attributes
    ----------
    units, fifos, globals : records of UNIT, FIFO and the one GLOBAL.
    lists : FIFOs of units, dims of readers, messages of sources; never written.
    rings : messages in FIFOs, and behind them the cycles from which each may be taken.
    words : private words of units and of the memory path.
    work : units woken for this and the next cycle, then changed FIFOs.
    events : of a traced run, `EVENT_WORDS` words each.
    dram : the words of :mod:`stepsim.kernels.dram`.
    """

    units: Any
    fifos: Any
    globals: Any
    lists: Any
    rings: Any
    words: Any
    work: Any
    events: Any
    dram: Any


@inlined
def reference(number, release, stop):
    """A message that refers to a stored group."""
    return number | (release << _RELEASE_BIT) | (stop << _STOP_BIT)


@inlined
def reference_number(message):
    """Which group."""
    return message & ((1 << _RELEASE_BIT) - 1)


@inlined
def reference_release(message):
    """1: it is the last reference to the group."""
    return (message >> _RELEASE_BIT) & 1


@inlined
def reference_stop(message):
    """How many dims the reference ends."""
    return message >> _STOP_BIT


@inlined
def request(port, address, write):
    """A message of the memory path."""
    return address | (port << ADDRESS_BITS) | (write << _WRITE_BIT)


@inlined
def request_address(message):
    """Its byte address."""
    return message & ((1 << ADDRESS_BITS) - 1)


@inlined
def request_port(message):
    """Its port."""
    return (message >> ADDRESS_BITS) & ((1 << _PORT_BITS) - 1)


@inlined
def request_write(message):
    """1 for a write."""
    return (message >> _WRITE_BIT) & 1


@inlined
def request_slot(message):
    """Of a read, its place among those in flight."""
    return message >> _SLOT_BIT


@inlined
def with_slot(message, slot):
    """A request with its place among those in flight."""
    return (message & ((1 << _SLOT_BIT) - 1)) | (slot << _SLOT_BIT)


@inlined
def without_slot(message):
    """A request as it was before."""
    return message & ((1 << _SLOT_BIT) - 1)
