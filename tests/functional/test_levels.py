"""Levels of every shape operator, against the token sequences of the stop-token encoding."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import AssumptionError, EvaluationError
from stepsim.functional import evaluate
from stepsim.graph import fn
from tests.functional.support import run_both, text, tiles


def ragged() -> st.Stream:
    """``[2, 2, ~len]`` with sizes (1, 3), (2, 1): tiles a .. g."""
    data = np.arange(1, 8, dtype=np.float32).reshape(7, 1)
    index = st.metadata(np.array([[0, 1], [4, 6]]))
    length = st.metadata(np.array([[1, 3], [2, 1]]))
    return st.random_load(index.flat_map(fn.cache_read_addresses(1), length), data, (1, 1))


def routed(outputs: list[int]) -> st.Stream:
    """Selectors of width 2, one output each; the counts are unknown when the program is built."""
    return st.routing(np.array(outputs)[:, np.newaxis], 2).multihot()


@pytest.mark.parametrize(
    ("shape", "tokens"),
    [
        ((3,), "a b c"),
        ((1, 3), "a b c S1"),
        ((2, 3), "a b c S1 d e f S1"),
        ((2, 1), "a S1 b S1"),
        ((1, 2, 2), "a b S1 c d S2"),
        ((2, 1, 1), "a S2 b S2"),
    ],
)
def test_stop_tokens_of_static_shapes(shape, tokens):
    with st.Program() as p:
        x, _ = tiles(shape)
        x.consume()
    result = run_both(p)
    assert text(result, x) == tokens
    assert result.shape(x) == shape


def test_stop_tokens_of_a_ragged_shape_flattened_and_reduced():
    with st.Program(compute_bw=1) as p:
        x = ragged()
        flat = x.flatten(0, 1)
        sums = x.accum(fn.add, 1)
        flat.consume()
        sums.consume()
    result = run_both(p)
    assert text(result, x) == "a S1 b c d S2 e f S1 g S2"
    assert text(result, flat) == "a b c d S1 e f g S1"
    assert [(t.payload.data[0, 0], t.level) for t in result.stream(sums)] == [
        (1, 0), (2 + 3 + 4, 1), (5 + 6, 0), (7, 1)
    ]  # fmt: skip
    assert result.shape(x) == (2, 2, (1, 3, 2, 1))
    assert result.shape(flat) == (2, (4, 3))
    nested = result.nested(x)
    assert [[len(vector) for vector in tensor] for tensor in nested] == [[1, 3], [2, 1]]


@pytest.mark.parametrize(
    ("lo", "hi", "tokens"),
    [
        (0, 1, "a b c d S1 e f g h S1"),
        (1, 2, "a b S1 c d S1 e f S1 g h S1"),
        (0, 2, "a b c d e f g h"),
    ],
)
def test_flatten(lo, hi, tokens):
    with st.Program() as p:
        x, _ = tiles((2, 2, 2))
        y = x.flatten(lo, hi)
        y.consume()
    assert text(run_both(p), y) == tokens


@pytest.mark.parametrize(
    ("shape", "chunk", "dim", "tokens"),
    [
        ((4,), 2, 0, "a b S1 c d S1"),
        ((5,), 2, 0, "a b S1 c d S1 e . S1"),
        ((2, 3), 2, 0, "a b S1 c . S2 d e S1 f . S2"),
        ((2, 2), 1, 0, "a S1 b S2 c S1 d S2"),
        ((2, 4), 2, 0, "a b S1 c d S2 e f S1 g h S2"),
        ((4, 2), 2, 1, "a b S1 c d S2 e f S1 g h S2"),
        ((2, 2, 2), 2, 2, "a b S1 c d S2 e f S1 g h S3"),
        ((2, 2, 1), 1, 1, "a S2 b S3 c S2 d S3"),
    ],
)
def test_reshape(shape, chunk, dim, tokens):
    with st.Program() as p:
        x, _ = tiles(shape)
        y = x.reshape(chunk, dim=dim, pad=0)
        y.consume()
    result = run_both(p)
    assert text(result, y) == tokens
    for payload, _ in result.stream(y):
        assert payload.valid == int(payload.data[0, 0] != 0)


@pytest.mark.parametrize(
    ("rows", "chunk", "tokens"),
    [
        ([1, 1, 1, 1], 2, "a b S1 c d S2"),
        ([1, 1, 1], 2, "a b S1 c . S2"),
        ([1, 1], 1, "a S1 b S2"),
        ([1, 0, 0], 4, "a . . . S2"),
        ([0, 0], 2, ""),
    ],
)
def test_reshape_with_an_outer_dim_looks_ahead(rows, chunk, tokens):
    """Rows sent to output 0 make a rank-0 stream of unknown length, empty included."""
    with st.Program() as p:
        x, _ = tiles((len(rows),))
        kept, rest = st.partition(x, routed([1 - r for r in rows]))
        y = kept.reshape(chunk, pad=0, add_outer=True)
        y.consume()
        rest.consume()
    result = run_both(p)
    assert text(result, y) == tokens
    assert result.shape(y)[0] == min(1, sum(rows))


def test_promote_and_unsqueeze():
    with st.Program() as p:
        x, _ = tiles((2, 2))
        made = [x.promote(), x.unsqueeze(0), x.unsqueeze(1)]
        for y in made:
            y.consume()
    result = run_both(p)
    assert [text(result, y) for y in made] == [
        "a b S1 c d S2", "a S1 b S2 c S1 d S2", "a b S2 c d S2"
    ]  # fmt: skip


def test_outermost_dims_that_no_unit_can_close():
    """A promoted stream of rank 1 with a dynamic outer dim, and an outermost unit dim."""
    with st.Program() as p:
        x, _ = tiles((3, 2))
        kept, rest = st.partition(x, routed([0, 1, 0]))
        up, out = kept.promote(), rest.unsqueeze(2)
        up.consume()
        out.consume()
    result = evaluate(p)
    assert text(result, up) == "a b S1 e f S2"
    assert text(result, out) == "c d S2"
    assert result.contradictions() == []


def test_repeat_and_expand():
    with st.Program() as p:
        x, _ = tiles((2,))
        twice = x.repeat(2)
        wide = x.unsqueeze(0).expand(3)
        ref, _ = tiles((2, 3))
        by_ref = x.unsqueeze(0).expand(ref)
        deep, _ = tiles((2, 1, 1))
        deep_ref, _ = tiles((2, 2, 2))
        by_deep = deep.expand(deep_ref, 2)
        single, _ = tiles((1,))
        whole = single.expand(x)
        made = [twice, wide, by_ref, by_deep, whole]
        for y in made:
            y.consume()
    result = run_both(p)
    assert [text(result, y) for y in made] == [
        "a a S1 b b S1",
        "a a a S1 b b b S1",
        "a a a S1 b b b S1",
        "a a S1 a a S2 b b S1 b b S2",
        "a a",
    ]


def test_zip_pairs_elements():
    with st.Program(compute_bw=1) as p:
        x, a = tiles((2, 2))
        y, _ = tiles((2, 2))
        pairs = st.zip(x, y)
        summed = st.map(fn.add, pairs)
        summed.consume()
    result = run_both(p)
    assert [t.level for t in result.stream(pairs)] == [0, 1, 0, 1]
    assert all(len(t.payload) == 2 for t in result.stream(pairs))
    assert [t.payload.data[0, 0] for t in result.stream(summed)] == (2 * a[:, 0]).tolist()


def test_a_missing_pad_is_an_error():
    """A chunk that is claimed to fit has no pad."""
    with st.Program() as p:
        x, _ = tiles((3,))
        kept, rest = st.partition(x, routed([0, 0, 0]))
        kept.assume_shape(2).reshape(2).consume()
        rest.consume()
    with pytest.raises(AssumptionError) as error:
        evaluate(p)
    cause = error.value.__cause__
    assert isinstance(cause, EvaluationError)
    assert "a vector ends after 1 of 2 elements of a chunk and there is no pad" in str(cause)


def test_expanding_past_the_data_is_an_error():
    with st.Program() as p:
        x, _ = tiles((3,))
        kept, rest = st.partition(x, routed([0, 1, 1]))
        long = rest.reshape(1)
        kept.unsqueeze(0).assume_shape(long.shape[0], 1).expand(long).consume()
    with pytest.raises(AssumptionError) as error:
        evaluate(p)
    assert "in ended after 1 elements while ref goes on" in str(error.value.__cause__)
