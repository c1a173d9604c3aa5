"""One channel of a DRAM and its controller, exact to the cycle.

First-ready scheduling over commands, after the rules of the HBM2 configuration of Ramulator 2.0
that the STeP paper's hardware was validated with: a read queue and a write queue, of which a mode
bit selects one; a list of requests whose row was opened for them, which goes first; reads that
return in the order of their commands, one per cycle; reads of what waits to be written are answered
from the write queue.

How to use it
-------------
``words = dram_words(spec, returns)`` (:mod:`stepsim.kernels.dram.table`) is the one array of all
channels. In cycle ``c = 0, 1, ...`` first send, then tick every channel with clock ``c + 1``, then
take what has returned::

    channel = locate(words, address)  # of stepsim.kernels.dram.address
    accepted = send(words, channel, c, address, write, tag)  # REFUSED 0, QUEUED 1, FORWARDED 2
    command = tick(words, channel, c + 1)  # NOTHING 0, ACT 1, PRE 2, RD 3, WR 4, REF 5
    tag = returned(words, channel, c + 1)  # of a read, or -1

* ``write`` is 0 or 1, ``tag`` any number >= 0 that `returned` gives back. Writes never return.
* A refused request has no effect; send it again in a later cycle. Whether it would be refused can
  be asked first: ``is_full(words, channel, write)`` (a read of what waits to be written is accepted
  nevertheless). A read is also refused when more than ``returns`` reads of the channel are
  outstanding, which the issuer has to prevent: the rules know no such bound.
* Every clock need not be ticked. ``next_clock(words, channel)`` is the next clock whose tick or
  return does anything unless something is sent before (INFINITY for none); `next_command` and
  `next_return` are its two halves. Ticks before it may be left out, ticks at it may not, and clocks
  never go back. After a send ask anew.
* After a tick that issued a command, ``issued_tag(words, channel)`` is the request's tag;
  ``words[channel_at(words, channel) + ISSUED_BANK]`` and ISSUED_ROW, ISSUED_ACCEPTED (cycle),
  ISSUED_IS_WRITE hold the rest. ``commands(words, channel, kind)`` counts them from the start.
* All clocks have to be below 2**61, and tags and addresses are 64-bit numbers.

Kernels, to be called from kernels; Python calls them as functions. ``words`` may also be a column
of the engine's state in which this table comes first.
"""

from __future__ import annotations

from typing import Final

from stepsim.kernels.build.bits import lowest
from stepsim.kernels.build.jit import inlined, kernel
from stepsim.kernels.dram.address import bank_of, row_of
from stepsim.kernels.dram.choice import find_activated, find_candidate, is_activated, will_flip
from stepsim.kernels.dram.commands import (
    ACT,
    NOTHING,
    PRE,
    RD,
    REF,
    WR,
    access,
    activate,
    note_issued,
    precharge,
    will_return,
)
from stepsim.kernels.dram.places import channel_at, group_of, pseudo_of
from stepsim.kernels.dram.refresh import refresh
from stepsim.kernels.dram.sets import compact, is_forwarded, leave
from stepsim.kernels.dram.table import (
    ACCEPTED,
    ACTIVATED,
    ACTIVATED_AT,
    ACTIVATED_CLOCK,
    ACTIVATED_PLACE,
    ACTIVATED_WORDS,
    ADDRESS,
    BANK,
    BANK_AT,
    BANK_BITS,
    BANK_NEXT,
    BANK_NEXT_ACT,
    BANK_NEXT_PRE,
    BANK_WORDS,
    CANDIDATE,
    CANDIDATE_CLOCK,
    CLOSED,
    COUNTS,
    DUE_REFRESH,
    ENTRIES,
    FORWARDED as FORWARDED_READS,
    GROUP_BITS,
    HITS,
    INFINITY,
    IS_STALE,
    ISSUED_TAG,
    MODE,
    NEXT,
    NEXT_ACT,
    NEXT_PRE,
    OPEN_ROW,
    PSEUDO_BANKS,
    PSEUDO_NEXT,
    QUEUE_WORDS,
    READ,
    READ_ENTRIES,
    REFRESH_INTERVAL,
    REQUESTS,
    RING_AT,
    RING_HEAD,
    RING_MASK,
    RING_TAIL,
    ROW,
    SLOT_AT,
    SLOTS,
    TAG,
    TAIL,
    UNTOUCHED,
    VALID,
    WRITE,
)

__all__ = [
    "ACT", "FORWARDED", "NOTHING", "PRE", "QUEUED", "RD", "REF", "REFUSED", "WR", "channel_at",
    "commands", "forwarded_reads", "is_full", "issued_tag", "next_clock", "next_command",
    "next_return", "returned", "send", "tick",
]  # fmt: skip

REFUSED: Final = 0
QUEUED: Final = 1
FORWARDED: Final = 2


