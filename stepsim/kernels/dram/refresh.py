"""Refresh of all banks of a channel at once.

The rule `all-bank`: a refresh is due every ``refresh_interval`` cycles, on all channels at the same
clock. From then on no request of a queue is chosen, only those of the activated list. Once that is
empty, every open bank may be precharged and every closed one activated, the refresh begins: it
closes all banks, and none is activated for ``refresh_cycles``.
"""

from __future__ import annotations

from stepsim.kernels.build.jit import cold
from stepsim.kernels.dram.commands import NOTHING, REF, note_issued, precharge
from stepsim.kernels.dram.table import (
    ACTIVATED,
    BANK_AT,
    BANK_BITS,
    BANK_NEXT_ACT,
    BANK_NEXT_PRE,
    BANK_WORDS,
    CLOSED,
    DUE_REFRESH,
    GROUP_BITS,
    INFINITY,
    NEXT_PRE,
    OPEN_ROW,
    PSEUDO_CHANNELS,
    REFRESH_CYCLES,
    REFRESH_INTERVAL,
)


@cold
def refresh(words, at, clock):
    # What is due by ``clock``: REF if a refresh begins at it, NOTHING if all have begun, else the
    # clock of the next chance, negative. A channel without requests is not ticked; what it did
    # meanwhile is made up for.
    while words[at + DUE_REFRESH] <= clock:
        if words[at + ACTIVATED] > 0:
            return -INFINITY
        begin = max(words[at + DUE_REFRESH], words[at + NEXT_PRE])
        banks = words[PSEUDO_CHANNELS] << (words[BANK_BITS] + words[GROUP_BITS])
        for b in range(banks):
            bank = at + words[BANK_AT] + b * BANK_WORDS
            if words[bank + OPEN_ROW] != CLOSED:
                begin = max(begin, words[bank + BANK_NEXT_PRE])
        for b in range(banks):
            bank = at + words[BANK_AT] + b * BANK_WORDS
            if words[bank + OPEN_ROW] == CLOSED:
                # Nor while an earlier refresh goes on.
                begin = max(begin, words[bank + BANK_NEXT_ACT])
        if begin > clock:
            return -begin
        for b in range(banks):
            bank = at + words[BANK_AT] + b * BANK_WORDS
            precharge(words, at, begin, b)
            words[bank + BANK_NEXT_ACT] = max(
                words[bank + BANK_NEXT_ACT], begin + words[REFRESH_CYCLES]
            )
        note_issued(words, at, REF, -1, -1, -1, -1, -1)
        words[at + DUE_REFRESH] += words[REFRESH_INTERVAL]
        if begin == clock:
            return REF
    return NOTHING
