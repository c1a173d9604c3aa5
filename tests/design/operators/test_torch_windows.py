"""Convolutions, pooling, sums, gather and scatter of PyTorch: in graphs and in programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from stepsim.design.operators.importers import ImportedGraph, from_torch
from stepsim.errors import CompileError
from tests.design.compiled import same_on_tiles
from tests.design.operators.example_models import require_torch
from tests.design.operators.test_torch_import import agrees, module_of

pytestmark = pytest.mark.torch

IMAGE, LINE, ROWS = (2, 4, 6, 7), (2, 4, 9), (4, 6)


@pytest.fixture(scope="module")
def torch() -> Any:
    return require_torch()


def checked(torch: Any, module: Any, inputs: Any) -> ImportedGraph:
    """The graph of a module, whose values are PyTorch's in the interpreter and in its program."""
    graph = from_torch(module, inputs)
    agrees(graph, module, inputs, torch)
    values = {n: x.numpy() for n, x in zip(graph.order, inputs, strict=True) if n is not None}
    same_on_tiles(graph.plain(), {**graph.arrays, **values})
    return graph


def _cases(torch: Any) -> Mapping[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]]:
    f = torch.nn.functional
    return {
        "conv2d-same": (lambda m, x, w: f.conv2d(x, w, padding="same"), (IMAGE, (3, 4, 4, 3))),
        "conv2d-groups": (lambda m, x, w, b: f.conv2d(x, w, b, (2, 1), (1, 0), (1, 2), 2),
                          (IMAGE, (6, 2, 3, 3), (6,))),
        "conv1d-depthwise": (lambda m, x, w: f.silu(f.conv1d(x, w, padding=3, groups=4)[..., :9]),
                             (LINE, (4, 1, 4))),
        "conv1d-no-batch": (lambda m, x, w: f.conv1d(x, w, padding="valid"), ((4, 9), (5, 4, 3))),
        "conv3d": (lambda m, x, w: f.conv3d(x, w), ((1, 2, 3, 4, 4), (2, 2, 2, 2, 3))),
        "conv-computed-weight": (lambda m, x, w: f.conv2d(x, w * 2), (IMAGE, (3, 4, 2, 2))),
        "max-pool": (lambda m, x: f.max_pool2d(x, 3, 2, 1), (IMAGE,)),
        "max-pool-dilated": (lambda m, x: f.max_pool2d(x, 2, 1, 0, (2, 3)), (IMAGE,)),
        "max-pool-ceil": (lambda m, x: f.max_pool1d(x, 2, 2, ceil_mode=True), (LINE,)),
        "avg-pool": (lambda m, x: f.avg_pool2d(x, (2, 3), 2, (1, 1)), (IMAGE,)),
        "avg-pool-inside": (lambda m, x: f.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                            (IMAGE,)),
        "avg-pool-ceil": (lambda m, x: f.avg_pool2d(x, 3, 2, ceil_mode=True), (IMAGE,)),
        "avg-pool-divisor": (lambda m, x: f.avg_pool2d(x, 2, divisor_override=3), (IMAGE,)),
        "adaptive": (lambda m, x: f.adaptive_avg_pool2d(x, (3, None))
                     + f.adaptive_max_pool2d(x, (3, 1)), (IMAGE,)),
        "adaptive-one": (lambda m, x: f.adaptive_avg_pool2d(x, 1).flatten(1), (IMAGE,)),
        "pad": (lambda m, x: f.pad(x, (1, 2, 0, -2), value=0.5), (IMAGE,)),
        "unfold": (lambda m, x: x.unfold(2, 3, 2).sum(1), (IMAGE,)),
        "cumsum": (lambda m, x: x.cumsum(1) * x.cumsum(-1), (LINE,)),
        "topk": (lambda m, x: x.topk(2, largest=False)[0] + x.topk(2, 0)[1].float().sum(),
                 (ROWS,)),
        "argmin": (lambda m, x: x.argmin(1) + x.argmin(), (ROWS,)),
        "argmax": (lambda m, x: x.argmax(1) + x.max(1)[1] + x.max(1)[0] + x.argmax(), (ROWS,)),
        "gather": (lambda m, x: x.gather(1, x.topk(3)[1]), (ROWS,)),
        "scatter": (lambda m, x: torch.zeros_like(x).scatter(1, x.topk(2)[1], x[:, 1:]), (ROWS,)),
        "scatter-value": (lambda m, x: x.scatter(1, x.topk(2)[1], -7.0), (ROWS,)),
        "scatter-add": (lambda m, x: x.scatter_add(1, x.topk(2)[1], x), (ROWS,)),
        "index-add": (lambda m, x: x.index_add(0, x[:, :4].argmax(1), x, alpha=2), (ROWS,)),
        "known-positions": (
            lambda m, x: x.index_add(0, torch.tensor([1, 1, 0, 2]), x)
            + x.scatter_add(1, torch.tensor([[0, 2]] * 4), x)
            + x.gather(1, torch.tensor([[5, 0, 1, 1, 4, 2]] * 4))
            + (2 * x)[:, torch.tensor([0, 2, 4, 1, 3, 5] * 3)][:, :6], (ROWS,),
        ),
        "index": (lambda m, x, w: w[x[:, :3].topk(2)[1]] + w[:, [0, 3, 1, 4, 2]][:1],
                  (ROWS, (3, 5))),
        "index-select": (lambda m, x: x.index_select(1, x.argmax(1)), (ROWS,)),
        "one-hot": (lambda m, x: f.one_hot(x.argmax(1), 6) * x, (ROWS,)),
        "from-the-end": (
            lambda m, x: x[x[:, :3].argmax(1) - 3] + x[:, x.argmax(1) - 6].sum(), (ROWS,),
        ),
        "new-zeros": (lambda m, x: x.new_zeros(6).index_add(0, x.argmax(1), x[:, 0]), (ROWS,)),
    }  # fmt: skip


