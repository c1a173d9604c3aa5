"""Reshapes, branches and layouts, each against the elements that its tokens have."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ITensorError
from stepsim.itensor import (
    ITensor,
    chunk,
    concat,
    fold,
    fork,
    join,
    matches,
    pack,
    reassociate,
    vectorize,
    widen,
)
from tests.itensor.drawn import shapes, tilings
from tests.itensor.enumeration import tokens_of
from tests.itensor.fig5 import A, B, C
from tests.property_profile import profile

HALO = ITensor.of_loops((8,), [(0, 2, 2)], (6,), "i8")
TILES = ITensor.of_loops((64, 64), [(0, 4, 16), (1, 4, 16)], (16, 16), "i8")


def _elements(it: ITensor, tensor: np.ndarray) -> list[list[int]]:
    """The elements of every token, row-major."""
    assert tensor.shape == it.shape
    return [
        tensor[tuple(slice(o, o + e) for o, e in zip(offset, element, strict=True))]
        .ravel()
        .tolist()
        for offset, element in tokens_of(it)
    ]


def _numbered(it: ITensor) -> np.ndarray:
    return np.arange(it.cells).reshape(it.shape)


@st.composite
def _reshaped(draw: st.DrawFn) -> tuple[ITensor, tuple[int, ...]]:
    it = draw(shapes().flatmap(lambda shape: tilings(shape, revisits=True)))
    left = it.cells
    shape = []
    while left > 1 and len(shape) < 4:
        size = draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0]))
        shape.append(size)
        left //= size
    return it, (*shape, left)


@pytest.mark.slow
@given(_reshaped())
@profile(300)
def test_a_view_keeps_every_element_of_every_token(pair: tuple[ITensor, tuple[int, ...]]) -> None:
    it, shape = pair
    elements = _elements(it, _numbered(it))
    try:
        seen = reassociate(it, shape)
    except ITensorError:
        # Right to refuse if some token is no box of the new shape, or the boxes differ in shape,
        # or no loop nest has their order; the first two are looked at here.
        boxes = {_box(token, shape) for token in elements}
        assert None in boxes or len(boxes) > 1 or not _is_affine(elements, it, shape)
        return
    assert seen.shape == shape
    assert _elements(seen, _numbered(seen)) == elements
    assert matches(reassociate(seen, it.shape), it)


def _box(token: list[int], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Extents of the box that has these elements in this order; None if there is none."""
    places = np.array(np.unravel_index(token, shape)).reshape(len(shape), -1)
    sizes = tuple((places.max(axis=1) - places.min(axis=1) + 1).tolist())
    inside = np.indices(sizes).reshape(len(shape), -1)
    fits = math.prod(sizes) == len(token)
    return sizes if fits and (inside + places[:, :1] == places).all() else None


def _is_affine(elements: list[list[int]], it: ITensor, shape: tuple[int, ...]) -> bool:
    """Whether the loops as they are move the tokens by one stride each, in the new shape too."""
    firsts = np.array([token[0] for token in elements]).reshape([n.trip for n in it.loops] or [1])
    places = np.array(np.unravel_index(firsts, shape))
    return all(
        (np.diff(places, axis=p + 1) == np.diff(places, axis=p + 1)[(slice(None), *zeros)]).all()
        for p in range(firsts.ndim)
        if firsts.shape[p] > 1
        for zeros in [tuple(slice(0, 1) for _ in range(firsts.ndim))]
    )


def test_views_split_and_merge_dims() -> None:
    assert reassociate(B, (2, 4, 8)).element == (1, 4, 2)
    assert reassociate(B, (1, 8, 1, 8)).shape == (1, 8, 1, 8)
    rows = ITensor.of_loops((8, 8), [(0, 8, 1), (1, 2, 4)], (1, 4), "i8")
    assert str(reassociate(rows, (64,))) == "itensor<4xi8, [16]*[4], (d0)->(d0)>"
    assert reassociate(ITensor.of_loops((1, 1), [], (1, 1), "i8"), ()).shape == ()
    heads = ITensor.of_loops((16, 64), [(0, 2, 8), (1, 2, 32)], (8, 32), "i8")
    assert reassociate(heads, (16, 4, 16)).element == (8, 2, 16)


