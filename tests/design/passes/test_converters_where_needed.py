"""Converters only where they are needed: the type of every edge against its tokens, one by one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from stepsim.design import (
    MODELS,
    DataflowGraph,
    block,
    fold_unit_dims,
    fuse_elementwise,
    kernels_of,
    permute,
    tile,
)
from stepsim.design.passes.loops.streaming import stream_tokens
from stepsim.itensor import ITensor, matches
from tests.itensor.enumeration import tokens_of
from tests.samples import sampled

SMALL: Mapping[str, Mapping[str, int]] = {
    "gpt2-medium": {"hidden": 64, "inner": 128, "heads": 4, "kv_heads": 4, "head_dim": 16},
    "qwen2.5-0.5b": {"hidden": 64, "inner": 96, "heads": 4, "kv_heads": 2, "head_dim": 16},
    "tinyllama-1.1b": {"hidden": 64, "inner": 96, "heads": 4, "kv_heads": 2, "head_dim": 16},
    "gemma-3-1b": {"hidden": 64, "inner": 96, "heads": 4, "kv_heads": 1, "head_dim": 32},
}
TILINGS = ("1", "8", "16", "16 innermost", "64", "stream", "stream heads")


def dataflow_of(model: str, phase: str, tiling: str) -> DataflowGraph:
    """A block of a model with its own ratios of sizes, tiled and ordered in one of several ways."""
    decode = phase == "decode"
    tokens, context = (1, 31) if decode else (16, None)
    graph = fuse_elementwise(
        fold_unit_dims(block(model, phase, tokens, context, **SMALL[model]))  # type: ignore[arg-type]
    )
    if tiling.startswith("stream"):
        heads = "outside" if tiling.endswith("heads") else "inside"
        return kernels_of(stream_tokens(graph, 16, 4, heads))  # type: ignore[arg-type]
    size, _, inner = tiling.partition(" ")
    order = "reductions_innermost" if inner else "reductions_outermost"
    return kernels_of(permute(tile(graph, int(size)), order))  # type: ignore[arg-type]


def listed(stream: ITensor) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Offsets of all tokens, by walking the loops."""
    return np.array([offset for offset, _ in tokens_of(stream)], np.int64).reshape(
        stream.tokens, -1
    )


@pytest.mark.parametrize("tiling", sampled(TILINGS, *TILINGS[1:]))
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("model", sampled(MODELS, *list(MODELS)[:2]))
def test_a_converter_is_where_the_tokens_differ(model: str, phase: str, tiling: str) -> None:
    graph = dataflow_of(model, phase, tiling)
    assert len(graph.edges) > 25
    for edge in graph.edges:
        sent, wanted = edge.source, edge.target
        same = sent.element == wanted.element and np.array_equal(listed(sent), listed(wanted))
        assert edge.matched == same, f"{edge.name}: {sent} to {wanted}"
        assert matches(sent, wanted) == same


@pytest.mark.slow
def test_tilings_have_edges_of_both_kinds() -> None:
    found = [
        edge.matched
        for model in MODELS
        for phase in ("prefill", "decode")
        for tiling in TILINGS
        for edge in dataflow_of(model, phase, tiling).edges
    ]
    assert len(found) > 1500
    assert 0.2 < sum(found) / len(found) < 0.8
