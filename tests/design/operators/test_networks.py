"""ResNet-18, a Mamba block and mixtures of experts, from PyTorch and from ONNX files."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.design.operators.importers import ImportedGraph, from_onnx, from_torch
from tests.design.compiled import same_on_tiles
from tests.design.operators.example_models import example, require_torch

pytestmark = pytest.mark.torch

NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet18": ("resnet18", {"size": 16, "channels": 2, "classes": 5}),
    "mamba by sums": ("mamba", {"tokens": 6, "hidden": 16, "states": 4, "scan": "sums"}),
    "mamba by steps": ("mamba", {"tokens": 4, "hidden": 16, "states": 4, "scan": "steps"}),
    "experts dense": ("experts", {"tokens": 8, "hidden": 8, "inner": 12, "way": "dense"}),
    "experts that choose": (
        "experts", {"tokens": 8, "hidden": 8, "inner": 12, "way": "expert_choice"},
    ),
    "experts gathered": ("experts", {"tokens": 4, "hidden": 8, "inner": 12, "way": "gathered"}),
}  # fmt: skip


def network(torch: Any, name: str, **sizes: Any) -> tuple[Any, Any]:
    """A network with random statistics, and a random input."""
    file, small = NETWORKS[name]
    torch.manual_seed(8)
    module, (given,) = example(file).model(**(sizes or small))
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 2)
            layer.weight.data.uniform_(0.5, 1.5)
            layer.bias.data.normal_(0, 0.5)
    return module, torch.randn_like(given)


def of_module(torch: Any, module: Any, x: Any, path: Path) -> ImportedGraph:
    return from_torch(module, (x,))


def of_file(torch: Any, module: Any, x: Any, path: Path) -> ImportedGraph:
    pytest.importorskip("onnxscript", reason="no PyTorch or ONNX: run `make test-torch`")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (x,), path, dynamo=True, verbose=False, output_names=["y"]
        )  # fmt: skip
    return from_onnx(path)


def error_of(torch: Any, graph: ImportedGraph, module: Any, x: Any) -> float:
    """The largest difference of the result from PyTorch's."""
    with torch.no_grad():
        expected = module(x).numpy()
    (name,) = [name for name in graph.order if name is not None]
    made = graph.evaluate({name: x.numpy()})["y"]
    return float(np.abs(made.reshape(expected.shape) - expected).max())


@pytest.mark.parametrize("read", [of_module, of_file])
@pytest.mark.parametrize("name", NETWORKS)
def test_values_are_those_of_pytorch_in_graph_and_program(
    name: str, read: Callable[..., ImportedGraph], tmp_path: Path
) -> None:
    torch = require_torch()
    module, x = network(torch, name)
    graph = read(torch, module, x, tmp_path / "network.onnx")
    assert error_of(torch, graph, module, x) <= 1e-4
    (given,) = [tensor for tensor in graph.order if tensor is not None]
    same_on_tiles(graph.plain(), {**graph.arrays, given: x.numpy()}, 8)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_compiled_simulated_and_sized(name: str) -> None:
    torch = require_torch()
    module, x = network(torch, name)
    made = st.compile((module, (x,)), order="reductions_outermost", placed=False, runs=20)
    plan = made.plan
    assert plan.infeasible is None
    for group, result in zip(plan.groups, made.results(), strict=True):
        assert group.depths
        assert result.status == "ok"
        assert group.unbounded is not None
        assert result.cycles == group.simulated <= 1.005 * group.unbounded
    # Weights and the input are loaded once, windows are read from the chip.
    design = plan.graph
    loads = {dma.tensor: dma.traffic for dma in design.dmas if dma.direction == "load"}
    given = {tensor.name: tensor.bytes for tensor in design.operators.tensors.values()}
    if name == "resnet18":
        assert loads["image"] == given["image"]
        assert all(loads[name] == given[name] for name in loads if name.endswith("weight"))


def flops_of_resnet18(size: int, channels: int, classes: int) -> int:
    """Products and sums of the convolutions and the head, without the other operators."""
    side = size // 2
    total = channels * 3 * 49 * side * side
    side, inner = side // 2, channels
    for number in range(4):
        outer = channels << number
        side = side // 2 if number else side
        shortcut = inner if number else 0
        total += outer * side * side * (9 * inner + 3 * 9 * outer + shortcut)
        inner = outer
    return 2 * (total + inner * classes)


def test_resnet18_of_224_pixels(tmp_path: Path) -> None:
    """Values within 1e-4 of PyTorch; one image takes what the published layers say."""
    torch = require_torch()
    module, x = network(torch, "resnet18", size=224)
    graph = from_torch(module, (x,))
    assert error_of(torch, graph, module, x) <= 1e-4
    # Means and variances are folded into 20 biases of 4,800 values in place of weights and biases.
    assert graph.parameters == sum(w.numel() for w in module.parameters()) - 4800
    products = flops_of_resnet18(224, 64, 1000)
    assert products == 2 * 1_814_073_344
    assert 0 < graph.flops - products < 0.005 * products


@pytest.mark.slow
def test_resnet18_of_224_pixels_is_sized_for_the_memory_of_u55c() -> None:
    """Its FIFOs and buffers fit the bytes of the machine; blocks of memory are not placed."""
    torch = require_torch()
    module, x = network(torch, "resnet18", size=224)
    plan = st.compile(
        (module, (x,)), "u55c", tile=64, order="reductions_outermost", placed=False, effort=0
    ).plan
    assert plan.infeasible is None
    assert "cut" not in plan.choices
    assert "tried" not in plan.choices
    (group,) = plan.groups
    assert group.depths
    assert group.simulated is not None
    assert group.unbounded is not None
    assert group.simulated <= 1.005 * group.unbounded
