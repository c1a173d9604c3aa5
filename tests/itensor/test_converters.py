"""Converters: the published examples, what is refused, and what a difference says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stepsim.errors import ITensorError
from stepsim.itensor import (
    AffineMap,
    ITensor,
    Loop,
    cast,
    converter,
    cut_points,
    difference,
    min_uniform_cells,
    printed,
)
from tests.itensor.fig5 import A, B, C

ROWS = ITensor.of_loops((64, 64), [(0, 4, 16), (1, 4, 16)], (16, 16), "i8")


def _of(loops: Sequence[tuple[int | None, int, int]]) -> ITensor:
    return ITensor.of_loops((64, 64), loops, (16, 16), "i8")


def test_the_pair_of_figure_5_shares_columns() -> None:
    found = converter(B, C)
    assert (found.kind, found.chunk, found.cells, found.bytes) == ("prefix", (8, 2), 16, 128)
    assert found.shared_loops == (Loop(4, (0, 2)),)
    assert found.fill == (Loop(2, (4, 0)),)
    assert found.drain == (Loop(2, (0, 0)), Loop(2, (4, 0)))
    assert found.reuse == 4
    assert printed(B, C).chunk == (8, 8)
    assert repr(found).splitlines() == [
        "chunk 8x2 of 8x8, filled 4 times, 2 x 16 cells of f32 = 128 bytes",
        "for c0 in 0, 1, 2, 3:  # at (0, 2*c0)",
        "  fill:",
        "    for f0 in 0, 1:  # at (4*f0, 0)",
        "      4x2",
        "  drain:",
        "    for d0 in 0, 1:  # again",
        "      for d1 in 0, 1:  # at (4*d1, 0)",
        "        4x2",
    ]


def test_equal_streams_need_a_fifo_alone() -> None:
    found = converter(B, B)
    assert (found.kind, found.cells, found.bytes, found.reuse) == ("fifo", 0, 0, 8)
    assert repr(found) == "a FIFO, no converter"


def test_shared_rows_keep_a_quarter() -> None:
    found = converter(ROWS, _of([(0, 4, 16), (None, 2, 1), (1, 4, 16)]))
    assert (found.chunk, found.cells, found.reuse) == ((16, 64), 1024, 4)


def test_transposed_tiles_keep_everything() -> None:
    transposed = _of([(1, 4, 16), (0, 4, 16)])
    found = converter(ROWS, transposed)
    assert (found.kind, found.cells, found.reuse) == ("whole", 4096, 1)
    assert min_uniform_cells(ROWS, transposed) == 4096


def test_tiles_of_other_sizes_meet_at_common_borders() -> None:
    src = ITensor.of_loops((24, 4), [(0, 6, 4)], (4, 4), "i4")
    dst = ITensor.of_loops((24, 4), [(0, 4, 6)], (6, 4), "i4")
    found = converter(src, dst)
    assert (found.chunk, found.cells, found.bytes) == ((12, 4), 48, 48)
    assert found.shared_loops == (Loop(2, (12, 0)),)
    assert (found.fill, found.drain) == ((Loop(3, (4, 0)),), (Loop(2, (6, 0)),))


def test_loops_that_skip_share_cells_with_gaps() -> None:
    strided = [(0, 4, 1), (0, 4, 4)]
    src = ITensor.of_loops((16, 2), [*strided, (1, 2, 1)], (1, 1), "f32")
    dst = ITensor.of_loops((16, 2), [strided[0], (1, 2, 1), strided[1]], (1, 1), "f32")
    found = converter(src, dst)
    assert (found.chunk, found.cells) == ((4, 2), 8)
    assert found.shared_loops == (Loop(4, (1, 0)),)
    assert found.fill == (Loop(4, (1, 0)), Loop(2, (0, 1)))
    assert found.cells == min_uniform_cells(src, dst)


def test_converters_of_many_tokens_are_not_enumerated() -> None:
    n = 1 << 16
    src = ITensor.of_loops((16 * n, 16 * n), [(0, n, 16), (1, n, 16)], (16, 16), "i8")
    dst = ITensor.of_loops((16 * n, 16 * n), [(0, n, 16), (None, 9, 1), (1, n, 16)], (16, 16), "i8")
    assert converter(src, dst).chunk == (16, 16 * n)
    found = difference(src, dst)
    assert found is not None
    assert (found.token, found.src_offset, found.dst_offset) == (n, (16, 0), (0, 0))


def test_irregular_streams_keep_everything() -> None:
    halo = ITensor.of_loops((64, 64), [(0, 31, 2), (1, 4, 16)], (4, 16), "i8")
    assert (converter(ROWS, halo).kind, converter(ROWS, halo).cells) == ("whole", 4096)


PARTIAL = _of([(None, 3, 1), (0, 4, 16), (1, 4, 16)])


def test_a_source_that_repeats_is_refused() -> None:
    with pytest.raises(ITensorError) as error:
        converter(PARTIAL, _of([(1, 4, 16), (0, 4, 16)]))
    message = str(error.value)
    assert "sends 48 tokens, but only 16 different ones" in message
    assert "accumulate them in the kernel and send the last pass" in message
    assert "repeats='anew'" in message
    assert converter(PARTIAL.last_pass(), ROWS).kind == "fifo"


def test_a_source_that_repeats_without_a_revisit_loop_is_refused() -> None:
    twice = ITensor((1,), (3, 3), (1, 1), AffineMap((((1, 1), 0),), 2), "f32")
    with pytest.raises(ITensorError, match="sends 9 tokens, but only 5 different ones"):
        converter(twice, ITensor.of_loops((5,), [(0, 5, 1)], (1,), "f32"))


def test_repeats_with_new_values_are_shared() -> None:
    found = converter(PARTIAL, _of([(None, 3, 1), (1, 4, 16), (0, 4, 16)]), repeats="anew")
    assert (found.kind, found.cells, found.reuse) == ("whole", 4096, 3)
    found = converter(PARTIAL, _of([(None, 6, 1), (0, 4, 16), (1, 4, 16)]), repeats="anew")
    assert found.shared_loops == (Loop(3, (0, 0)),)
    assert found.drain[0] == Loop(2, (0, 0))
    inside = [(0, 4, 16), (None, 2, 1), (1, 4, 16)]
    found = converter(_of(inside), _of([*inside[:2], (None, 2, 1), inside[2]]), repeats="anew")
    assert (found.chunk, found.reuse) == ((16, 64), 8)


def test_repeats_with_new_values_have_to_be_shared() -> None:
    with pytest.raises(ITensorError, match="in loops that it shares with the source"):
        converter(PARTIAL, _of([(None, 4, 1), (0, 4, 16), (1, 4, 16)]), repeats="anew")


def test_streams_of_two_tensors_are_refused() -> None:
    with pytest.raises(ITensorError, match=r"shape \(64, 64\) and \(8, 8\); view one of them"):
        converter(ROWS, ITensor.of_loops((8, 8), [], (8, 8), "i8"))
    with pytest.raises(ITensorError, match="scalar type i8 and f32; compute the other"):
        converter(ROWS, ITensor.of_loops((64, 64), [], (64, 64), "f32"))
    gaps = ITensor.of_loops((7,), [(0, 4, 2)], (1,), "f32")
    whole = ITensor.of_loops((7,), [], (7,), "f32")
    with pytest.raises(ITensorError, match="reads elements that the source does not send"):
        converter(gaps, whole)
    assert converter(whole, gaps).cells == 7
    with pytest.raises(ITensorError, match="do not send the same elements: 4 and 7 of 7"):
        cut_points(gaps, whole)


def test_a_difference_names_both_and_what_helps() -> None:
    assert str(difference(B, C)).splitlines() == [
        "streams differ at token 2:",
        f"  source {B} sends the 4x2 at (0, 2)",
        f"  target {C} sends the 4x2 at (0, 0)",
        "  to match: let the target read every token once: move its revisit loops innermost and "
        "keep the token in the kernel",
        "  to match: put a converter between them: chunk 8x2 of 8x8, filled 4 times, "
        "2 x 16 cells of f32 = 128 bytes",
    ]
    assert difference(B, B) is None


@pytest.mark.parametrize(
    ("src", "dst", "remedy"),
    [
        (A, B, "tile both kernels alike, with element 4x2 or 2x2"),
        (ROWS, _of([(1, 4, 16), (0, 4, 16)]), "permute the loops of one kernel"),
        (PARTIAL, ROWS, "let the source send every token once"),
        (PARTIAL, ROWS, "no converter joins them: no converter from"),
        (B, ITensor.of_loops((8, 8), [], (8, 8), "i8"), "compute i8 from f32 in a kernel"),
        (B, ITensor.of_loops((9, 9), [], (9, 9), "f32"), "are not the same: 8x8 and 9x9"),
        (A, ITensor.of_loops((4, 2, 8), [(0, 4, 1), (2, 4, 2)], (1, 2, 2), "f32"), "view the"),
        (B, ITensor.of_loops((64,), [], (64,), "f32"), "which is no view here"),
    ],
)
def test_a_difference_says_what_would_match(src: ITensor, dst: ITensor, remedy: str) -> None:
    found = difference(src, dst)
    assert found is not None
    assert any(remedy in text for text in found.remedies), found.remedies


def test_a_stream_that_is_over_is_named() -> None:
    longer = ITensor.of_loops((64, 64), [(None, 3, 1), (0, 4, 16), (1, 4, 16)], (16, 16), "i8")
    assert "is over after 16 tokens" in str(difference(ROWS, longer))


def test_cast_changes_the_writing_alone() -> None:
    other = _of([(0, 2, 32), (0, 2, 16), (None, 1, 5), (1, 4, 16)])
    assert cast(ROWS, other) is other
    with pytest.raises(ITensorError, match="cast: streams differ at token 1"):
        cast(ROWS, _of([(1, 4, 16), (0, 4, 16)]))
