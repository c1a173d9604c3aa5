"""Tensors of stores, and arrays of streams."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, EvaluationError, MachineError
from stepsim.functional import evaluate
from stepsim.graph import Program, fn
from stepsim.simulation import run_functional
from tests.functional.support import run_both


def _ragged(lengths: tuple[int, int]) -> st.Stream:
    """``[2, ~len]`` tiles of one scalar."""
    data = np.arange(8, dtype=np.float32)[:, np.newaxis]
    starts = st.metadata([0, 4]).flat_map(fn.cache_read_addresses(1), st.metadata(list(lengths)))
    return st.random_load(starts, data, (1, 1))


@pytest.mark.parametrize("lengths", [(2, 2), (2, 3), (1, 1)])
def test_the_layout_of_a_ragged_stream_does_not_follow_from_its_sizes(
    lengths: tuple[int, int],
) -> None:
    with Program() as p:
        st.linear_store(_ragged(lengths), "out")
    assert run_both(p).stored["out"].shape == (sum(lengths), 1)


def test_streams_of_equal_tiles_are_arrays() -> None:
    data = np.arange(24, dtype=np.float32).reshape(4, 6)
    with Program() as p:
        x = st.linear_load(data, (2, 3))
        n = st.metadata([[1, 2]])
        none, _ = st.partition(x.flatten(0, 1), st.selector(np.eye(2, dtype=int)[[1] * 4]), rank=0)
        none = none.reshape(2, pad=0)
        for stream in (x, n, none, _):
            stream.consume()
    values = run_both(p)
    assert values.array(x).dtype == np.float32
    np.testing.assert_array_equal(values.array(x), data.reshape(2, 2, 2, 3).transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(values.array(n), np.array([[[[1]], [[2]]]], np.uint64))
    assert values.array(none).shape == (0, 2, 2, 3)


def test_streams_that_are_no_arrays_are_refused() -> None:
    with Program(compute_bw=8) as p:
        x = st.linear_load(np.ones((2, 4), np.float32), (2, 2)).flatten(0, 1)
        padded = st.map(fn.set_offset, x, st.metadata([1, 2]))
        packed = _ragged((1, 3)).accum(fn.pack_rows, 1)
        streams = {
            "tiles with padding": padded, "dims of different sizes": _ragged((1, 3)),
            "tiles of 1x1 and 3x1": packed, "carries no tiles": st.selector(np.eye(2, dtype=int)),
        }  # fmt: skip
        for stream in streams.values():
            stream.consume()
    values = run_both(p)
    for message, stream in streams.items():
        with pytest.raises(EvaluationError, match=message):
            values.array(stream)


def _difference(label: str = "x") -> tuple[Program, st.Stream, st.Stream]:
    """``x - x``, by two loads of one tensor."""
    with Program() as program:
        a, b = (st.linear_load(st.spec(4, 4, name=label, dtype="f32"), (2, 4)) for _ in range(2))
        st.linear_store(st.map(fn.sub, a, b), "y")
    return program, a, b


def test_loads_of_one_tensor_take_one_array() -> None:
    program, _, _ = _difference()
    first, second = program.operators[:2]
    x = np.ones((4, 4), np.float32)
    for given in ({first: x}, {"x": x}, {first: x, second: x.copy()}, {"x": x, second: x}):
        assert not evaluate(program, given).stored["y"].any()
    for given in ({first: x, second: 10 * x}, {"x": x, second: 10 * x}):
        with pytest.raises(EvaluationError, match=r"read one tensor, .*, and were given different"):
            evaluate(program, given)


def test_streams_of_other_programs_are_refused() -> None:
    program, a, _ = _difference()
    _, other, _ = _difference("z")
    found = evaluate(program, {"x": np.ones((4, 4), np.float32)})
    assert found.array(a).all()
    for ask in (found.array, found.stream, found.nested, found.shape):
        with pytest.raises(ArgError, match="belongs to program"):
            ask(other)


@pytest.mark.parametrize("scalar", ["bool", "u64", "i32", "i8", "i4"])
def test_programs_are_evaluated_in_floating_point(scalar: str) -> None:
    program, _, _ = _difference()
    with pytest.raises(
        ArgError, match=f"scalar: expected a floating point type.* found '{scalar}'"
    ):
        evaluate(program, {"x": np.ones((4, 4), np.float32)}, scalar=scalar)


def test_what_a_program_does_not_need_is_checked_all_the_same() -> None:
    program, _, _ = _difference()
    tensors = {"x": np.ones((4, 4), np.float32)}
    with pytest.raises(MachineError, match="machine"):
        run_functional(program, tensors, machine="no such machine")
    for depth in (-5, {"foo": 2}):
        with pytest.raises(ArgError):
            run_functional(program, tensors, fifo_depth=depth)
    assert not run_functional(program, tensors, fifo_depth=3).stored["y"].any()
