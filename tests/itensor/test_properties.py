"""Types, matching and converters against brute force on drawn streams."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from stepsim.itensor import (
    ITensor,
    converter,
    cut_points,
    difference,
    live_lower_bound,
    loop_prefix,
    matches,
)
from tests.itensor.drawn import shapes, streams, tilings
from tests.itensor.enumeration import cell_masks, cuts_of, least_uniform, most_live, tokens_of
from tests.property_profile import profile


@st.composite
def pairs(
    draw: st.DrawFn, *, rank: int = 3, source_revisits: bool = True, ordered: bool = False
) -> tuple[ITensor, ITensor]:
    shape = draw(shapes(rank))
    return (
        draw(tilings(shape, revisits=source_revisits, ordered=ordered)),
        draw(tilings(shape, revisits=True, ordered=ordered)),
    )


@pytest.mark.slow
@given(streams())
@profile(300)
def test_sizes_of_a_type_equal_its_enumeration(it: ITensor) -> None:
    tokens = tokens_of(it)
    assert it.tokens == len(tokens)
    assert [tuple(at) for at in it.offsets().tolist()] == [offset for offset, _ in tokens]
    reach = [max(offset[i] + size[i] for offset, size in tokens) for i in range(len(it.element))]
    assert it.shape == tuple(reach)
    assert it.distinct_offsets == len(set(tokens))
    masks = cell_masks(sorted(set(tokens)), it.shape)
    union = 0
    overlap = False
    for mask in masks:
        overlap |= bool(union & mask)
        union |= mask
    assert it.covers_all_cells == (union.bit_count() == it.cells)
    assert it.tiles_overlap == overlap
    once = it.last_pass()
    assert matches(once, it) == (not any(loop.is_revisit for loop in it.normal_form().loops))
    # What is sent last of each token, in that order, wherever no two loops reach one place.
    if once.distinct_offsets == once.tokens:
        last = {token: at for at, token in enumerate(tokens)}
        assert tokens_of(once) == sorted(last, key=last.__getitem__)


@pytest.mark.slow
@given(pairs() | st.tuples(streams(), streams()))
@profile(400)
def test_streams_match_iff_their_tokens_are_equal(pair: tuple[ITensor, ITensor]) -> None:
    ours, theirs = (tokens_of(it) for it in pair)
    assert matches(*pair) == (ours == theirs)
    found = difference(*pair)
    if ours == theirs:
        assert found is None
        assert converter(*pair).kind == "fifo"
        return
    assert found is not None
    differs = [a != b for a, b in zip(ours, theirs, strict=False)]
    assert found.token == (differs.index(True) if any(differs) else len(differs))
    for it, offset in ((pair[0], found.src_offset), (pair[1], found.dst_offset)):
        tokens = tokens_of(it)
        assert offset == (tokens[found.token][0] if found.token < len(tokens) else None)
    assert str(pair[0]) in str(found)
    assert str(pair[1]) in str(found)
    assert "to match:" in str(found)


@given(st.data())
@profile(150)
def test_other_spellings_of_a_stream_match(data: st.DataObject) -> None:
    it = data.draw(streams())
    again = ITensor.of_normal_form(it.normal_form(), it.dtype)
    assert tokens_of(again) == tokens_of(it)
    assert matches(it, again)


@pytest.mark.slow
@given(pairs(source_revisits=False))
@profile(300)
def test_chunks_are_the_least_of_equal_halves(pair: tuple[ITensor, ITensor]) -> None:
    cuts = cuts_of(*pair)
    assert list(cut_points(*pair).cells) == cuts
    chunk = loop_prefix(*pair)
    assert chunk is not None
    least = least_uniform(cuts)
    assert math.prod(chunk) == least
    found = converter(*pair)
    assert found.cells == (0 if matches(*pair) else least)


@given(pairs(rank=2, source_revisits=False))
@profile(100)
def test_live_cells_are_those_of_the_best_order(pair: tuple[ITensor, ITensor]) -> None:
    assert live_lower_bound(*pair) == most_live(*pair)


@pytest.mark.slow
@given(pairs(source_revisits=False))
@profile(150)
def test_shared_loops_fill_and_drain_whole_chunks(pair: tuple[ITensor, ITensor]) -> None:
    found = converter(*pair)
    if found.kind == "fifo":
        return
    assert found.reuse * found.cells == pair[0].cells
    for it, loops in zip(pair, (found.fill, found.drain), strict=True):
        nest = (*found.shared_loops, *loops)
        assert math.prod(loop.trip for loop in nest) == it.tokens
        inside = ITensor.of_normal_form(it.normal_form()._replace(loops=loops), it.dtype)
        assert inside.shape == found.chunk
        assert inside.covers_all_cells
