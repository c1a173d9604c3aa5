"""Labels of the blocks of tokens: from recorded ids, from segments of text, and from token ids.

A label stands for all tokens from the start of a request to the end of a block. Labels are numbers
from 0 without gaps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import Range
from stepsim.errors import ArgError

BLOCK_TOKENS = Range(1 << 20, "tokens of a block")


@dataclass(frozen=True, eq=False)
class RecordedIds:
    """Ids of blocks of a fixed size, as traces record them, for blocks of any size.

    Equal ids mean equal tokens up to the end of the block. Of blocks whose ids differ, no token is
    taken as equal, so smaller blocks follow from them as well.

    Attributes
    ----------
    id_tokens : tokens of a block that has an id.
    begin : first id of every request, and the number of ids. [requests + 1]
    ids : ids of all requests in order. [ids]
    tokens : how many tokens of every request the ids cover; the last block of a request may be
        covered in part. [requests]
    """

    id_tokens: int
    begin: NDArray[np.int64]
    ids: NDArray[np.int64]
    tokens: NDArray[np.int64]

    def __post_init__(self) -> None:
        BLOCK_TOKENS.checked("id_tokens", self.id_tokens)
        wrong = self.tokens > np.diff(self.begin) * self.id_tokens
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ArgError(
                f"prefix ids: request {row} has {int(np.diff(self.begin)[row])} ids of "
                f"{self.id_tokens} tokens for {int(self.tokens[row])} tokens, expected one for "
                "each block of them"
            )

    def blocks(self, block_tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        size = BLOCK_TOKENS.checked("block_tokens", block_tokens)
        counts = self.tokens // size
        offsets, last = _ends(counts, size)
        place = np.repeat(self.begin[:-1], counts) + last // self.id_tokens
        # The last tokens of blocks are at every n-th place of those that have an id.
        step = math.gcd(size, self.id_tokens)
        ids: NDArray[np.int64] = np.unique(self.ids, return_inverse=True)[1]
        return offsets, _numbered(ids[place], last % self.id_tokens // step)


@dataclass(frozen=True, eq=False)
class Segments:
    """Texts that are put together from the beginnings of segments.

    Token i of a segment is always the same, and differs from every token of other segments. So two
    requests share a prefix as far as they begin with the same pieces.

    Attributes
    ----------
    begin : first piece of every request, and the number of pieces. [requests + 1]
    segment : the segment of every piece. [pieces]
    tokens : how many tokens it has of the start of the segment. [pieces]
    """

    begin: NDArray[np.int64]
    segment: NDArray[np.int64]
    tokens: NDArray[np.int64]

    def blocks(self, block_tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        size = BLOCK_TOKENS.checked("block_tokens", block_tokens)
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.tokens)])
        start = sums[:-1] - np.repeat(sums[self.begin[:-1]], np.diff(self.begin))
        counts = (sums[self.begin[1:]] - sums[self.begin[:-1]]) // size
        offsets, last = _ends(counts, size)
        # The piece that holds the last token of the block.
        token = last + np.repeat(sums[self.begin[:-1]], counts)
        piece = np.searchsorted(sums, token, side="right") - 1
        return offsets, _numbered(self._chains()[piece], last - start[piece])

    def _chains(self) -> NDArray[np.int64]:
        """A number of each piece: that of its segment after the same pieces before. [pieces]"""
        numbers: dict[tuple[int, int, int], int] = {}
        chains = np.empty(len(self.segment), dtype=np.int64)
        segments, tokens = self.segment.tolist(), self.tokens.tolist()
        bounds = self.begin.tolist()
        for first, last in pairwise(bounds):
            before, length = -1, 0
            for piece in range(first, last):
                if not tokens[piece]:
                    chains[piece] = -1  # it has no last token of any block
                    continue
                key = (before, length, segments[piece])
                before = numbers.setdefault(key, len(numbers))
                length = tokens[piece]
                chains[piece] = before
        return chains


@dataclass(frozen=True, eq=False)
class TokenIds:
    """The tokens themselves: of the prompt, and of the output where it is known.

    Attributes
    ----------
    begin : first token of every request, and the number of tokens. [requests + 1]
    ids : tokens of all requests in order. [tokens]
    """

    begin: NDArray[np.int64]
    ids: NDArray[np.int64]

    def blocks(self, block_tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        size = BLOCK_TOKENS.checked("block_tokens", block_tokens)
        counts = np.diff(self.begin) // size
        offsets, _ = _ends(counts, size)
        labels = np.empty(offsets[-1], dtype=np.int64)
        raw, width = self.ids.astype("<i8").tobytes(), 8 * size
        numbers: dict[tuple[int, bytes], int] = {}
        row = 0
        for first, count in zip((self.begin[:-1] * 8).tolist(), counts.tolist(), strict=True):
            before = -1
            for at in range(first, first + count * width, width):
                before = numbers.setdefault((before, raw[at : at + width]), len(numbers))
                labels[row] = before
                row += 1
        return offsets, labels


def _ends(counts: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Offsets of the blocks of requests [requests + 1], and the place of the last token of every
    block in its request [blocks]."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    index = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    return offsets, (index + 1) * size - 1


def _numbered(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers from 0 without gaps of distinct pairs of small numbers."""
    keys = first * (int(second.max(initial=0)) + 1) + second
    numbers: NDArray[np.int64]
    if keys.max(initial=0) > 8 * len(keys):
        numbers = np.unique(keys, return_inverse=True)[1]
        return numbers
    found = np.zeros(int(keys.max(initial=-1)) + 1, np.int64)
    found[keys] = 1
    numbers = np.cumsum(found)[keys] - 1
    return numbers