@inlined
def next_command(words, channel):
    """The clock of the next tick that may issue a command or change the mode."""
    return words[channel_at(words, channel) + NEXT]


@inlined
def next_return(words, channel):
    """When the next read returns, of those whose command was issued or that were forwarded."""
    at = channel_at(words, channel)
    head = words[at + RING_HEAD]
    if head == words[at + RING_TAIL]:
        return INFINITY
    return words[at + words[RING_AT] + 2 * (head & words[RING_MASK])]


@inlined
def next_clock(words, channel):
    """The clock of the next tick that can do anything."""
    return min(next_command(words, channel), next_return(words, channel))


@inlined
def returned(words, channel, clock):
    """The tag of the read that returns at a clock, at most one; -1 for none."""
    at = channel_at(words, channel)
    head = words[at + RING_HEAD]
    if head == words[at + RING_TAIL]:
        return -1
    place = at + words[RING_AT] + 2 * (head & words[RING_MASK])
    if words[place] > clock:
        return -1
    words[at + RING_HEAD] = head + 1
    return words[place + 1]


@inlined
def issued_tag(words, channel):
    """The tag of the request whose command was issued last; -1 for a refresh."""
    return words[channel_at(words, channel) + ISSUED_TAG]


@inlined
def commands(words, channel, kind):
    """How many commands of a kind were issued so far."""
    return words[channel_at(words, channel) + COUNTS + kind]


@inlined
def forwarded_reads(words, channel):
    """How many reads were answered from the write queue so far."""
    return words[channel_at(words, channel) + FORWARDED_READS]


@inlined
def is_full(words, channel, write):
    """Whether the queue of reads, or of writes, takes no more."""
    return words[channel_at(words, channel) + ENTRIES + write] >= words[READ_ENTRIES + write]


@inlined
def _has_room(words, at):
    # In the ring, with what is needed for the reads that are queued.
    waiting = words[at + RING_TAIL] - words[at + RING_HEAD]
    return waiting + words[at + ENTRIES + READ] + words[at + ACTIVATED] <= words[RING_MASK]


@kernel
def send(words, channel, cycle, address, write, tag):
    """Offer a request in a cycle, before the tick with the clock after it.

    Returns QUEUED, FORWARDED (a read that the write queue answers) or REFUSED.
    """
    at = channel_at(words, channel)
    if words[at + MODE] == UNTOUCHED:
        # Every channel ticks from clock 1 on, and without reads that means write mode.
        words[at + MODE] = READ if cycle == 0 else WRITE
    if write == 0:
        if words[at + ENTRIES + WRITE] > 0 and is_forwarded(words, at, address):
            if not _has_room(words, at):
                return REFUSED
            will_return(words, at, cycle + 1, tag)
            words[at + FORWARDED_READS] += 1
            return FORWARDED
        if not _has_room(words, at):
            return REFUSED
    if words[at + ENTRIES + write] >= words[READ_ENTRIES + write]:
        return REFUSED
    if words[at + TAIL + write] == SLOTS:
        compact(words, at, write)
    slot = words[at + TAIL + write]
    bit = 1 << slot
    bank = bank_of(words, address)
    row = row_of(words, address)
    slots = at + SLOT_AT + write * QUEUE_WORDS + slot
    words[slots + ROW] = row
    words[slots + BANK] = bank
    words[slots + ACCEPTED] = cycle
    words[slots + TAG] = tag
    words[slots + ADDRESS] = address
    words[at + TAIL + write] = slot + 1
    words[at + VALID + write] |= bit
    words[at + ENTRIES + write] += 1
    of_bank = at + words[BANK_AT] + bank * BANK_WORDS
    pseudo = pseudo_of(words, at, bank)
    words[of_bank + REQUESTS + write] |= bit
    in_pseudo = bank & ((1 << (words[BANK_BITS] + words[GROUP_BITS])) - 1)
    words[pseudo + PSEUDO_BANKS + write] |= 1 << in_pseudo
    open_row = words[of_bank + OPEN_ROW]
    if open_row == row:
        words[of_bank + HITS + write] |= bit

    # When the next command is due, unless that has to be found anew at once anyway.
    mode = words[at + MODE]
    if words[at + IS_STALE] != 0 or words[REFRESH_INTERVAL] != 0 or will_flip(words, at, mode):
        words[at + IS_STALE] = 1
        words[at + NEXT] = min(words[at + NEXT], cycle + 1)
    elif mode == write:
        clock = cycle + 1
        group = group_of(words, at, bank)
        if open_row == row:
            clock = max(clock, words[of_bank + BANK_NEXT + write])
            clock = max(clock, words[group + 1 + write])
            clock = max(clock, words[pseudo + PSEUDO_NEXT + write])
        elif open_row == CLOSED:
            clock = max(clock, words[of_bank + BANK_NEXT_ACT])
            clock = max(clock, words[group])
            clock = max(clock, words[pseudo])
            clock = max(clock, words[at + NEXT_ACT])
        else:
            clock = max(clock, words[of_bank + BANK_NEXT_PRE])
            clock = max(clock, words[at + NEXT_PRE])
        # Of those that are ready at the same clock the oldest goes, which this one is not.
        if clock < words[at + CANDIDATE_CLOCK]:
            words[at + CANDIDATE_CLOCK] = clock
            words[at + CANDIDATE] = bit
            words[at + NEXT] = min(words[at + NEXT], clock)
    return QUEUED