@pytest.mark.parametrize(
    ("it", "shape", "message"),
    [
        (B, (8, 9), "8x8 has 64 elements, but 8x9 has 72"),
        (B, (64,), "not next to each other in the merged dim"),
        (TILES, (64, 8, 8, 8), "64x8x8x8 has 32768"),
        (
            ITensor.of_loops((24,), [(0, 4, 6)], (6,), "i8"),
            (6, 4),
            "splits into rows of 4 elements, but a token has 6",
        ),
        (
            ITensor.of_loops((24,), [(0, 8, 3)], (3,), "i8"),
            (6, 4),
            "a loop takes 8 steps of 3",
        ),
        (
            ITensor.of_loops((24,), [(0, 23, 1)], (2,), "i8"),
            (6, 4),
            "a loop takes 23 steps of 1",
        ),
        (
            ITensor.of_loops((8,), [(0, 2, 1), (0, 2, 2), (0, 2, 3)], (2,), "i8"),
            (2, 4),
            "a token lies across a border",
        ),
    ],
)
def test_uneven_views_are_refused(it: ITensor, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ITensorError, match=message):
        reassociate(it, shape)


def test_every_reader_has_a_stream() -> None:
    assert fork(B, 3) == (B, B, B)
    with pytest.raises(ITensorError, match="0 copies, expected 1 to"):
        fork(B, 0)


@given(st.data())
@profile(150)
def test_chunks_have_the_tokens_of_their_part(data: st.DataObject) -> None:
    it = data.draw(shapes().flatmap(lambda shape: tilings(shape, revisits=True)))
    axis = data.draw(st.integers(0, it.rank - 1))
    extent = it.shape[axis]
    parts = data.draw(st.sampled_from([d for d in range(1, extent + 1) if extent % d == 0]))
    size = extent // parts
    try:
        found = chunk(it, parts, axis)
    except ITensorError:
        # A token lies across parts, or the parts do not have the same tokens in their order.
        sent = [_part(it, axis, size, k) for k in range(parts)]
        assert it.element[axis] > size or len({tuple(s) for s in sent}) > 1
        return
    assert len(found) == parts
    for k, part in enumerate(found):
        assert part.shape[axis] == size
        assert [offset for offset, _ in tokens_of(part)] == _part(it, axis, size, k)


def _part(it: ITensor, axis: int, size: int, number: int) -> list[tuple[int, ...]]:
    return [
        tuple(o - number * size if i == axis else o for i, o in enumerate(offset))
        for offset, _ in tokens_of(it)
        if offset[axis] // size == number
    ]


@given(st.data())
@profile(100)
def test_parts_join_in_turn_or_one_after_the_other(data: st.DataObject) -> None:
    it = data.draw(shapes().flatmap(lambda shape: tilings(shape, revisits=True)))
    axis = data.draw(st.integers(0, it.rank - 1))
    parts = (it,) * data.draw(st.integers(1, 3))

    def moved(offset: tuple[int, ...], number: int) -> tuple[int, ...]:
        return tuple(o + number * it.shape[axis] * (i == axis) for i, o in enumerate(offset))

    tokens = [offset for offset, _ in tokens_of(it)]
    in_turn = [moved(o, k) for o in tokens for k in range(len(parts))]
    after = [moved(o, k) for k in range(len(parts)) for o in tokens]
    assert [offset for offset, _ in tokens_of(join(parts, axis))] == in_turn
    assert [offset for offset, _ in tokens_of(concat(parts, axis))] == after
    assert matches(chunk(concat(parts, axis), len(parts), axis)[0], it)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chunk(B, 3, 0), "extent 8, which 3 parts do not divide"),
        (lambda: chunk(B, 4, 0), "no loop goes once over 4 parts of 2 along data dim 0"),
        (lambda: chunk(HALO, 2, 0), "no loop goes once over 2 parts of 4"),
        (lambda: chunk(B, 2, 2), "data dim 2, expected 0 to 1"),
        (lambda: concat([], 0), "at least one stream, found none"),
        (lambda: concat([B, C], 0), "parts 0 and 1 do not have the same tokens"),
        (lambda: concat([B, B], 0, loop=3), r"expected 0 \(outermost\) to 2 \(innermost\)"),
        (lambda: join([A, A], -1), "data dim -1, expected 0 to 1"),
    ],
)
def test_branches_that_do_not_fit_are_refused(call: object, message: str) -> None:
    with pytest.raises(ITensorError, match=message):
        call()  # type: ignore[operator]


