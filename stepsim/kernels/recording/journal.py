"""The journal of a run: every wait of every unit, in the order in which they ended.

Units work between two waits, so that the waits alone show what a unit did at any time. Kernels call
:func:`note` where a wait moves a clock; only the engine that is compiled for a
:class:`~stepsim.kernels.layout.RecordedState` contains what it does, for
:func:`~stepsim.kernels.recording.flag.is_recording` is a constant to the compiler.

An entry is two words: the clock behind the wait; and its length, place and :class:`Cause`. The
place is the number of a FIFO, or of the unit for an access of the memory and a packet of the
network on chip: together with the cause it says whose wait it was. What does not fit is in an entry
of cause ``EXTRA`` before: the requests of an access, and the length of a wait that is written as 0.

A network on chip notes for every packet, when it arrives, the waits of its last segment for ports,
and then the packet itself, from its creation to the cycle behind its arrival; and for every port on
its way the cycles in which its flits passed, where these follow each other as one entry. The place
is the number of a route, of a port (`place_of_port`) that of a port of a route.

A network between chips notes at every link of a message how long the message waited for it, and how
long the link sent it; and when the message arrived. The place is the number of the link on its
route, of the arrival that of the route. An entry of cause ``EXTRA`` before says which message it
is: its route and its slot, which is that of no other message up to its arrival. All these entries
are a cycle longer than what they say, since an entry of length 0 is a long one.

On demand the pace of units is noted too: whenever it rises, and why.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.kernels.build.jit import cold, inlined
from stepsim.kernels.layout import Cause
from stepsim.kernels.recording.flag import is_recording, journal_of

FILLED: Final = 0
"""Word that counts the words filled, this one and the next included."""
FULL: Final = 1
"""Word that says from how many on a unit stops, for another piece of memory."""
PACES: Final = 2
"""Word that says whether the pace of units is noted."""
FIRST: Final = 4
"""First word of the first entry."""

CAUSE_BITS: Final = 5
LENGTH_SHIFT: Final = 32
MOST_PLACES: Final = 1 << (LENGTH_SHIFT - CAUSE_BITS)
"""FIFOs or units that an image may have to be recorded."""
PORT_BITS: Final = 8
"""Bits of the place of a port on a route."""
LONGEST: Final = (1 << 31) - 1
"""Longest wait that fits one entry."""

WORDS_OF_SLOT: Final = 28
"""Words that a step may fill for a slot of a ring, from one look at the journal to the next. A step
sends at most a token for each, which waits, raises the pace and is late; and takes one that was
there and, where the unit feeds itself, one that it sent, which wait and raise the pace. An entry is
two words, and two more where it is long."""

WORDS_OF_EVENT: Final = 4 * ((1 << (2 * PORT_BITS - 2)) + (1 << (PORT_BITS + 2)))
"""Words that an event of a network on chip may fill: for every reader of a tree, which has so many
ports and readers together, the waits for all ports and the arrival; and the flits of two segments
at all ports."""


WORDS_OF_MESSAGE: Final = 16
"""Words that an event of a network between chips may fill: an arrival, or a wait for a link and the
time for which it sends."""

_SLOT_BITS: Final = 32
"""Bits of the slot of a message, behind its route."""


@cold
def _extra(journal, number):
    at = journal[FILLED]
    journal[at] = number
    journal[at + 1] = Cause.EXTRA
    journal[FILLED] = at + 2


@inlined
def _write(journal, cause, place, end, length):
    if length > LONGEST:
        _extra(journal, length)
        length = 0
    at = journal[FILLED]
    journal[at] = end
    journal[at + 1] = (length << LENGTH_SHIFT) | (place << CAUSE_BITS) | cause
    journal[FILLED] = at + 2


@inlined
def note(state, cause, place, end, length):
    """A wait of ``length > 0`` cycles that ended at clock ``end``."""
    if is_recording(state):
        _write(journal_of(state), cause, place, end, length)


@inlined
def note_access(state, unit, port, end, length, requests):
    """The wait of ``unit`` for an access of so many requests, issued where it began; without a
    ``port`` of the memory, for a packet, which may be there already."""
    if is_recording(state):
        if port >= 0:
            _extra(journal_of(state), requests)
            _write(journal_of(state), Cause.MEMORY, unit, end, length)
        elif length > 0:
            _write(journal_of(state), Cause.PACKET, unit, end, length)


@inlined
def place_of_port(route, hop):
    """The place of entries on the port of a route that its packets take as the ``hop``-th."""
    return (route << PORT_BITS) | hop


@inlined
def note_message(state, cause, route, slot, place, end, length):
    """What a message of a route did for ``length`` cycles up to ``end``."""
    if is_recording(state):
        _extra(journal_of(state), (np.int64(route) << _SLOT_BITS) | slot)
        _write(journal_of(state), cause, place, end + 1, length + 1)


def route_of_message(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The routes of messages by their numbers."""
    return numbers >> _SLOT_BITS


@inlined
def note_late(state, c, clock, when):
    """A token was sent at ``clock`` with a time ``when`` in the future; those after the next cycle
    are noted, for others the stamp gives the clock."""
    if is_recording(state):
        if when > clock + 1:
            _write(journal_of(state), Cause.EMISSION, c, clock, when - clock)


@inlined
def note_pace(state, cause, place, before, after):
    """The pace of a unit rises, if ``after`` is later than ``before``."""
    if is_recording(state):
        if after > before:
            journal = journal_of(state)
            if journal[PACES] != 0:
                _write(journal, cause, place, after, after - before)


@inlined
def is_full(state):
    """Whether the journal needs another piece of memory before a unit goes on.

    It is asked before every step, and where a ring may have to grow. There is room left for all
    that a unit may note from one time to the next.
    """
    if is_recording(state):
        journal = journal_of(state)
        return journal[FILLED] > journal[FULL]
    return False


@inlined
def keep_room(state, slots):
    """Rings have so many slots more."""
    if is_recording(state):
        journal_of(state)[FULL] -= WORDS_OF_SLOT * slots