@inlined
def _issue_activated(words, at, clock):
    # The command of the request of the activated list that goes now; its kind.
    entry = at + words[ACTIVATED_AT] + words[at + ACTIVATED_PLACE] * ACTIVATED_WORDS
    accepted = words[entry]
    tag = words[entry + 1]
    bank = words[entry + 2]
    write = words[entry + 3]
    command = access(words, at, clock, bank, write, tag)
    words[at + ACTIVATED] -= 1
    last = at + words[ACTIVATED_AT] + words[at + ACTIVATED] * ACTIVATED_WORDS
    while entry < last:  # in the order of activation
        for k in range(ACTIVATED_WORDS):
            words[entry + k] = words[entry + ACTIVATED_WORDS + k]
        entry += ACTIVATED_WORDS
    row = words[at + words[BANK_AT] + bank * BANK_WORDS + OPEN_ROW]
    note_issued(words, at, command, bank, row, accepted, write, tag)
    return command


@inlined
def _issue_candidate(words, at, clock):
    # The command of the request of the queue that goes now; its kind, or NOTHING if it must not.
    queue = words[at + MODE]
    slot = lowest(words[at + CANDIDATE])
    slots = at + SLOT_AT + queue * QUEUE_WORDS + slot
    bank = words[slots + BANK]
    row = words[slots + ROW]
    tag = words[slots + TAG]
    accepted = words[slots + ACCEPTED]
    open_row = words[at + words[BANK_AT] + bank * BANK_WORDS + OPEN_ROW]
    if open_row == row:
        command = access(words, at, clock, bank, queue, tag)
        leave(words, at, queue, slot, bank)
    elif open_row == CLOSED:
        command = ACT
        leave(words, at, queue, slot, bank)
        activate(words, at, clock, bank, row)
        entry = at + words[ACTIVATED_AT] + words[at + ACTIVATED] * ACTIVATED_WORDS
        words[entry] = accepted
        words[entry + 1] = tag
        words[entry + 2] = bank
        words[entry + 3] = queue
        words[at + ACTIVATED] += 1
    else:
        if is_activated(words, at, bank):
            return NOTHING
        command = PRE
        precharge(words, at, clock, bank)
    note_issued(words, at, command, bank, row, accepted, queue, tag)
    return command


@kernel
def tick(words, channel, clock):
    """Let a clock pass; the kind of the command that is issued at it, NOTHING for none."""
    at = channel_at(words, channel)
    if words[at + MODE] == UNTOUCHED:
        # As all channels from clock 1 on.
        words[at + MODE] = WRITE
    if clock < words[at + NEXT]:
        return NOTHING
    is_waiting = False
    next_chance = INFINITY
    if clock >= words[at + DUE_REFRESH]:
        done = refresh(words, at, clock)
        if done == REF:
            words[at + IS_STALE] = 1
            words[at + NEXT] = clock + 1
            return REF
        if done < 0:
            is_waiting = True
            next_chance = -done
        words[at + IS_STALE] = 1
    if words[at + IS_STALE] != 0:
        find_activated(words, at, clock)
    if words[at + ACTIVATED_CLOCK] <= clock:
        words[at + IS_STALE] = 1
        words[at + NEXT] = clock + 1
        return _issue_activated(words, at, clock)
    if is_waiting:
        words[at + NEXT] = min(next_chance, words[at + ACTIVATED_CLOCK])
        return NOTHING
    if words[at + IS_STALE] != 0:
        if will_flip(words, at, words[at + MODE]):
            words[at + MODE] = 1 - words[at + MODE]
        find_candidate(words, at, words[at + MODE], clock)
        words[at + IS_STALE] = 0
    if words[at + CANDIDATE_CLOCK] <= clock:
        words[at + IS_STALE] = 1
        words[at + NEXT] = clock + 1
        return _issue_candidate(words, at, clock)
    after = min(words[at + ACTIVATED_CLOCK], words[at + CANDIDATE_CLOCK])
    if after < INFINITY or words[at + ENTRIES + READ] + words[at + ENTRIES + WRITE] > 0:
        after = min(after, words[at + DUE_REFRESH])
    words[at + NEXT] = after
    return NOTHING
