"""Labels of blocks: equal if and only if all tokens up to their ends are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError
from stepsim.serving import RandomLengths, RecordedIds, Segments, TokenIds
from stepsim.serving.requests.requests import PrefixBlocks
from tests.property_profile import profile

PIECES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=4)
TEXTS = st.lists(PIECES, min_size=1, max_size=6)


def joined(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    begin = np.cumsum([0, *map(len, lists)])
    return begin, np.array([one for part in lists for one in part], dtype=np.int64)


def check(prefix: PrefixBlocks, texts: list[list[object]], size: int) -> None:
    """The labels are those of a dictionary of whole prefixes, up to their numbers."""
    offsets, labels = prefix.blocks(size)
    prefixes = [
        tuple(text[: end + size]) for text in texts for end in range(0, len(text) - size + 1, size)
    ]
    assert np.diff(offsets).tolist() == [len(text) // size for text in texts]
    pairs = set(zip(prefixes, labels.tolist(), strict=True))
    assert len(pairs) == len(set(prefixes)) == len(set(labels.tolist()))
    assert set(labels.tolist()) == set(range(len(pairs)))


@profile(100)
@given(TEXTS, st.integers(1, 5))
def test_segments(texts: list[list[tuple[int, int]]], size: int) -> None:
    begin, segment = joined([[piece for piece, _ in text] for text in texts])
    _, tokens = joined([[length for _, length in text] for text in texts])
    written: list[list[object]] = [
        [(piece, token) for piece, length in text for token in range(length)] for text in texts
    ]
    check(Segments(begin, segment, tokens), written, size)


@profile(100)
@given(
    st.lists(st.lists(st.integers(0, 1), max_size=12), min_size=1, max_size=8), st.integers(1, 4)
)
def test_token_ids(texts: list[list[int]], size: int) -> None:
    check(TokenIds(*joined(texts)), [list(text) for text in texts], size)


@pytest.mark.slow
@profile(100)
@given(
    st.lists(st.lists(st.integers(0, 2), max_size=4), min_size=1, max_size=6),
    st.integers(1, 20),
    st.randoms(use_true_random=False),
)
def test_recorded_ids(lists: list[list[int]], size: int, random: np.random.Generator) -> None:
    """At any size of blocks, as if the tokens of every block were drawn anew for its prefix."""
    chained = [[hash(tuple(one[: end + 1])) for end in range(len(one))] for one in lists]
    begin, ids = joined(chained)
    tokens = [max(0, 6 * len(one) - random.randint(0, 5)) for one in lists]  # type: ignore[attr-defined]
    written: list[list[object]] = [
        [(one[token // 6], token % 6) for token in range(count)]
        for one, count in zip(chained, tokens, strict=True)
    ]
    check(RecordedIds(6, begin, ids, np.array(tokens)), written, size)


def test_ids_must_cover_the_tokens() -> None:
    with pytest.raises(ArgError, match="request 0 has 1 ids of 4 tokens for 5 tokens"):
        RecordedIds(4, np.array([0, 1]), np.array([3]), np.array([5]))


def test_random_prompts_share_what_begins_with_one_id() -> None:
    """The tokens of vLLM's random data set, written out."""
    source = RandomLengths(40, 9, 5, 0.5, 0.5, prefix_len=3, vocabulary=11, seed=2)
    inputs, outputs, offsets = source.draw()
    written: list[list[object]] = [
        [("prefix", i) for i in range(3)]
        + [("id", (offset + row + i) % 11) for i in range(length)]
        + [("output", row, i) for i in range(answer)]
        for row, (length, answer, offset) in enumerate(
            zip(inputs.tolist(), outputs.tolist(), offsets.tolist(), strict=True)
        )
    ]
    prefix = source.requests().prefix
    assert prefix is not None
    check(prefix, written, 2)