def test_only_equal_orders_fold() -> None:
    found = fold(B, B)
    assert (found.fifo_bytes, found.buffer_bytes) == (32, 32)
    with pytest.raises(ITensorError, match="only streams with the same tokens fold\nstreams diff"):
        fold(B, C)


@given(st.data())
@profile(100)
def test_vectors_have_the_elements_of_their_tokens(data: st.DataObject) -> None:
    it = data.draw(shapes().flatmap(lambda shape: tilings(shape, revisits=True)))
    vector = [
        data.draw(st.sampled_from([d for d in range(1, e + 1) if e % d == 0])) for e in it.element
    ]
    narrow = vectorize(it, vector)
    assert narrow.tokens * math.prod(vector) == it.tokens * it.token_cells
    assert narrow.tokens * narrow.token_bits == it.tokens * it.token_bits
    assert narrow.shape == it.shape
    expected = [
        tuple(o + i * v for o, i, v in zip(offset, inside, vector, strict=True))
        for offset, element in tokens_of(it)
        for inside in itertools.product(
            *(range(e // v) for e, v in zip(element, vector, strict=True))
        )
    ]
    assert [offset for offset, _ in tokens_of(narrow)] == expected


def test_vectors_divide_the_element() -> None:
    with pytest.raises(ITensorError, match="a vector of 3x1 does not divide the element 4x2"):
        vectorize(B, (3, 1))
    with pytest.raises(ITensorError, match="a vector of 2 does not divide"):
        vectorize(B, (2,))


@given(shapes().flatmap(lambda shape: tilings(shape, revisits=True)))
@profile(100)
def test_packed_tokens_are_runs_with_the_same_elements(it: ITensor) -> None:
    packed = pack(it)
    grid = [extent // size for extent, size in zip(it.shape, it.element, strict=True)]
    assert packed.shape == (*grid, *it.element)
    split = _numbered(it).reshape([n for both in zip(grid, it.element, strict=True) for n in both])
    order = [*range(0, 2 * it.rank, 2), *range(1, 2 * it.rank, 2)]
    stored = split.transpose(order)
    assert _elements(packed, stored) == _elements(it, _numbered(it))
    assert all(
        token == list(range(token[0], token[-1] + 1))
        for token in _elements(packed, _numbered(packed))
    )


def test_only_whole_tiles_are_packed() -> None:
    halo = ITensor.of_loops((6,), [(0, 3, 2)], (2,), "i8")
    assert pack(halo).shape == (3, 2)
    with pytest.raises(ITensorError, match="along data dim 0 tokens of 4 are not on a grid of 4"):
        pack(ITensor.of_loops((8,), [(0, 3, 2)], (4,), "i8"))


def test_packed_tiles_move_in_full_words() -> None:
    wide = widen(pack(TILES))
    assert pack(TILES).shape == (4, 4, 16, 16)
    assert (wide.itensor.shape, wide.vector) == ((4, 4, 2, 2, 8, 8), (8, 8))
    assert (wide.words_per_token, wide.words, wide.efficiency) == (4, 64, 1.0)
    # A row of 16 bytes is a quarter of a word.
    plain = widen(TILES)
    assert (plain.words_per_token, plain.efficiency, plain.vector) == (16, 0.25, None)


@pytest.mark.parametrize(
    ("element", "dtype", "words", "vector"),
    [
        ((16, 16), "i4", 2, (8, 16)),
        ((4, 4), "f32", 1, (4, 4)),
        ((3, 5), "i8", 1, None),
        ((9, 16), "i8", 3, None),
        ((1, 256), "i8", 4, (1, 64)),
    ],
)
def test_words_are_the_bytes_of_a_tile_over_64(
    element: tuple[int, int], dtype: str, words: int, vector: tuple[int, int] | None
) -> None:
    it = ITensor.of_loops((2 * element[0], element[1]), [(0, 2, element[0])], element, dtype)
    wide = widen(pack(it))
    assert (wide.words_per_token, wide.vector) == (words, vector)
    assert wide.words_per_token == -(-it.bytes_of(it.token_cells) // 64)
    assert wide.itensor.tokens == it.tokens


def test_rows_of_a_full_width_are_one_run() -> None:
    it = ITensor.of_loops((16, 100), [(0, 4, 4)], (4, 100), "i8")
    assert widen(it).words_per_token == 7
    with pytest.raises(ITensorError, match="a port of 20 bits does not hold a whole number"):
        widen(it, port_bits=20)
