"""Convolutions, pooling, padding and sums along an axis: values, costs, traffic, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from stepsim.design import (
    DataflowGraph,
    GraphBuilder,
    OperatorGraph,
    fuse_kernels,
    kernels_of,
    permute,
    tile,
)
from stepsim.errors import CompileError
from tests.design.compiled import same_on_tiles

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(4)


def windows_of(x: Array, widths: Any, steps: Any, apart: Any) -> Array:
    """Windows of all axes behind the first two, with their places in the last axes."""
    axes = tuple(range(2, x.ndim))
    reach = [d * (k - 1) + 1 for k, d in zip(widths, apart, strict=True)]
    seen = sliding_window_view(x, reach, axes)
    at = [slice(None), slice(None), *(slice(None, None, n) for n in (*steps, *apart))]
    return seen[tuple(at)]


def convolved(x: Array, w: Array, stride: Any, padding: Any, dilation: Any, groups: int) -> Array:
    """A convolution by numpy alone."""
    spatial = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *((n, n) for n in padding)])
    seen = windows_of(x, w.shape[2:], stride, dilation)
    seen = seen.reshape(x.shape[0], groups, -1, *seen.shape[2:])
    places = "uvw"[:spatial]
    own = w.reshape(groups, -1, *w.shape[1:])
    made = np.einsum(f"ngcxyz{places},gkc{places}->ngkxyz".replace("xyz", "xyz"[:spatial]),
                     seen, own)  # fmt: skip
    return made.reshape(x.shape[0], w.shape[0], *made.shape[3:])


CASES: dict[str, tuple[Any, ...]] = {
    # shape of x, weight, stride, padding, dilation, groups
    "3x3": ((2, 3, 6, 6), (5, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "strided": ((1, 3, 9, 8), (4, 3, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "1x1 strided": ((1, 4, 5, 6), (8, 4, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    "dilated in groups": ((1, 4, 7, 8), (6, 2, 3, 2), (1, 2), (1, 2), (2, 1), 2),
    "depthwise": ((1, 4, 6, 8), (4, 1, 3, 3), (1, 1), (1, 1), (1, 1), 4),
    "depthwise in one dim": ((2, 8, 10), (8, 1, 4), (1,), (3,), (1,), 8),
    "in three dims": ((1, 2, 3, 4, 5), (3, 2, 2, 3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 1),
}


def conv_graph(case: tuple[Any, ...]) -> tuple[OperatorGraph, dict[str, Array], Array]:
    shape, weight, stride, padding, dilation, groups = case
    spatial = len(weight) - 2
    b = GraphBuilder("conv", dtype="f32")
    x = b.input("x", shape)
    stored = b.weight("w", (*weight[2:], weight[1], weight[0]))
    w = b.permute(stored, (spatial + 1, spatial, *range(spatial)))
    made = b.conv(x, w, b.weight("b", weight[:1]), stride, padding, dilation, groups)
    b.output(b.apply("relu", made), "y")
    values = {"x": RANDOM.normal(size=shape), "b": RANDOM.normal(size=weight[0])}
    kernel = RANDOM.normal(size=weight)
    values["w"] = kernel.transpose((*range(2, spatial + 2), 1, 0))
    expected = convolved(values["x"], kernel, stride, padding, dilation, groups)
    column = values["b"].reshape(-1, *(1,) * spatial)
    return b.graph(), values, np.maximum(expected + column, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_convolutions_have_the_values_and_flops_of_their_formula(name: str) -> None:
    graph, values, expected = conv_graph(CASES[name])
    made = graph.evaluate(values)["y"]
    np.testing.assert_allclose(made.reshape(expected.shape), expected, atol=1e-4)
    out, inner, *places = CASES[name][1]
    # A product and a sum for each place; a sum with the bias and a relu for each result.
    assert graph.flops == expected.size * (2 * inner * int(np.prod(places)) + 2)
    assert graph.parameters == out * (inner * int(np.prod(places)) + 1)
    same_on_tiles(graph, values)


@pytest.mark.parametrize("order", ["reductions_innermost", "reductions_outermost"])
def test_groups_keep_the_values_of_windows(order: str) -> None:
    graph, values, _ = conv_graph(CASES["strided"])
    assert len(same_on_tiles(graph, values, 4, 0, order).groups) > 1


def loads_of(made: DataflowGraph, tensor: str) -> int:
    return sum(d.traffic for d in made.dmas if (d.tensor, d.direction) == (tensor, "load"))


@pytest.mark.parametrize(
    ("reuse_bytes", "times"),
    [
        (1 << 18, 1.0),  # the input once
        (2 * 4 * 3 * 8 * 4, 6 * 3 / 8),  # for each row of the result the three rows under it
        (0, 9 * 6 * 6 / 64),  # every window anew
    ],
)
def test_windows_are_loaded_once_where_a_buffer_fits(reuse_bytes: int, times: float) -> None:
    """Of [channels, 8, 8] without padding, read in windows of 3 x 3 at 6 x 6 places."""
    b = GraphBuilder("conv", dtype="f32")
    x = b.permute(b.input("x", (1, 8, 8, 4)), (0, 3, 1, 2))
    w = b.permute(b.weight("w", (3, 3, 4, 4)), (3, 2, 0, 1))
    b.output(b.conv(x, w), "y")
    values = {"x": RANDOM.normal(size=(1, 8, 8, 4)), "w": RANDOM.normal(size=(3, 3, 4, 4))}
    made = same_on_tiles(b.graph(), values, 4, 1 << 40, "reductions_innermost", reuse_bytes)
    assert loads_of(made, "x") == times * 4 * 8 * 8 * 4
    assert all(dma.converter_bytes <= max(reuse_bytes, 2 * 4 * 4 * 4) for dma in made.dmas)


def test_results_of_windows_are_stored_with_channels_last() -> None:
    """So that the tiles of what follows have positions and channels."""
    b = GraphBuilder("net", dtype="f32")
    x = b.input("x", (1, 3, 6, 6))
    w = b.permute(b.weight("w", (3, 3, 3, 8)), (3, 2, 0, 1))
    y = b.pool(b.add(b.apply("relu", b.conv(x, w, padding=1)), 1.0), "max", 2)
    b.output(b.mean(b.reshape(y, (1, 8, 9)), -1), "y")
    graph = b.graph()
    shapes = {op.kind + op.name: graph.tensors[op.output.tensor].shape for op in graph.ops}
    assert shapes["padconv.pad"] == (1, 8, 8, 3)
    assert shapes["genericconv.conv"] == shapes["genericrelu"] == (1, 6, 6, 8)


def _pooled(x: Array, kind: str, widths: Any, steps: Any, padding: Any, apart: Any) -> Array:
    fill = 0.0 if kind == "sum" else -np.inf
    x = np.pad(x, [(0, 0), (0, 0), *((n, n) for n in padding)], constant_values=fill)
    seen = windows_of(x, widths, steps, apart)
    axes = tuple(range(-len(widths), 0))
    found: Array = seen.sum(axes) if kind == "sum" else seen.max(axes)
    return found


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize(
    ("widths", "steps", "padding", "apart"),
    [((3, 3), (2, 2), (1, 1), (1, 1)), ((2, 2), (2, 2), (0, 0), (1, 1)),
     ((2, 3), (1, 2), (0, 1), (2, 1))],
)  # fmt: skip
def test_pooling_is_a_reduction_over_windows(
    kind: Any, widths: Any, steps: Any, padding: Any, apart: Any
) -> None:
    x = RANDOM.normal(size=(2, 4, 8, 7))
    b = GraphBuilder("pool", dtype="f32")
    made = b.pool(b.apply("neg", b.input("x", x.shape)), kind, widths, steps, padding, apart)
    b.output(made, "y")
    graph = b.graph()
    expected = _pooled(-x, kind, widths, steps, padding, apart)
    found = graph.evaluate({"x": x})["y"].reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert graph.flops == x.size + expected.size * int(np.prod(widths))
    same_on_tiles(graph, {"x": x})


def test_an_elementwise_operator_is_not_computed_again_for_each_window() -> None:
    b = GraphBuilder("pool", dtype="f32")
    b.output(b.pool(b.apply("exp", b.input("x", (1, 4, 8, 8))), "sum", 3, 1), "y")
    made = same_on_tiles(b.graph(), {"x": RANDOM.normal(size=(1, 4, 8, 8))})
    assert [kernel.name for kernel in made.kernels] == ["exp", "pool.sum", "copy"]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("order", ["reductions_innermost", "reductions_outermost"])
def test_sums_along_an_axis_cost_an_addition_each(axis: int, order: str) -> None:
    x = RANDOM.normal(size=(3, 8, 6))
    b = GraphBuilder("sums", dtype="f32")
    b.output(b.scale(b.cumsum(b.input("x", x.shape), axis), 2.0), "y")
    graph = b.graph()
    found = graph.evaluate({"x": x})["y"]
    np.testing.assert_allclose(found, 2 * x.cumsum(axis), atol=1e-5)
    assert graph.flops == 2 * x.size
    same_on_tiles(graph, {"x": x}, 2, order=order)


def test_the_loop_of_a_scan_stays_innermost() -> None:
    b = GraphBuilder("sums", dtype="f32")
    b.output(b.cumsum(b.input("x", (4, 6)), 0), "y")
    graph = permute(tile(b.graph(), 2))
    assert graph.ops[0].tiling is not None
    assert graph.ops[0].tiling.order == ("d1", "d0")
    with pytest.raises(CompileError, match=r"'cumsum'.*the innermost loop is d1.*make d0 the inne"):
        permute(graph, orders={"cumsum": ("d0", "d1")})


def test_padding_and_windows_go_through_json() -> None:
    b = GraphBuilder("pad", dtype="f32")
    x = b.input("x", (2, 3))
    b.output(b.unfold(b.pad(x, [(1, 0)], float("-inf")), 1, 2), "y")
    graph = b.graph()
    assert OperatorGraph.from_json(graph.to_json()) == graph
    found = graph.evaluate({"x": np.arange(6.0).reshape(2, 3)})["y"]
    assert found[1].tolist() == [[-np.inf, 3.0], [3.0, 4.0], [4.0, 5.0]]


def _refused(make: Callable[[GraphBuilder, Any], Any]) -> str:
    b = GraphBuilder("net", dtype="f32")
    with pytest.raises(CompileError) as caught:
        make(b, b.input("x", (1, 4, 5, 5)))
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda b, x: b.conv(x, b.weight("w", (4, 3, 3, 3))), "takes 3 channels, Ref(x: 1x4x5x5)"),
        (lambda b, x: b.conv(x, b.weight("w", (4, 4, 7, 7))), "a window of 7 places is wider"),
        (lambda b, x: b.conv(x, b.weight("w", (6, 1, 3, 3)), groups=4), "use a divisor of both"),
        (lambda b, x: b.conv(x, b.weight("w", (4, 4))), "give [batch, channels, *positions]"),
        (lambda b, x: b.conv(x, b.weight("w", (4, 4, 3, 3)), b.weight("b", (3,))), "give 4 values"),
        (lambda b, x: b.conv(x, b.weight("w", (4, 4, 3, 3)), stride=(1, 2, 3)), "or 2 of them"),
        (lambda b, x: b.pool(x, "max", 0), "use an int from 1"),
        (lambda b, x: b.pad(x, [(1, -1)]), "give two ints from 0"),
        (lambda b, x: b.pad(x, [(1, 1)], float("nan")), "fill is nan; use a number"),
        (lambda b, x: b.unfold(x, 2, 3, 0), "stride is 0; use an int from 1"),
        (lambda b, x: b.cumsum(x, 7), "has no axis 7"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, said: str) -> None:
    assert said in _refused(make)


def test_a_load_that_windows_split_is_refused_nowhere() -> None:
    """Tiles of three places at every second one lie on no grid, and still load."""
    b = GraphBuilder("pool", dtype="f32")
    x = b.permute(b.input("x", (1, 5, 9, 4)), (0, 3, 1, 2))
    b.output(b.pool(x, "max", 3, 2), "y")
    graph = b.graph()
    values = {"x": RANDOM.normal(size=(1, 5, 9, 4))}
    made = same_on_tiles(graph, values, 4, reuse_bytes=0)
    assert loads_of(made, "x") == 4 * 4 * 2 * 4 * 9
    kernels = kernels_of(permute(tile(graph, 4)))
    assert loads_of(fuse_kernels(kernels, 1 << 40), "x") == 4 * 5 * 9 * 4
