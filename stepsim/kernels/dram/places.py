"""Where the words of a channel and of its parts are."""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined
from stepsim.kernels.dram.table import (
    BANK_BITS,
    CHANNEL_AT,
    CHANNEL_WORDS,
    GROUP_AT,
    GROUP_BITS,
    GROUP_WORDS,
    PSEUDO_AT,
    PSEUDO_WORDS,
)


@inlined
def channel_at(words, channel):
    """The first word of a channel."""
    return words[CHANNEL_AT] + channel * words[CHANNEL_WORDS]


@inlined
def pseudo_of(words, at, bank):
    # The words of a bank's pseudo-channel.
    number = bank >> (words[BANK_BITS] + words[GROUP_BITS])
    return at + words[PSEUDO_AT] + number * PSEUDO_WORDS


@inlined
def group_of(words, at, bank):
    return at + words[GROUP_AT] + (bank >> words[BANK_BITS]) * GROUP_WORDS