@pytest.mark.parametrize("name", [
    "conv2d-same", "conv2d-groups", "conv1d-depthwise", "conv1d-no-batch", "conv3d",
    "conv-computed-weight", "max-pool", "max-pool-dilated", "max-pool-ceil", "avg-pool",
    "avg-pool-inside", "avg-pool-ceil", "avg-pool-divisor", "adaptive", "adaptive-one", "pad",
    "unfold", "cumsum", "topk", "argmax", "argmin", "gather", "scatter", "scatter-value",
    "scatter-add", "index-add", "known-positions", "index", "index-select", "one-hot",
    "from-the-end", "new-zeros",
])  # fmt: skip
def test_an_operator_computes_what_pytorch_does(name: str, torch: Any) -> None:
    torch.manual_seed(3)
    forward, shapes = _cases(torch)[name]
    inputs = tuple(torch.randn(shape) for shape in shapes)
    module = module_of(torch, forward)
    checked(torch, module, inputs)


# Batch norms


def _normalized(torch: Any, *layers: Any) -> Any:
    module = torch.nn.Sequential(*layers).eval()
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
            layer.weight.data.normal_(1)
            layer.bias.data.normal_()
    return module


@pytest.mark.parametrize("bias", [False, True])
def test_a_batch_norm_is_folded_into_its_convolution(bias: bool, torch: Any) -> None:
    torch.manual_seed(3)
    nn = torch.nn
    module = _normalized(torch, nn.Conv2d(4, 6, 3, bias=bias), nn.BatchNorm2d(6), nn.ReLU())
    graph = checked(torch, module, (torch.randn(IMAGE),))
    assert [tensor.name for tensor in graph.with_role("weight")] == ["0.weight", "0.bias"]
    assert graph.tensors["0.weight"].shape == (3, 3, 4, 6)
    # 36 products and sums, a sum with the bias and the relu, at 6 channels of 2 x 4 x 5 places.
    assert graph.flops == 2 * 6 * 4 * 5 * (2 * 36 + 2)


