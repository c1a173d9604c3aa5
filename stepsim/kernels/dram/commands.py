"""What commands change: rows, what may follow when, reads that will return."""

from __future__ import annotations

from typing import Final

from stepsim.kernels.build.jit import inlined
from stepsim.kernels.dram.places import group_of, pseudo_of
from stepsim.kernels.dram.sets import hits_of
from stepsim.kernels.dram.table import (
    BANK_ACT_ACT,
    BANK_ACT_PRE,
    BANK_ACT_RD,
    BANK_ACT_WR,
    BANK_AT,
    BANK_NEXT,
    BANK_NEXT_ACT,
    BANK_NEXT_PRE,
    BANK_PRE_ACT,
    BANK_RD_PRE,
    BANK_WORDS,
    BANK_WR_PRE,
    CHANNEL_ACT_ACT,
    CHANNEL_ACT_PRE,
    CLOSED,
    COUNTS,
    GROUP_ACT_ACT,
    GROUP_RD_RD,
    GROUP_WR_RD,
    GROUP_WR_WR,
    HITS,
    ISSUED_ACCEPTED,
    ISSUED_BANK,
    ISSUED_IS_WRITE,
    ISSUED_ROW,
    ISSUED_TAG,
    LAST_RETURN,
    NEXT_ACT,
    NEXT_PRE,
    OPEN_ROW,
    PSEUDO_ACT_ACT,
    PSEUDO_ACT_WINDOW,
    PSEUDO_NEXT,
    PSEUDO_RD_RD,
    PSEUDO_RD_WR,
    PSEUDO_WINDOW,
    PSEUDO_WR_RD,
    PSEUDO_WR_WR,
    READ,
    READ_DELAY,
    REQUESTS,
    RING_AT,
    RING_MASK,
    RING_TAIL,
    WRITE,
)

NOTHING: Final = 0
ACT: Final = 1
PRE: Final = 2
RD: Final = 3
WR: Final = 4
REF: Final = 5


@inlined
def will_return(words, at, due, tag):
    # One read returns per tick, in order, so that the clock of a return is known at once.
    tail = words[at + RING_TAIL]
    clock = max(due, words[at + LAST_RETURN] + 1)
    words[at + LAST_RETURN] = clock
    place = at + words[RING_AT] + 2 * (tail & words[RING_MASK])
    words[place] = clock
    words[place + 1] = tag
    words[at + RING_TAIL] = tail + 1


@inlined
def activate(words, at, clock, bank, row):
    # The bank opens a row.
    of_bank = at + words[BANK_AT] + bank * BANK_WORDS
    group = group_of(words, at, bank)
    pseudo = pseudo_of(words, at, bank)
    words[of_bank + OPEN_ROW] = row
    for queue in range(2):
        requests = words[of_bank + REQUESTS + queue]
        words[of_bank + HITS + queue] = hits_of(words, at, queue, requests, row)
    words[of_bank + BANK_NEXT_ACT] = max(
        words[of_bank + BANK_NEXT_ACT], clock + words[BANK_ACT_ACT]
    )
    words[of_bank + BANK_NEXT_PRE] = max(
        words[of_bank + BANK_NEXT_PRE], clock + words[BANK_ACT_PRE]
    )
    words[of_bank + BANK_NEXT + READ] = clock + words[BANK_ACT_RD]
    words[of_bank + BANK_NEXT + WRITE] = clock + words[BANK_ACT_WR]
    words[group] = clock + words[GROUP_ACT_ACT]
    window = pseudo + PSEUDO_WINDOW
    oldest = words[window + 4]
    words[window + oldest] = clock
    oldest = (oldest + 1) & 3
    words[window + 4] = oldest
    words[pseudo] = max(
        clock + words[PSEUDO_ACT_ACT], words[window + oldest] + words[PSEUDO_ACT_WINDOW]
    )
    words[at + NEXT_ACT] = clock + words[CHANNEL_ACT_ACT]
    words[at + NEXT_PRE] = max(words[at + NEXT_PRE], clock + words[CHANNEL_ACT_PRE])


@inlined
def precharge(words, at, clock, bank):
    # The bank closes its row.
    of_bank = at + words[BANK_AT] + bank * BANK_WORDS
    words[of_bank + OPEN_ROW] = CLOSED
    words[of_bank + HITS + READ] = 0
    words[of_bank + HITS + WRITE] = 0
    words[of_bank + BANK_NEXT_ACT] = max(
        words[of_bank + BANK_NEXT_ACT], clock + words[BANK_PRE_ACT]
    )


@inlined
def access(words, at, clock, bank, write, tag):
    # RD or WR; its kind.
    of_bank = at + words[BANK_AT] + bank * BANK_WORDS
    group = group_of(words, at, bank)
    pseudo = pseudo_of(words, at, bank)
    reads = pseudo + PSEUDO_NEXT + READ
    writes = pseudo + PSEUDO_NEXT + WRITE
    if write == 0:
        words[group + 1 + READ] = max(words[group + 1 + READ], clock + words[GROUP_RD_RD])
        words[reads] = max(words[reads], clock + words[PSEUDO_RD_RD])
        words[writes] = max(words[writes], clock + words[PSEUDO_RD_WR])
        words[of_bank + BANK_NEXT_PRE] = max(
            words[of_bank + BANK_NEXT_PRE], clock + words[BANK_RD_PRE]
        )
        will_return(words, at, clock + words[READ_DELAY], tag)
        return RD
    words[group + 1 + READ] = max(words[group + 1 + READ], clock + words[GROUP_WR_RD])
    words[group + 1 + WRITE] = max(words[group + 1 + WRITE], clock + words[GROUP_WR_WR])
    words[reads] = max(words[reads], clock + words[PSEUDO_WR_RD])
    words[writes] = max(words[writes], clock + words[PSEUDO_WR_WR])
    words[of_bank + BANK_NEXT_PRE] = max(words[of_bank + BANK_NEXT_PRE], clock + words[BANK_WR_PRE])
    return WR


@inlined
def note_issued(words, at, command, bank, row, accepted, write, tag):
    # What was issued; the rest has to be found anew.
    words[at + COUNTS + command] += 1
    words[at + ISSUED_TAG] = tag
    words[at + ISSUED_BANK] = bank
    words[at + ISSUED_ROW] = row
    words[at + ISSUED_ACCEPTED] = accepted
    words[at + ISSUED_IS_WRITE] = write
