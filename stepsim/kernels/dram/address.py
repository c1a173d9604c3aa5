"""The fields of an address: which channel, bank, row and column a byte lies in."""

from __future__ import annotations

from stepsim.kernels.build.jit import inlined
from stepsim.kernels.dram.table import (
    BANK_BITS,
    BANK_MASK,
    BANK_SHIFT,
    CHANNEL_BITS,
    CHANNEL_MASK,
    CHANNEL_SHIFT,
    COLUMN_HIGH_SHIFT,
    COLUMN_MASK,
    COLUMN_SHIFT,
    GROUP_BITS,
    GROUP_MASK,
    GROUP_SHIFT,
    MAPPER,
    PSEUDO_BITS,
    PSEUDO_MASK,
    PSEUDO_SHIFT,
    ROW_BITS,
    ROW_MASK,
    ROW_SHIFT,
)

_XOR = 2  # number of the mapper


@inlined
def column_of(words, address):
    """The position of an access in its row."""
    low = (address >> words[COLUMN_SHIFT]) & words[COLUMN_MASK]
    if words[MAPPER] != _XOR:
        return low
    # The bits between the bank and the row are the high ones.
    bits = words[ROW_SHIFT] - words[COLUMN_HIGH_SHIFT]
    high = (address >> words[COLUMN_HIGH_SHIFT]) & ((1 << bits) - 1)
    return low + high * (words[COLUMN_MASK] + 1)


@inlined
def locate(words, address):
    """The channel of an address."""
    channel = (address >> words[CHANNEL_SHIFT]) & words[CHANNEL_MASK]
    if words[MAPPER] == _XOR:
        channel ^= column_of(words, address) & words[CHANNEL_MASK]
    return channel


@inlined
def bank_of(words, address):
    """The bank of an address in its channel, counted over all pseudo-channels and groups."""
    pseudo = (address >> words[PSEUDO_SHIFT]) & words[PSEUDO_MASK]
    group = (address >> words[GROUP_SHIFT]) & words[GROUP_MASK]
    bank = (address >> words[BANK_SHIFT]) & words[BANK_MASK]
    if words[MAPPER] == _XOR:
        rest = column_of(words, address) >> words[CHANNEL_BITS]
        pseudo ^= rest & words[PSEUDO_MASK]
        rest >>= words[PSEUDO_BITS]
        group ^= rest & words[GROUP_MASK]
        rest >>= words[GROUP_BITS]
        bank ^= rest & words[BANK_MASK]
    return (((pseudo << words[GROUP_BITS]) | group) << words[BANK_BITS]) | bank


@inlined
def row_of(words, address):
    """The row of an address."""
    row = (address >> words[ROW_SHIFT]) & words[ROW_MASK]
    if words[MAPPER] == _XOR:
        before = words[CHANNEL_BITS] + words[PSEUDO_BITS] + words[GROUP_BITS] + words[BANK_BITS]
        row ^= (column_of(words, address) >> before) & ((1 << words[ROW_BITS]) - 1)
    return row