def test_a_batch_norm_alone_is_an_affine_map(torch: Any) -> None:
    torch.manual_seed(3)
    nn = torch.nn
    module = _normalized(torch, nn.BatchNorm2d(4))
    graph = checked(torch, module, (torch.randn(IMAGE),))
    assert graph.flops == 2 * 2 * 4 * 6 * 7

    class Shared(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(4, 4, 1), _normalized(torch, nn.BatchNorm2d(4))

        def forward(self, x: Any) -> Any:
            y = self.conv(x)
            return self.norm(y) + y

    checked(torch, Shared().eval(), (torch.randn(IMAGE),))


# What is refused


def test_what_cannot_be_read_says_why(torch: Any) -> None:
    nn, f = torch.nn, torch.nn.functional
    image, rows = torch.randn(IMAGE), torch.randn(ROWS)
    known: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
        (lambda m, x, w: f.conv_transpose2d(x, w), (image, torch.randn(4, 3, 2, 2)),
         "a transposed convolution; use upsampling and a convolution"),
        (lambda m, x: f.adaptive_avg_pool2d(x, 4), (image,),
         "windows of several sizes, from 6 to 4 and 7 to 4; use sizes that divide"),
        (lambda m, x: f.pad(x, (1, 1, 1, 1), mode="reflect"), (image,), "mode is 'reflect'"),
        (lambda m, x: f.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (image,),
         "ceil_mode with padding that counts"),
        (lambda m, x: f.max_pool2d(x, 2, return_indices=True)[1], (image,), "max_pool2d_with_ind"),
        (lambda m, x: x[x.argmax(1), x.argmax(1)], (rows[:, :4],), "positions along several axes"),
        (lambda m, x: torch.zeros(9, 6).scatter(1, x.argmax(1, True), x), (rows,),
         "give indices for all of the other axes"),
        (lambda m, x: x.scatter_reduce(1, x.topk(2)[1], x, "amax"), (rows,), "scatter_reduce"),
        (lambda m, x: x.sort()[0], (rows,), "aten.sort.default"),
    ]  # fmt: skip
    for forward, inputs, said in known:
        with pytest.raises(CompileError) as caught:
            from_torch(module_of(torch, forward), inputs)
        text = str(caught.value)
        assert said in text, text
        assert "docs/pytorch.md lists what is known" in text
    with pytest.raises(CompileError, match=r"call eval\(\) of the module"):
        from_torch(nn.Sequential(nn.BatchNorm2d(4)).train(), (image,))


def test_positions_that_are_an_input_of_whole_numbers_are_refused_with_a_way_out(
    torch: Any,
) -> None:
    rows, at = torch.randn(ROWS), torch.tensor([3, 0, 1, 2])
    of_rows = at[:, None]
    cases: list[tuple[Callable[..., Any], Any]] = [
        (lambda m, x, i: x.gather(1, i), of_rows),
        (lambda m, x, i: (x * 2)[i], at),
        (lambda m, x, i: (x * 2)[i + 0], at),
        (lambda m, x, i: torch.zeros_like(x).scatter(1, i, x[:, :1]), of_rows),
        (lambda m, x, i: x.index_add(0, i, x), at),
        (lambda m, x, i: torch.nn.functional.one_hot(i, 6) * x, at),
    ]
    for forward, given in cases:
        with pytest.raises(CompileError, match="the input 'args_1' of i64, which"):
            from_torch(module_of(torch, forward), (rows, given))
    way_out = module_of(
        torch, lambda m, x, i: (i[..., None] == torch.arange(4).float()).float() @ (x * 2)
    )
    checked(torch, way_out, (rows, at.float()))


def test_flags_of_the_module_are_loaded_as_numbers(torch: Any) -> None:
    flags = torch.tensor([True, False, True, True, False, False])
    module = module_of(torch, lambda m, x: torch.where(flags & (x > 0), x, 0.0))
    graph = checked(torch, module, (torch.randn(ROWS),))
    (known,) = graph.arrays.values()
    assert known.dtype == "float32"


def test_numbers_of_the_module_choose_slices(torch: Any) -> None:
    module = module_of(torch, lambda m, x: x[:, [0, -1, 2]])
    graph = from_torch(module, (torch.randn(ROWS),))
    values = np.arange(24.0).reshape(ROWS)
    found = graph.evaluate({str(graph.order[0]): values})["y"]
    np.testing.assert_array_equal(found, values[:, [0, -1, 2]])
    assert graph.flops == 0
