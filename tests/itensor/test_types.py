"""Typed streams: how they are written, shown, inferred and refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stepsim.errors import ITensorError
from stepsim.itensor import RULES, AffineMap, ITensor, converter, infer
from tests.itensor.fig5 import A, B, C


def test_figure_5_has_its_tokens() -> None:
    assert (A.tokens, B.tokens, C.tokens) == (16, 8, 16)
    assert {it.shape for it in (A, B, C)} == {(8, 8)}
    assert A.offsets()[:5].tolist() == [[0, 0], [0, 2], [0, 4], [0, 6], [2, 0]]
    assert B.offsets()[:5].tolist() == [[0, 0], [4, 0], [0, 2], [4, 2], [0, 4]]
    assert C.offsets()[:6].tolist() == [[0, 0], [4, 0], [0, 0], [4, 0], [0, 2], [4, 2]]
    assert C.revisit_loops == (1,)
    assert str(C) == "itensor<4x2xf32, [4,2,2]*[2,1,4], (d0,d1,d2)->(d2,d0)>"


def test_repr_shows_the_loop_nest() -> None:
    assert repr(C).splitlines() == [
        "itensor<4x2xf32, [4,2,2]*[2,1,4], (d0,d1,d2)->(d2,d0)>  # 8x8, 16 tokens of 256 bits",
        "for d0 in 0, 2, 4, 6:",
        "  for d1 in 0, 1:  # revisit: all inside is sent again",
        "    for d2 in 0, 4:",
        "      send [d2 : +4, d0 : +2]",
    ]
    long = ITensor.of_loops((80, 1), [(0, 5, 16)], (16, 1), "i8")
    assert repr(long).splitlines()[1:] == [
        "for d0 in 0, 16, 32, .., 64:",
        "  send [d0 : +16, 0]",
    ]


def test_every_broken_rule_has_its_message() -> None:
    identity = AffineMap((((1,), 0), ((0,), 0)), 1, num_symbols=1)
    broken = ITensor.violations((0,), (0, 2), (0,), identity, 0)
    assert [rule for rule, _ in broken] == [
        "symbols",
        "trips_vs_dims",
        "steps_vs_trips",
        "rank",
        "nonpositive_element",
        "nonpositive_trip",
        "nonpositive_step",
        "depth",
    ]
    with pytest.raises(ITensorError) as error:
        ITensor((0,), (0, 2), (0,), identity, "f32", 0)
    message = str(error.value)
    assert message.startswith("not a stream type: itensor<0xf32, [0,2]*[0], (d0)[s0]->(d0,0)>\n")
    assert [line.split(":")[0].strip() for line in message.splitlines()[1:]] == [
        rule for rule, _ in broken
    ]
    assert {rule for rule, _ in broken} < set(RULES)


def test_a_map_below_zero_says_what_to_add() -> None:
    with pytest.raises(ITensorError, match=r"smallest offset is -6 along data dim 0.*add 6"):
        ITensor((2,), (4,), (2,), AffineMap((((-1,), 0),), 1), "f32")
    backwards = ITensor((2,), (4,), (2,), AffineMap((((-1,), 6),), 1), "f32")
    assert backwards.offsets().ravel().tolist() == [6, 4, 2, 0]


def test_a_scalar_is_one_token() -> None:
    it = ITensor((), (), (), AffineMap((), 0), "i4")
    assert (it.shape, it.tokens, it.cells, it.token_bits) == ((), 1, 1, 4)
    assert it.offsets().shape == (1, 0)
    assert it.covers_all_cells
    assert "scalar" in repr(it)


def test_types_do_not_enumerate_tokens() -> None:
    huge = ITensor.of_loops(
        (1 << 20, 1 << 20), [(1, 1 << 16, 16), (0, 1 << 16, 16)], (16, 16), "bf16"
    )
    assert huge.tokens == 1 << 32
    assert huge.covers_all_cells
    assert not huge.tiles_overlap
    assert huge.offset_of((1 << 32) - 1) == (((1 << 20) - 16),) * 2
    overlapping = ITensor.of_loops(
        ((1 << 20) + 2, 1 << 20), [(0, 1 << 16, 16), (1, 1 << 16, 16)], (18, 16), "bf16"
    )
    assert overlapping.covers_all_cells
    assert overlapping.tiles_overlap
    assert overlapping.distinct_offsets == 1 << 32


def test_loops_have_to_fill_the_shape() -> None:
    with pytest.raises(ITensorError, match="reach a tensor of 8x8, expected 8x16"):
        ITensor.of_loops((8, 16), [(0, 4, 2), (1, 4, 2)], (2, 2), "f32")
    with pytest.raises(ITensorError, match="loop 1 drives data dim 2, but the element 2x2"):
        ITensor.of_loops((8, 8), [(0, 4, 2), (2, 4, 2)], (2, 2), "f32")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dtype": "f33"}, "unknown scalar type 'f33'"),
        ({"element": (2, 2.5)}, "element: expected integers, found 2.5"),
        ({"trips": (4, True)}, "trips: expected integers, found True"),
    ],
)
def test_wrong_parts_are_named(wrong: dict[str, object], message: str) -> None:
    parts: dict[str, object] = {
        "element": (2, 2),
        "trips": (4, 4),
        "steps": (2, 2),
        "map": A.map,
        "dtype": "f32",
    }
    with pytest.raises(ITensorError, match=message):
        ITensor(**{**parts, **wrong})  # type: ignore[arg-type]


def test_numbers_of_numpy_are_integers() -> None:
    it = ITensor(tuple(np.array([2, 2])), (np.int32(4), 4), (2, 2), A.map, "f32")  # type: ignore[arg-type]
    assert it == A
    assert hash(it) == hash(A)


def test_names_of_scalar_types_are_one() -> None:
    assert ITensor.of_loops((4,), [], (4,), "int8") == ITensor.of_loops((4,), [], (4,), "i8")


def test_a_map_has_a_coefficient_per_loop() -> None:
    with pytest.raises(ITensorError, match="result 1 has 1 coefficients, but the map has 2 loops"):
        AffineMap((((1, 0), 0), ((1,), 0)), 2)


def test_streams_of_a_matmul_are_inferred() -> None:
    nest = [("k", 4, 16), ("i", 2, 32), ("j", 8, 8)]
    a = infer(nest, ["i", "k"], (32, 16), "f32")
    b = infer(nest, ["k", "j"], (16, 8), "f32")
    c = infer(nest, ["i", "j"], (32, 8), "f32")
    assert (a.shape, b.shape, c.shape) == ((64, 64),) * 3
    assert (a.revisit_loops, b.revisit_loops, c.revisit_loops) == ((2,), (1,), (0,))
    assert str(a.map) == "(d0,d1,d2)->(d1,d0)"
    assert (c.tokens, c.last_pass().tokens) == (64, 16)
    assert c.last_pass() == infer(nest[1:], ["i", "j"], (32, 8), "f32")


def test_offsets_are_sums_of_loops() -> None:
    nest = [("i", 4, 1), ("k", 3, 1)]
    halo = infer(nest, ["2*i + k", 0], (1, 5), "i8")
    assert halo == infer(nest, [{"i": 2, "k": 1}, "0"], (1, 5), "i8")
    assert halo.shape == (9, 5)
    assert halo.tiles_overlap is False
    assert halo.distinct_offsets == 9
    assert infer(nest, ["3 - i", "k"], (1, 1), "i8").offsets()[0].tolist() == [3, 0]


@pytest.mark.parametrize("text", ["", "i +", "2i", "i j", "i ++ k", "3*4", "i.k"])
def test_offsets_that_are_no_sums_are_refused(text: str) -> None:
    with pytest.raises(ITensorError, match="expected a sum such as"):
        infer([("i", 2, 1), ("j", 2, 1), ("k", 2, 1)], [text], (1,), "i8")


def test_offsets_name_loops() -> None:
    with pytest.raises(ITensorError, match="'row' is not a loop of rows, k; did you mean 'rows'"):
        infer([("rows", 2, 1), ("k", 2, 1)], ["row"], (1,), "i8")
    with pytest.raises(ITensorError, match="every loop needs a name of its own"):
        infer([("k", 2, 1), ("k", 2, 1)], ["k"], (1,), "i8")


def test_a_token_that_is_not_sent_has_no_offset() -> None:
    stream = infer([("i", 4, 2)], ["i"], (2,), "i8")
    assert stream.offset_of(3) == (6,)
    for token in (-1, 4):
        with pytest.raises(ITensorError, match=f"has no token {token}; use an int from 0 below 4"):
            stream.offset_of(token)


@pytest.mark.parametrize("depth", [0, 2.5, True])
def test_depths_are_whole_numbers(depth: Any) -> None:
    it = ITensor.of_loops((4,), [(0, 2, 2)], (2,), "i8")
    with pytest.raises(ITensorError, match=f"FIFO depth {depth}, expected an integer, at least 1"):
        replace(it, depth=depth)


def test_repeats_are_of_two_kinds() -> None:
    again: Any = "again"
    stream = infer([("i", 4, 2)], ["i"], (2,), "i8")
    with pytest.raises(ITensorError, match="repeats is 'again', expected 'reject' or 'anew'"):
        converter(stream, stream, repeats=again)
