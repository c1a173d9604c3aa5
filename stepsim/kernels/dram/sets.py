"""The requests of a channel as sets of the slots of its queues."""

from __future__ import annotations

from stepsim.kernels.build.bits import lowest
from stepsim.kernels.build.jit import cold, inlined
from stepsim.kernels.dram.places import pseudo_of
from stepsim.kernels.dram.table import (
    ADDRESS,
    BANK,
    BANK_AT,
    BANK_BITS,
    BANK_WORDS,
    CANDIDATE,
    ENTRIES,
    GROUP_BITS,
    HITS,
    MODE,
    OPEN_ROW,
    PSEUDO_BANKS,
    QUEUE_WORDS,
    REQUESTS,
    ROW,
    SLOT_AT,
    TAIL,
    VALID,
    WRITE,
)


@inlined
def is_forwarded(words, at, address):
    # Whether a write of the address waits in the write queue.
    first = at + SLOT_AT + QUEUE_WORDS + ADDRESS
    for slot in range(words[at + TAIL + WRITE]):
        if words[first + slot] == address and (words[at + VALID + WRITE] >> slot) & 1:
            return True
    return False


@cold
def compact(words, at, queue):
    # Move the requests of a queue to its first slots.
    slots = at + SLOT_AT + queue * QUEUE_WORDS
    banks = at + words[BANK_AT]
    candidate = words[at + CANDIDATE]
    is_candidates = words[at + MODE] == queue
    left = words[at + VALID + queue]
    rest = left
    while rest != 0:
        bank = banks + words[slots + BANK + lowest(rest)] * BANK_WORDS
        words[bank + REQUESTS + queue] = 0
        words[bank + HITS + queue] = 0
        rest &= rest - 1
    to = 0
    while left != 0:
        slot = lowest(left)
        left &= left - 1
        if is_candidates and candidate == 1 << slot:
            words[at + CANDIDATE] = 1 << to
        for part in range(0, QUEUE_WORDS, 64):
            words[slots + part + to] = words[slots + part + slot]
        bank = banks + words[slots + BANK + to] * BANK_WORDS
        words[bank + REQUESTS + queue] |= 1 << to
        if words[bank + OPEN_ROW] == words[slots + ROW + to]:
            words[bank + HITS + queue] |= 1 << to
        to += 1
    words[at + TAIL + queue] = to
    words[at + VALID + queue] = (1 << to) - 1


@inlined
def hits_of(words, at, queue, requests, row):
    # Those of some requests of a queue that go to a row.
    rows = at + SLOT_AT + queue * QUEUE_WORDS + ROW
    hits = 0
    while requests != 0:
        slot = lowest(requests)
        requests &= requests - 1
        if words[rows + slot] == row:
            hits |= 1 << slot
    return hits


@inlined
def leave(words, at, queue, slot, bank):
    # A request leaves its queue.
    bit = 1 << slot
    of_bank = at + words[BANK_AT] + bank * BANK_WORDS
    words[at + VALID + queue] ^= bit
    words[at + ENTRIES + queue] -= 1
    words[of_bank + HITS + queue] &= ~bit
    words[of_bank + REQUESTS + queue] ^= bit
    if words[of_bank + REQUESTS + queue] == 0:
        in_pseudo = bank & ((1 << (words[BANK_BITS] + words[GROUP_BITS])) - 1)
        words[pseudo_of(words, at, bank) + PSEUDO_BANKS + queue] ^= 1 << in_pseudo
