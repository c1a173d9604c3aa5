"""The time of a step from profiled tables.

A step is a chain: transfers of its token ids, the layers before the blocks, the blocks of the
model, the layers behind them, and a transfer of the tokens that it yields. The time of a layer is
interpolated in a table over the tokens or the requests of the step, that of attention in one of
four dims. Layers whose weights come from elsewhere begin when these are there.

All tables are in one array of words, see :mod:`stepsim.kernels.serving.table_words`.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Final

import numpy as np

from stepsim.kernels.build.jit import apart, inlined, kernel

BUNDLE_NS: Final = 10
"""Time of a bundle of a collective."""


# Places of single words.
W_BLOCKS: Final = 0  # of the model
W_BEFORE: Final = 1  # transfers before the chain; one comes behind it
W_TOKEN_BYTES: Final = 2  # of the activations of a token, for collectives
W_PROLOGUE: Final = 3  # number of layers before the blocks,
W_BLOCK: Final = 4  # in a block,
W_HEAD: Final = 5  # and behind the blocks
W_LAYERS: Final = 6  # place of the layers, LAYER_WORDS of each
W_STAGES: Final = 7  # number of stages of the collective
W_STAGE: Final = 8  # place of the stages, STAGE_WORDS of each
W_CHUNKS: Final = 9  # attention: number of the lengths of prefills,
W_CHUNK: Final = 10  # and their place
W_DECODES: Final = 11  # numbers of decodes
W_DECODE: Final = 12
W_GRID: Final = 13  # for each of both, which corner has it: [chunks, decodes]
W_CORNER: Final = 14  # first row of every corner, and their end
W_ROW_BEFORE: Final = 15  # for every row, tokens before the prefills
W_ROW: Final = 16  # first entry of every row, and their end
W_ENTRY_BEFORE: Final = 17  # for every entry, tokens before a decode
W_ENTRY: Final = 18  # its time in ns
W_SKEW: Final = 19  # 1 if decodes of different lengths are corrected
W_SKEW_CHUNKS: Final = 20  # lengths of prefills with a correction of their own
W_SKEW_CHUNK: Final = 21
W_SKEW_BINS: Final = (
    22  # of decodes, skew, longest decode, tokens before prefills: number and place
)
W_EXPERTS: Final = 30  # numbers of experts with a table, 0 without experts
W_EXPERT: Final = 31
W_EXPERT_TABLE: Final = 32  # for each: number of keys, their place, and that of the times
W_MOST_EXPERTS: Final = 33
W_PER_TOKEN: Final = 34  # experts that a token chooses
W_END: Final = 35


# Places of single reals.
R_HOST: Final = 0  # bytes per ns between host and device
R_MEMORY: Final = 1  # GB/s of the device's memory
R_LINK: Final = 2  # bytes per ns of a link
R_LATENCY: Final = 3  # ns of a message
R_SKEW: Final = 4  # correction where there is none of its own
R_SKEW_BINS: Final = 5  # upper bounds of the skew
R_END: Final = 16  # corrections follow: [skew chunks, decodes, skew, longest, before]


class Layer(IntEnum):
    """What the time of a layer depends on."""

    TOKENS = 0
    REQUESTS = 1
    ATTENTION = 2
    EXPERTS = 3
    COLLECTIVE = 4


LAYER_WORDS: Final = 5
"""Of a layer: what it depends on, number of keys, their place, that of the times, and when its
weights are there."""

STAGE_WORDS: Final = 4
"""Of a stage of a collective: messages, bundles, bundles that add, and the part of the data that is
a message, as a divisor."""


@apart
def table_time(
    words, reals, tokens, requests, prefill, prefill_before, decodes, decode_before, least, most
):
    """The time of a step in ns.

    Args:
        words, reals: the tables.
        tokens, requests: that the step computes.
        prefill, prefill_before: tokens of requests with more than one in the step, and their tokens
            before it.
        decodes, decode_before: requests with one token in the step, and their tokens before it.
        least, most: tokens before it of the decodes with fewest and most; any without decodes.
    """
    attention = _attention(
        words, reals, prefill, prefill_before, decodes, decode_before, least, most
    )
    transfer = math.floor(4 * tokens / reals[R_HOST])
    at = words[W_LAYERS]

    time = words[W_BEFORE] * transfer
    for _ in range(words[W_PROLOGUE]):
        time = max(time, words[at + 4]) + _layer(words, reals, at, tokens, requests, attention)
        at += LAYER_WORDS

    # A block ends `length` after its start, and not before `floor`; so do all of them in a row.
    length = 0
    floor = 0
    for _ in range(words[W_BLOCK]):
        own = _layer(words, reals, at, tokens, requests, attention)
        length += own
        floor = max(floor, words[at + 4]) + own
        at += LAYER_WORDS
    blocks = words[W_BLOCKS]
    time = max(time + blocks * length, floor + (blocks - 1) * length)

    for _ in range(words[W_HEAD]):
        time = max(time, words[at + 4]) + _layer(words, reals, at, tokens, requests, attention)
        at += LAYER_WORDS
    return time + transfer


@inlined
def _layer(words, reals, at, tokens, requests, attention):
    kind = words[at]
    if kind == Layer.ATTENTION:
        return attention
    if kind == Layer.COLLECTIVE:
        return _collective(words, reals, tokens)
    if kind == Layer.EXPERTS:
        return _experts(words, tokens)
    amount = tokens if kind == Layer.TOKENS else requests
    return _whole(_on_line(words, words[at + 1], words[at + 2], words[at + 3], amount))


@inlined
def _whole(time):
    return max(1, math.floor(time))


@kernel
def _at_most(words, count, place, value):
    # How many of the sorted words are at most the value.
    low = 0
    high = count
    while low < high:
        middle = (low + high) // 2
        if words[place + middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _on_line(words, count, keys, values, amount):
    """The value of a table at ``amount``: constant below its keys, on the last line above them."""
    found = _at_most(words, count, keys, amount)
    if found == 0 or count == 1:
        return float(words[values])
    upper = min(found, count - 1)
    low = words[keys + upper - 1]
    high = words[keys + upper]
    first = words[values + upper - 1]
    return first + (amount - low) / (high - low) * (words[values + upper] - first)


@kernel
def _experts(words, tokens):
    """The time of the experts, when tokens choose as different ones as possible."""
    active = min(tokens * words[W_PER_TOKEN], words[W_MOST_EXPERTS])
    count = words[W_EXPERTS]
    keys = words[W_EXPERT]
    found = _at_most(words, count, keys, active)
    if found == 0 or count == 1:
        return _whole(_of_experts(words, 0, tokens))
    upper = min(found, count - 1)
    low = words[keys + upper - 1]
    high = words[keys + upper]
    first = _of_experts(words, upper - 1, tokens)
    last = _of_experts(words, upper, tokens)
    return _whole(first + (active - low) / (high - low) * (last - first))


@inlined
def _of_experts(words, row, tokens):
    at = words[W_EXPERT_TABLE] + 3 * row
    return _on_line(words, words[at], words[at + 1], words[at + 2], tokens)


@kernel
def _collective(words, reals, tokens):
    """The time of a ring collective that all devices enter together."""
    data = tokens * words[W_TOKEN_BYTES]
    time = 0
    at = words[W_STAGE]
    for _ in range(words[W_STAGES]):
        message = data / words[at + 3]
        send = math.floor(reals[R_LATENCY] + message / reals[R_LINK])
        added = 3 * math.floor(message / (reals[R_MEMORY] * 1e9) * 1e9)
        time += words[at] * send + words[at + 1] * BUNDLE_NS + words[at + 2] * added
        at += STAGE_WORDS
    return time


@kernel
def _attention(words, reals, prefill, prefill_before, decodes, decode_before, least, most):
    """The time of attention; decodes of different lengths take longer than equal ones."""
    if prefill == 0 and decodes == 0:
        return 0
    mean = decode_before // decodes if decodes > 0 else 0
    time = _at_lengths(words, prefill, prefill_before, decodes, mean)
    if words[W_SKEW] == 0 or decodes <= 1 or most == mean:
        return time
    alpha = _correction(words, reals, prefill, prefill_before, decodes, mean, least, most)
    if alpha == 0.0:
        return time
    longest = _at_lengths(words, prefill, prefill_before, decodes, most)
    if longest <= time:
        return time
    return max(1, int(np.rint(time + alpha * (longest - time))))


@kernel
def _correction(words, reals, prefill, prefill_before, decodes, mean, least, most):
    """The part of the way from equal decodes to the longest one that skewed decodes go."""
    default = reals[R_SKEW]
    count = words[W_SKEW_CHUNKS]
    chunk = _at_most(words, count, words[W_SKEW_CHUNK], prefill) - 1
    if chunk < 0 or words[words[W_SKEW_CHUNK] + chunk] != prefill:
        return default
    skew = (mean - least) / (most - least)
    skew = min(max(skew, 0.0), 1.0)
    level = 0
    levels = words[W_SKEW_BINS + 2]
    while level < levels and skew > reals[R_SKEW_BINS + level]:
        level += 1
    if level == levels:
        return default
    place = chunk
    for axis in range(4):
        bins = words[W_SKEW_BINS + 2 * axis]
        if axis == 1:
            found = level
        else:
            amount = decodes if axis == 0 else most if axis == 2 else prefill_before
            # The first bin that ends at the amount or above.
            found = _at_most(words, bins, words[W_SKEW_BINS + 2 * axis + 1], amount - 1)
            if found == bins:
                return default
        place = place * bins + found
    return reals[R_END + place]


@inlined
def _bracket(words, count, place, value):
    """Two places in a sorted list, and how far the value is from the first to the second."""
    if count == 1 or value <= words[place]:
        return 0, 0, 0.0
    upper = min(_at_most(words, count, place, value), count - 1)
    low = words[place + upper - 1]
    return upper - 1, upper, (value - low) / (words[place + upper] - low)


@kernel
def _at_lengths(words, prefill, prefill_before, decodes, decode_before):
    """The time of attention in its table, with decodes of one length."""
    chunk, next_chunk, t = _bracket(words, words[W_CHUNKS], words[W_CHUNK], prefill)
    decode, next_decode, u = _bracket(words, words[W_DECODES], words[W_DECODE], decodes)
    time = _between(words, chunk, decode, next_decode, u, prefill_before, decode_before)
    if t != 0.0:
        other = _between(words, next_chunk, decode, next_decode, u, prefill_before, decode_before)
        time = time + t * (other - time)
    return _whole(time)


@kernel
def _between(words, chunk, decode, next_decode, u, prefill_before, decode_before):
    first = _corner(words, chunk, decode, prefill_before, decode_before)
    if u == 0.0:
        return first
    last = _corner(words, chunk, next_decode, prefill_before, decode_before)
    return first + u * (last - first)


@kernel
def _corner(words, chunk, decode, prefill_before, decode_before):
    corner = words[words[W_GRID] + chunk * words[W_DECODES] + decode]
    begin = words[words[W_CORNER] + corner]
    count = words[words[W_CORNER] + corner + 1] - begin
    low, high, t = _bracket(words, count, words[W_ROW_BEFORE] + begin, prefill_before)
    first = _in_row(words, begin + low, decode_before)
    if low == high:
        return first
    return first + t * (_in_row(words, begin + high, decode_before) - first)


@kernel
def _in_row(words, row, decode_before):
    begin = words[words[W_ROW] + row]
    count = words[words[W_ROW] + row + 1] - begin
    return _on_line(
        words, count, words[W_ENTRY_BEFORE] + begin, words[W_ENTRY] + begin, decode_before
    )
