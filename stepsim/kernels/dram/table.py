"""The table of a DRAM: one array of int64 words with all of its description and all of its state.

A header by name, then every channel's words: what is said of the channel as a whole, its
pseudo-channels, bank groups and banks, the activated list, the slots of both queues, and the ring
of reads that wait for their data. All clocks are in cycles of the DRAM.

A queue is 62 slots in the order of acceptance, so that a set of its requests is one word and the
oldest of a set is its lowest bit. Every bank has a word for the requests of a queue that go to it,
and one for those of them whose row is open.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepsim.frozen import frozen

MAPPERS: Final = ("RoBaRaCoCh", "ChRaBaRoCo", "MOP4CLXOR")
"""Address mappers by their number."""

INFINITY: Final = 1 << 62
READ: Final = 0
WRITE: Final = 1
UNTOUCHED: Final = 2  # the mode of a channel that was sent nothing
CLOSED: Final = -1  # instead of the row of an open bank

# Words of the header.
WORDS: Final = 0
CHANNELS: Final = 1
CHANNEL_AT: Final = 2  # of channel 0
CHANNEL_WORDS: Final = 3
MAPPER: Final = 4
CHANNEL_SHIFT: Final = 5
CHANNEL_MASK: Final = 6
COLUMN_SHIFT: Final = 7
COLUMN_MASK: Final = 8
PSEUDO_SHIFT: Final = 9
PSEUDO_MASK: Final = 10
GROUP_SHIFT: Final = 11
GROUP_MASK: Final = 12
BANK_SHIFT: Final = 13
BANK_MASK: Final = 14
ROW_SHIFT: Final = 15
ROW_MASK: Final = 16
COLUMN_HIGH_SHIFT: Final = 17  # MOP4CLXOR only
CHANNEL_BITS: Final = 18
PSEUDO_BITS: Final = 19
GROUP_BITS: Final = 20
BANK_BITS: Final = 21
ROW_BITS: Final = 22
PSEUDO_CHANNELS: Final = 23
# Least distances of two commands.
CHANNEL_ACT_ACT: Final = 24
CHANNEL_ACT_PRE: Final = 25
PSEUDO_ACT_ACT: Final = 26
PSEUDO_ACT_WINDOW: Final = 27
PSEUDO_RD_RD: Final = 28
PSEUDO_RD_WR: Final = 29
PSEUDO_WR_RD: Final = 30
PSEUDO_WR_WR: Final = 31
GROUP_ACT_ACT: Final = 32
GROUP_RD_RD: Final = 33
GROUP_WR_RD: Final = 34
GROUP_WR_WR: Final = 35
BANK_ACT_ACT: Final = 36
BANK_ACT_PRE: Final = 37
BANK_ACT_RD: Final = 38
BANK_ACT_WR: Final = 39
BANK_PRE_ACT: Final = 40
BANK_RD_PRE: Final = 41
BANK_WR_PRE: Final = 42
READ_DELAY: Final = 43
READ_ENTRIES: Final = 44
WRITE_ENTRIES: Final = 45
HIGH: Final = 46
LOW: Final = 47
REFRESH_INTERVAL: Final = 48  # 0: no refresh
REFRESH_CYCLES: Final = 49
RING_MASK: Final = 50
PSEUDO_AT: Final = 51  # places of the parts, from the first word of a channel
GROUP_AT: Final = 52
BANK_AT: Final = 53
ACTIVATED_AT: Final = 54
RING_AT: Final = 55
HEADER: Final = 64

# Words of a channel.
MODE: Final = 0
IS_STALE: Final = 1  # mode and next command have to be found anew in the next tick
NEXT: Final = 2  # clock of the next tick that can issue a command
CANDIDATE_CLOCK: Final = 3  # when the oldest request that is ready first is ready
CANDIDATE: Final = 4  # its bit
ACTIVATED_CLOCK: Final = 5  # the same of the activated list
ACTIVATED_PLACE: Final = 6
ACTIVATED: Final = 7  # how many there are
NEXT_ACT: Final = 8
NEXT_PRE: Final = 9
RING_HEAD: Final = 10
RING_TAIL: Final = 11
LAST_RETURN: Final = 12
DUE_REFRESH: Final = 13
COUNTS: Final = 14  # of commands, by kind
FORWARDED: Final = 20
ISSUED_TAG: Final = 21  # of the request whose command was issued last
ISSUED_BANK: Final = 22
ISSUED_ROW: Final = 23
ISSUED_ACCEPTED: Final = 24
ENTRIES: Final = 25  # of the read queue, then of the write queue
TAIL: Final = 27  # first slot behind the youngest request, of both
VALID: Final = 29  # set of the requests, of both
ISSUED_IS_WRITE: Final = 31
SLOT_AT: Final = 32

SLOTS: Final = 62  # bits of a set; the sign stays clear
ROW: Final = 0  # parts of the slots of a queue
BANK: Final = 64
ACCEPTED: Final = 128
TAG: Final = 192
ADDRESS: Final = 256
QUEUE_WORDS: Final = 320

PSEUDO_WORDS: Final = 10  # next ACT, RD, WR; set of banks in the read and the write queue; window
PSEUDO_NEXT: Final = 1  # plus READ or WRITE
PSEUDO_BANKS: Final = 3
PSEUDO_WINDOW: Final = 5  # four stamps and the place of the oldest
GROUP_WORDS: Final = 3  # next ACT, RD, WR
BANK_WORDS: Final = 9
OPEN_ROW: Final = 0
BANK_NEXT_ACT: Final = 1
BANK_NEXT_PRE: Final = 2
BANK_NEXT: Final = 3  # plus READ or WRITE
REQUESTS: Final = 5  # plus READ or WRITE
HITS: Final = 7

ACTIVATED_WORDS: Final = 4  # acceptance, tag, bank, whether a write

MOST_ENTRIES: Final = SLOTS - 2
"""Requests that a queue may hold: a full queue must leave slots, or every request moves all."""

LONG_AGO: Final = -(1 << 40)


@frozen
class DramSpec:
    """A DRAM in whole numbers; sizes are powers of two, times are cycles of its clock.

    Attributes
    ----------
    channels, pseudo_channels, bank_groups, banks : how many in each of the next larger ones.
    rows : of a bank.
    columns : accesses in a row.
    access_bytes : bytes of one access.
    mapper : number in :data:`MAPPERS`.
    channel_act_act, ... : least distance of two commands within a scope, ``scope_first_second``;
        ``pseudo_act_window`` is that of an ACT and the fourth after it.
    read_delay : from RD to the return of the data.
    read_entries, write_entries : requests that a queue holds.
    high : writes that wait from which on writes are served; low : at most so many for reads to be
        served again.
    refresh_interval : cycles between refreshes, 0 for none. refresh_cycles : that one takes.
    """

    channels: int
    pseudo_channels: int
    bank_groups: int
    banks: int
    rows: int
    columns: int
    access_bytes: int
    mapper: int
    channel_act_act: int
    channel_act_pre: int
    pseudo_act_act: int
    pseudo_act_window: int
    pseudo_rd_rd: int
    pseudo_rd_wr: int
    pseudo_wr_rd: int
    pseudo_wr_wr: int
    group_act_act: int
    group_rd_rd: int
    group_wr_rd: int
    group_wr_wr: int
    bank_act_act: int
    bank_act_pre: int
    bank_act_rd: int
    bank_act_wr: int
    bank_pre_act: int
    bank_rd_pre: int
    bank_wr_pre: int
    read_delay: int
    read_entries: int
    write_entries: int
    high: int
    low: int
    refresh_interval: int = 0
    refresh_cycles: int = 0


_DISTANCES: Final = [
    each.name
    for each in fields(DramSpec)
    if each.name.startswith(("channel_", "pseudo_act", "pseudo_rd", "pseudo_wr", "group_", "bank_"))
    and each.name != "bank_groups"
]


def dram_words(spec: DramSpec, returns: int = 4096) -> NDArray[np.int64]:
    """The table of a DRAM before its first cycle.

    Parameters
    ----------
    spec : a valid description.
    returns : reads of one channel that may wait for their data at least; `send` refuses a read
        that finds as many. The rules know no such bound, so let it be the reads that the issuer
        may have outstanding, or the reads of the whole run.
    """
    ring = 1 << max(5, (returns + spec.read_delay + 2 - 1).bit_length())
    pseudo = spec.pseudo_channels
    groups = pseudo * spec.bank_groups
    banks = groups * spec.banks
    header = np.zeros(HEADER, np.int64)
    at = SLOT_AT + 2 * QUEUE_WORDS
    for word, size in (
        (PSEUDO_AT, pseudo * PSEUDO_WORDS), (GROUP_AT, groups * GROUP_WORDS),
        (BANK_AT, banks * BANK_WORDS), (ACTIVATED_AT, banks * ACTIVATED_WORDS),
        (RING_AT, 2 * ring),
    ):  # fmt: skip
        header[word] = at
        at += size
    header[CHANNELS], header[CHANNEL_AT], header[CHANNEL_WORDS] = spec.channels, HEADER, at
    header[WORDS] = HEADER + spec.channels * at
    header[RING_MASK] = ring - 1
    _place_fields(header, spec)
    header[PSEUDO_CHANNELS] = pseudo
    for place, name in enumerate(_DISTANCES, CHANNEL_ACT_ACT):
        header[place] = getattr(spec, name)
    header[READ_DELAY] = spec.read_delay
    header[READ_ENTRIES], header[WRITE_ENTRIES] = spec.read_entries, spec.write_entries
    header[HIGH], header[LOW] = spec.high, spec.low
    header[REFRESH_INTERVAL], header[REFRESH_CYCLES] = spec.refresh_interval, spec.refresh_cycles

    channel = np.zeros(at, np.int64)
    channel[MODE] = UNTOUCHED
    channel[[NEXT, CANDIDATE_CLOCK, ACTIVATED_CLOCK]] = INFINITY
    channel[[NEXT_ACT, NEXT_PRE, LAST_RETURN]] = LONG_AGO
    channel[DUE_REFRESH] = spec.refresh_interval or INFINITY
    channel[ISSUED_TAG] = -1
    for p in range(pseudo):
        place = header[PSEUDO_AT] + p * PSEUDO_WORDS
        channel[place : place + PSEUDO_BANKS] = LONG_AGO
        channel[place + PSEUDO_WINDOW : place + PSEUDO_WINDOW + 4] = LONG_AGO
    channel[header[GROUP_AT] : header[GROUP_AT] + groups * GROUP_WORDS] = LONG_AGO
    for b in range(banks):
        place = header[BANK_AT] + b * BANK_WORDS
        channel[place + OPEN_ROW] = CLOSED
        channel[place + BANK_NEXT_ACT : place + REQUESTS] = LONG_AGO
    return np.concatenate([header, np.tile(channel, spec.channels)])


def _place_fields(header: NDArray[np.int64], spec: DramSpec) -> None:
    """Where the fields of an address are."""
    widths = {
        "channel": _bits(spec.channels), "pseudo": _bits(spec.pseudo_channels),
        "group": _bits(spec.bank_groups), "bank": _bits(spec.banks), "row": _bits(spec.rows),
        "column": _bits(spec.columns),
    }  # fmt: skip
    name = MAPPERS[spec.mapper]
    low_columns = 0
    if name == "RoBaRaCoCh":
        order = ["channel", "column", "pseudo", "group", "bank", "row"]
    elif name == "ChRaBaRoCo":
        order = ["column", "row", "bank", "group", "pseudo", "channel"]
    else:
        order = ["low", "channel", "pseudo", "group", "bank", "high", "row"]
        low_columns = min(2, widths["column"])
        widths |= {"low": low_columns, "high": widths["column"] - low_columns}
    shift = _bits(spec.access_bytes)
    shifts = {}
    for field in order:
        shifts[field] = shift
        shift += widths[field]
    header[MAPPER] = spec.mapper
    places = (
        ("channel", CHANNEL_SHIFT), ("pseudo", PSEUDO_SHIFT), ("group", GROUP_SHIFT),
        ("bank", BANK_SHIFT), ("row", ROW_SHIFT),
    )  # fmt: skip
    for field, place in places:
        header[place], header[place + 1] = shifts[field], (1 << widths[field]) - 1
    if name == "MOP4CLXOR":
        header[COLUMN_SHIFT], header[COLUMN_MASK] = shifts["low"], (1 << low_columns) - 1
        header[COLUMN_HIGH_SHIFT] = shifts["high"]
        # The row is all that is left of an address of 64 bits.
        header[ROW_MASK] = (1 << (64 - shifts["row"])) - 1
    else:
        header[COLUMN_SHIFT], header[COLUMN_MASK] = shifts["column"], spec.columns - 1
    for field, place in (
        ("channel", CHANNEL_BITS), ("pseudo", PSEUDO_BITS), ("group", GROUP_BITS),
        ("bank", BANK_BITS), ("row", ROW_BITS),
    ):  # fmt: skip
        header[place] = widths[field]


def _bits(size: int) -> int:
    return size.bit_length() - 1
