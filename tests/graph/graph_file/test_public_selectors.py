"""Selectors: their levels come from the array, and must be those of the data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.errors import ArgError, GraphFileError
from stepsim.functional import evaluate
from tests.graph.graph_file.support import edited
from tests.graph.graph_file.test_round_trip import check

EYE = np.eye(2, dtype=int)
SPEC = st.spec(16, 8, dtype="f32")


def load(*shape: int, **options: Any) -> st.Stream:
    """Tiles of 1 x 8 from the beginning of the tensor."""
    stride = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return st.linear_load(SPEC, (1, 8), shape=shape, stride=stride, **options)


def halves(data: Callable[[], st.Stream], flags: Any, rank: int) -> st.Program:
    with st.Program("halves", compute_bw=1) as program:
        for part in st.partition(data(), st.selector(flags, label="which"), rank=rank):
            part.consume()
    return program


@pytest.mark.parametrize("generation", ["A", "B"])
@pytest.mark.parametrize(
    ("shape", "levels"),
    [((2,), [1]), ((3, 2), [0, 0, 1]), ((2, 3, 2), [0, 0, 1, 0, 0, 2])],
)
def test_levels_of_selectors_come_from_their_array(
    generation: str, shape: tuple[int, ...], levels: list[int]
) -> None:
    """One that states no shape has the rank of its array, without the width."""
    with st.Program("which") as program:
        st.selector(EYE[[[0, 1, 0]]]).consume()

    def shapeless(operators: Any) -> None:
        for one in operators:
            del one.stream_shape[:]
            if generation == "B" and one.HasField("SelectGen"):
                del one.SelectGen.tensor_shape_tiled[:]

    flags = np.ones(shape, int)
    data = edited(program.to_graph(generation=generation), shapeless, generation)
    again = st.load_graph(data, arrays={"SelectGen_0": flags}, generation=generation)
    made = again.operators[0].outputs[0]
    assert made.rank == max(len(shape) - 1, 1)
    assert [level for _, level in evaluate(again).stream(made)] == levels


@pytest.mark.parametrize(
    ("data", "flags"),
    [
        (lambda: load(1, 4), EYE[[1]]),
        (lambda: load(1, 3, 2).flatten(1, 2), EYE[[0, 1, 0]]),
        (lambda: load(1, 2, 3, 2).flatten(2, 3), EYE[[[0, 1, 1], [0, 1, 0]]]),
    ],
)
def test_selectors_that_end_a_dim_more_than_the_data_are_refused(
    data: Callable[[], st.Stream], flags: Any
) -> None:
    with pytest.raises(GraphFileError, match=r"partition#.*array of which#\d+ .*outer dim of 1"):
        halves(data, flags, rank=1).to_graph()


@pytest.mark.parametrize(
    ("data", "flags", "rank"),
    [
        (lambda: load(4), EYE[[0, 1, 1, 0]], 0),
        (lambda: load(1, 4).flatten(0, 1), EYE[[0, 1, 1, 0]], 0),
        (lambda: load(1, 4), EYE[[[0, 1, 1, 0]]], 0),
        (lambda: load(1, 3, 2), EYE[[[0, 1, 0]]], 1),
        (lambda: load(3, 2), EYE[[0, 1, 0]], 1),
        (lambda: load(3, 2).map(st.fn.exp), EYE[[0, 1, 0]], 1),
        (lambda: load(2, 3, 2), EYE[[[0, 1, 0], [0, 1, 1]]], 1),
    ],
)
def test_selectors_that_end_as_the_data_do_are_written(
    data: Callable[[], st.Stream], flags: Any, rank: int, tmp_path: Path
) -> None:
    """Single tiles are not compared, and a load without an outer dim ends one more as well."""
    check(halves(data, flags, rank), {}, tmp_path)


def test_the_source_of_selectors_is_found_through_other_operators() -> None:
    with st.Program("copies", compute_bw=1) as program:
        which = st.selector(EYE[[0, 1, 0]], label="which")
        for stream in (load(1, 3, 2).flatten(1, 2), load(1, 3, 2).flatten(1, 2)):
            for part in st.partition(stream, which, rank=1):
                part.consume()
    with pytest.raises(GraphFileError, match=r"partition#.*array of which#"):
        program.to_graph()


def test_what_no_operator_reads_is_refused(tmp_path: Path) -> None:
    """As a key of a mapping is: a key of an archive, and indices for no selectors."""
    flags = EYE[[0, 1, 1, 0]]
    path = tmp_path / "graph.pb"
    halves(lambda: load(4), flags, 0).to_graph(path)
    (array,) = tmp_path.glob("*.npy")
    with pytest.raises(GraphFileError, match=r"which is one array; name its folder"):
        st.load_graph(path, arrays=array)
    np.savez(tmp_path / "both.npz", **{array.stem: flags, "other": flags})
    with pytest.raises(ArgError, match=r"reads arrays\['other'\]"):
        st.load_graph(path, arrays=tmp_path / "both.npz")
    np.savez(tmp_path / "one.npz", **{array.stem: flags})
    st.load_graph(path, arrays=tmp_path / "one.npz")
    with pytest.raises(ArgError, match="routing: no SelectGen of this graph is without an array"):
        st.load_graph(path, routing=np.array([[99]] * 3))
