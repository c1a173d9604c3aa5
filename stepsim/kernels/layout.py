"""Structured dtypes and codes shared by the lowering step and the kernels.

All simulation state lives in a few arrays of records. Field names avoid every attribute of
``numpy.record`` (``base``, ``size``, ``take``, ...) so that the same attribute access works
compiled and with ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

from collections import namedtuple
from enum import IntEnum
from typing import Any, Final

import numpy as np

from stepsim.frozen import NamedTuple

INFINITY: Final = 1 << 62
"""A time, capacity or count that is never reached."""

MAX_ADDRESS: Final = (1 << 63) - 1
"""Largest tile index that the value of a token holds."""

MAX_TILE_SIDE: Final = 1 << 20
"""Largest number of rows or columns of a tile; keeps ``2 * M * K * N`` below 2**63."""

SLOT = np.dtype(
    [
        ("stamp", np.int64),  # tau: when the token can be seen
        ("pub", np.int64),  # publication time, pub <= stamp
        ("rel", np.int64),  # when the slot is free again (consumer clock + 1)
        # The same by the consumer's pace clock. Below 0: the producer parked, see parking.py.
        ("hrel", np.int64),
        ("value", np.int64),  # address | selector id | slot index of a block header
        ("rows", np.int32),
        ("cols", np.int32),
        ("off", np.int32),  # valid rows; references held, in a block header
        ("level", np.int16),  # fused stop level, 0 = plain
        ("bits", np.int16),  # bits per element
        ("kind", np.int8),  # Payload
        ("rd", np.int8),  # lies in on-chip memory: a consumer pays a load; TUPLE_RD in a tuple
    ],
    align=True,
)
"""One token (64 bytes): a FIFO slot, a private token, a buffered tile or a block header."""

TOKEN = np.dtype([("value", np.int64), ("form", np.int64)])
"""One token of a source: its value, and the slot that holds what else it carries."""

TUPLE_RD: Final = 2
"""``rd`` of a tuple whose members say themselves where they lie; 0 and 1 hold for all of them."""

CHANNEL = np.dtype(
    [
        ("start", np.int64),  # first slot of the ring
        ("mask", np.int64),  # ring length - 1 (a power of two minus one)
        ("cap", np.int64),  # logical capacity, INFINITY when unbounded
        ("sent", np.int64),
        ("removed", np.int64),
        ("grow_at", np.int64),  # value of ``sent`` at which the ring must be looked at
        ("look_at", np.int64),  # the same, or the depth where producers park
        ("hclose", np.int64),  # producer's pace when it ended
        ("wait_in", np.int64),  # cycles the consumer waited for tokens of this channel
        ("wait_out", np.int64),  # cycles the producer waited for a slot
        ("parks", np.int64),  # Parks
        ("looked", np.int64),  # clock at which a merge first waited for the next token
        ("producer", np.int32),
        ("consumer", np.int32),
        ("cwait", np.int32),  # 1: consumer is blocked here; 2 + i: it awaits a change of input i
        ("pwait", np.int8),  # 1: the producer is blocked here; 2: it is parked
        ("closed", np.int8),  # producer has ended
        ("gone", np.int8),  # consumer has ended
        ("keep", np.int8),  # keep every token: the ring is never reused
    ],
    align=True,
)

UNIT_FIELDS = [
    ("clk", np.int64),
    ("h", np.int64),  # pace clock
    ("visible", np.int64),  # the clock after the last primitive, without the work since
    ("last_pace", np.int64),  # at the last change of its pace: the pace before it,
    ("last_visible", np.int64),  # ``visible`` before it,
    ("last_clock", np.int64),  # and the clock after it
    ("watch", np.int64),  # the clock from which producers parked at its inputs look again
    ("evt", np.int64),  # time of the pending calendar entry
    ("busy", np.int64),
    ("before", np.int64),  # waits before the first firing
    ("memory", np.int64),  # waits for off-chip accesses
    ("after", np.int64),  # wait for the closure that ended the unit
    ("fires", np.int64),
    ("requests", np.int64),  # off-chip requests issued
    ("traffic", np.int64),  # useful off-chip bytes
    ("flops", np.int64),
    ("need", np.int64),  # requests of the access being asked for
    ("detail0", np.int64),  # numbers for the message of an abort
    ("detail1", np.int64),
    ("par", np.int32),  # first parameter
    ("scratch", np.int32),  # first word of private scratch space
    ("in0", np.int32),  # first input in the parameter array
    ("out0", np.int32),  # first output in the parameter array
    ("private", np.int32),  # first private slot
    ("changes", np.int32),  # changes of its pace in its ring so far
    ("log", np.int32),  # its ring of ``paces``, from 1; 0: its last change is kept; -1: none
    ("nin", np.int32),
    ("nout", np.int32),
    ("wait_channel", np.int32),
    ("hpos", np.int32),  # position in the calendar heap, -1 when absent
    ("port", np.int32),  # memory port, -1 for none
    ("kind", np.int16),
    ("pc", np.int16),  # resume point of the state machine
    ("error", np.int16),  # Abort
    ("state", np.int16),  # Status
]
"""What every unit has; the state words of its kind follow."""

PORT = np.dtype(
    [
        ("due", np.int64),  # next cycle in which what it issues changes, at first from nothing
        ("left", np.int64),  # requests of the access; once it began, of its last, short bundle
        ("bundle", np.int64),  # requests per bundle
        ("issues", np.int64),  # requests per cycle at present
        ("vmax", np.int64),  # latest response so far
        ("unit", np.int64),
    ],
    align=True,
)

GLOBAL = np.dtype(
    [
        ("work_head", np.int64),
        ("work_tail", np.int64),
        ("work_mask", np.int64),
        ("calendar_length", np.int64),
        ("steps", np.int64),
        ("pause_at", np.int64),  # return to the caller when steps + requests/8 pass this
        ("max_cycles", np.int64),
        ("limit_steps", np.int64),
        ("now", np.int64),  # latest calendar value served
        ("arena_top", np.int64),
        ("arena_end", np.int64),
        ("arena_need", np.int64),  # slots asked for when the arena ran out
        ("selectors", np.int64),  # parameter index of the table of selector lists
        ("onchip", np.int64),  # BW, bytes per cycle
        ("request_bytes", np.int64),
        ("slack", np.int64),
        ("tokens", np.int64),  # tokens sent on all channels
        ("memory_channels", np.int64),
        ("memory_interval", np.int64),
        ("memory_delay", np.int64),  # D = max(1, start-up + latency)
        ("memory_offset", np.int64),
        ("memory_now", np.int64),  # next arbiter cycle to run
        ("memory_active", np.int64),
        ("memory_pending", np.int64),
        ("memory_requests", np.int64),
        ("memory_steps", np.int64),  # explicit per-request steps, the rest was skipped over
        ("memory_model", np.int64),
        ("memory_words", np.int64),  # words of the table that a run begins with
        ("memory_cache", np.int64),  # words behind them
        ("pace_mask", np.int64),  # changes of pace kept of a unit, minus one
        ("calendar_end", np.int64),  # words of the calendar
        ("parks", np.int64),  # whether producers park
        ("parked", np.int64),  # those that are parked
        ("parked_until", np.int64),  # none of them has its clock before
        ("pace_words", np.int64),  # words for those of all units
        ("history", np.int8),  # keep every block: buffers and tuples are never freed
    ],
    align=True,
)


class State(NamedTuple):
    """All arrays of a run, the one argument that every kernel shares.

    Attributes
    ----------
    units, channels, slots, ports : records of UNIT, CHANNEL, SLOT and PORT.
    tokens : records of TOKEN, of all sources; never written, so that all runs share them.
    parameters : integer parameters, input and output lists and the selector lists of all units.
    scratch : private words of units.
    work_list : ring of unit numbers that are to be stepped.
    free_lists : first free block of the slot arena for every order.
    calendar : heap of unit numbers by the time at which they are due.
    pending, active : memory ports with an access that has not started, and that issue now.
    free_at : cycle from which every memory channel is free.
    memory_table : words of the memory model: those of its image, then its cache.
    paces : the latest changes of pace of every unit; see `stepsim.kernels.parking`.
    globals : the one GLOBAL record.
    """

    units: Any
    channels: Any
    slots: Any
    tokens: Any
    parameters: Any
    scratch: Any
    work_list: Any
    free_lists: Any
    calendar: Any
    ports: Any
    pending: Any
    active: Any
    free_at: Any
    memory_table: Any
    paces: Any
    globals: Any


def _tuple_of(name: str, fields: tuple[str, ...]) -> Any:
    # The type checker knows no named tuple of which the fields are not written out.
    return namedtuple(name, fields)


RecordedState = _tuple_of("RecordedState", (*State._fields, "journal"))
"""As :class:`State`, of a run that is recorded: behind it the words of
:mod:`stepsim.kernels.recording.journal`."""


class Payload(IntEnum):
    """What a token carries."""

    TILE = 0
    SELECTOR = 1
    BUFFER = 2
    ACK = 3
    TUPLE = 4


class Cause(IntEnum):
    """What an entry of the journal is: why a wait ended, or why the pace of a unit rose."""

    TOKEN = 0  # the token at the head of a FIFO arrived
    SLOT = 1  # a slot of a FIFO was freed
    CLOSURE = 2  # the producer of a FIFO ended
    MEMORY = 3  # an access was completed, issued when the wait began
    DECISION = 4  # the head of a FIFO was published, by which a choice by arrival falls
    PACKET = 5  # a packet came over the network on chip, or a message from another chip
    MARK = 6  # the clock came to where the producer of a head had parked
    EMISSION = 7  # no wait: a token was sent with a stamp in the future
    EXTRA = 8  # no wait: a number that belongs to the next entry
    ARRIVAL = 9  # no wait: a packet crossed the network on chip
    PORT = 10  # no wait: the last segment of the packet of the next ARRIVAL waited for a port
    FLITS = 11  # no wait: flits of a packet passed a port, one a cycle
    DELIVERY = 12  # no wait: a message came to its chip
    LINK = 13  # no wait: a message waited for a link between chips
    SENDING = 14  # no wait: a link between chips sent a message
    PACE_TOKEN = 15  # the head of a FIFO was published
    PACE_SLOT = 16
    PACE_CLOSURE = 17
    PACE_MEMORY = 18
    PACE_CLOCK = 19  # the pace caught up with the clock
    PACE_SCHEDULE = 20  # the time stated for a token of the source
    PACE_PARKED = 21  # the consumer came to where a producer that was parked waited for it
    PACE_WORK = 22  # the pace caught up with the clock of a producer that was parked
    PACE_MARK = 23  # as MARK


class Parks(IntEnum):
    """Whether producers of a FIFO park at it when it is full, and what its consumer does."""

    NEVER = 0
    TAKES = 1
    PROBES = 2  # the consumer is a Reassemble
    MERGES = 3  # the consumer is an EagerMerge


class Status(IntEnum):
    """State of a unit, and what a step function returns."""

    READY = 0
    WAIT_INPUT = 1
    WAIT_OUTPUT = 2
    WAIT_MEMORY = 3
    WAIT_DECISION = 4
    DONE = 5
    FAILED = 6
    NO_SPACE = 7  # the slot arena is full: grow it and step again
    PARKED = 8  # there is a slot, but the consumer took its token at a later pace
    NO_PACES = 9  # too few changes of pace are kept: keep more and run again


class RunState(IntEnum):
    """Why the engine returned to its caller."""

    FINISHED = 0
    PAUSED = 1
    NO_SPACE = 2
    CYCLE_LIMIT = 3
    STEP_LIMIT = 4
    STOPPED = 5  # a run of a batch has ended, and the caller is to look at it
    NO_PACES = 6  # too few changes of pace are kept: keep more and begin again


class Abort(IntEnum):
    """Why a unit failed."""

    NONE = 0
    CONSUMER_GONE = 1
    ONE_INPUT_CLOSED = 2
    LEVELS_DIFFER = 3
    LEVEL_NOT_ALLOWED = 4
    NOT_ONE_HOT = 5
    EMPTY_SELECTION = 6
    EMPTY_INNER = 7
    REFERENCE_CLOSED = 8
    NEEDS_PAD = 9
    DATA_CLOSED = 10
    BUFFER_OPEN = 11
    BUFFER_RAGGED = 12
    TILE_SHAPE = 13
    ELEMENT_WIDTH = 14
    INNER_DIMS = 15
    NOT_BROADCASTABLE = 16
    NO_ROOM = 17
    TILE_TOO_LARGE = 18
    PAYLOAD = 19
    SELECTOR_WIDTH = 21
    PARTLY_VALID = 22
    OFFSET_RANGE = 23
    TOO_MUCH_WORK = 24
    NO_LAST_TILE = 25
    ADDRESS_RANGE = 26
    BUFFER_RANGE = 27
    NEGATIVE = 28
    GROUP_OPEN = 29
    MASK_ROWS = 30
    TOO_MANY_PIECES = 31
    NUMBER_RANGE = 32
    GROUP_LENGTH = 40
    SELECTOR_VALUE = 41
