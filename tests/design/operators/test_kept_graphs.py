"""Exported graphs of the examples, without PyTorch: they are what the built-in blocks are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from stepsim.design import OperatorGraph, block, fold_unit_dims
from tests.design.operators.example_models import KEPT, NAMES, Kept, built_in_sizes

MATRICES = {"gpt2_medium": 12.58e6, "qwen": 14.91e6, "tinyllama": 44.04e6, "gemma": 26.84e6}
"""Weights of a block, of the paper's table 7."""


def read(one: Kept) -> OperatorGraph:
    return OperatorGraph.from_json(one.path.read_text(encoding="utf-8"), one.path.name)


def built_in(one: Kept) -> OperatorGraph:
    sizes = {} if one.full else built_in_sizes(one.file)
    return block(NAMES[one.file], one.phase, **sizes)  # type: ignore[arg-type]


def shapes(graph: OperatorGraph) -> Counter[Any]:
    """What the operators are, whatever they are called."""
    return Counter(
        (op.kind, op.body, op.combine, tuple(sorted(dim.size for dim in op.dims)))
        for op in fold_unit_dims(graph).ops
    )


@pytest.mark.parametrize("one", KEPT, ids=lambda one: one.path.stem)
def test_an_exported_block_is_the_built_in_one(one: Kept) -> None:
    found, expected = read(one), built_in(one)
    assert found.flops == expected.flops
    assert found.parameters == expected.parameters
    assert found.intermediate_bytes == expected.intermediate_bytes
    assert shapes(found) == shapes(expected)
    assert OperatorGraph.from_json(found.to_json()) == found


@pytest.mark.parametrize("file", NAMES)
def test_a_full_block_has_the_published_weights(file: str) -> None:
    found = read(Kept(file, "decode", full=True))
    assert found.matrix_parameters == pytest.approx(MATRICES[file], rel=1e-3)


def drawn(graph: OperatorGraph) -> dict[str, Any]:
    """Values by the names of the built-in blocks, which do not say attn. and mlp."""
    random = np.random.default_rng(3)
    values: dict[str, Any] = {}
    for tensor in graph.with_role("input", "weight", "state"):
        values[tensor.name] = random.normal(size=tensor.shape, scale=0.5).astype(np.float32)
    return values


@pytest.mark.parametrize(
    "one", [one for one in KEPT if not one.full], ids=lambda one: one.path.stem
)
def test_an_exported_block_computes_what_the_built_in_one_does(one: Kept) -> None:
    found, expected = read(one), built_in(one)
    values = drawn(expected)
    own = {}
    for tensor in found.with_role("input", "weight", "state"):
        value = values[tensor.name.removeprefix("attn.").removeprefix("mlp.")]
        if tensor.name in ("cos", "sin") and value.shape[-1] < tensor.shape[-1]:
            value = np.concatenate([value, value], -1)  # one angle for each column of a pair
        own[tensor.name] = value
    made, reference = found.evaluate(own), expected.evaluate(values)
    for name in ("y", "k_new", "v_new"):
        np.testing.assert_allclose(made[name][0], reference[name], rtol=1e-5, atol=1e-5)
