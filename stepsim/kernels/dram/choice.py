"""Which request goes next, and when: the activated list, the mode, and the queue it selects."""

from __future__ import annotations

from stepsim.kernels.build.bits import lowest
from stepsim.kernels.build.jit import inlined
from stepsim.kernels.dram.places import group_of, pseudo_of
from stepsim.kernels.dram.table import (
    ACTIVATED,
    ACTIVATED_AT,
    ACTIVATED_CLOCK,
    ACTIVATED_PLACE,
    ACTIVATED_WORDS,
    BANK_AT,
    BANK_BITS,
    BANK_NEXT,
    BANK_NEXT_ACT,
    BANK_NEXT_PRE,
    BANK_WORDS,
    CANDIDATE,
    CANDIDATE_CLOCK,
    CLOSED,
    ENTRIES,
    GROUP_AT,
    GROUP_BITS,
    GROUP_WORDS,
    HIGH,
    HITS,
    INFINITY,
    LOW,
    NEXT_ACT,
    NEXT_PRE,
    OPEN_ROW,
    PSEUDO_AT,
    PSEUDO_BANKS,
    PSEUDO_CHANNELS,
    PSEUDO_NEXT,
    PSEUDO_WORDS,
    READ,
    REQUESTS,
    WRITE,
)


@inlined
def will_flip(words, at, mode):
    # Whether the mode will be the other one.
    reads = words[at + ENTRIES + READ]
    writes = words[at + ENTRIES + WRITE]
    if mode == READ:
        return writes >= words[HIGH] or reads == 0
    return writes <= words[LOW] and reads != 0


@inlined
def find_activated(words, at, clock):
    # When the first of the activated list is ready, from ``clock`` on, and which: of those that
    # are ready then, the one accepted first, of these the one activated first.
    best = INFINITY
    accepted = INFINITY
    first = at + words[ACTIVATED_AT]
    for i in range(words[at + ACTIVATED]):
        entry = first + i * ACTIVATED_WORDS
        bank = words[entry + 2]
        write = words[entry + 3]
        ready = max(clock, words[at + words[BANK_AT] + bank * BANK_WORDS + BANK_NEXT + write])
        ready = max(ready, words[group_of(words, at, bank) + 1 + write])
        ready = max(ready, words[pseudo_of(words, at, bank) + PSEUDO_NEXT + write])
        if ready < best or (ready == best and words[entry] < accepted):
            best = ready
            accepted = words[entry]
            words[at + ACTIVATED_PLACE] = i
    words[at + ACTIVATED_CLOCK] = best


@inlined
def find_candidate(words, at, queue, clock):
    # When the first of a queue is ready, from ``clock`` on, and which: the oldest of them.
    best = INFINITY
    candidate = 0
    next_act = max(clock, words[at + NEXT_ACT])
    next_pre = max(clock, words[at + NEXT_PRE])
    groups = at + words[GROUP_AT]
    banks = at + words[BANK_AT]
    bank_bits = words[BANK_BITS]
    pseudo_bits = bank_bits + words[GROUP_BITS]
    pseudo = at + words[PSEUDO_AT]
    for p in range(words[PSEUDO_CHANNELS]):
        left = words[pseudo + PSEUDO_BANKS + queue]
        pseudo_act = max(next_act, words[pseudo])
        pseudo_column = max(clock, words[pseudo + PSEUDO_NEXT + queue])
        while left != 0:
            number = (p << pseudo_bits) + lowest(left)
            left &= left - 1
            bank = banks + number * BANK_WORDS
            group = groups + (number >> bank_bits) * GROUP_WORDS
            requests = words[bank + REQUESTS + queue]
            if words[bank + OPEN_ROW] == CLOSED:
                ready = max(pseudo_act, max(words[group], words[bank + BANK_NEXT_ACT]))
                oldest = requests & -requests
                if ready < best or (ready == best and oldest < candidate):
                    best = ready
                    candidate = oldest
            else:
                hits = words[bank + HITS + queue]
                if hits != 0:
                    ready = max(words[group + 1 + queue], words[bank + BANK_NEXT + queue])
                    ready = max(ready, pseudo_column)
                    oldest = hits & -hits
                    if ready < best or (ready == best and oldest < candidate):
                        best = ready
                        candidate = oldest
                others = requests ^ hits
                if others != 0:
                    ready = max(next_pre, words[bank + BANK_NEXT_PRE])
                    oldest = others & -others
                    if ready < best or (ready == best and oldest < candidate):
                        best = ready
                        candidate = oldest
        pseudo += PSEUDO_WORDS
    words[at + CANDIDATE_CLOCK] = best
    words[at + CANDIDATE] = candidate


@inlined
def is_activated(words, at, bank):
    # Whether a bank has a request in the activated list.
    first = at + words[ACTIVATED_AT]
    for i in range(words[at + ACTIVATED]):
        if words[first + i * ACTIVATED_WORDS + 2] == bank:
            return True
    return False
