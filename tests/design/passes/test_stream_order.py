"""The order with tokens outermost: where the stream passes, and how heads lie to it."""

from __future__ import annotations

from typing import Any

import pytest

from stepsim.design import GraphBuilder, block, fold_unit_dims, fuse_elementwise, permute, tile
from stepsim.design.passes.loops.stream_order import stream_orders, streamed_dims
from stepsim.design.passes.loops.streaming import stream_tokens
from stepsim.errors import CompileError

SIZES: dict[str, Any] = {"hidden": 64, "inner": 128, "heads": 4, "kv_heads": 4, "head_dim": 16}


def test_a_prompt_passes_every_operator() -> None:
    graph = fuse_elementwise(fold_unit_dims(block("gpt2-medium", "prefill", 16, **SIZES)))
    assert set(streamed_dims(graph)) == {op.name for op in graph.ops}
    inside, outside = stream_orders(graph), stream_orders(graph, "outside")
    assert inside["mlp.up.linear"] == ("m", "k", "n")
    assert inside["attn.sdpa.matmul"][0] == "m"
    assert outside["attn.sdpa.matmul"][:2] == ("b0", "m")


def test_in_decoding_the_rows_of_the_cache_do() -> None:
    graph = fuse_elementwise(fold_unit_dims(block("gpt2-medium", "decode", 1, 31, **SIZES)))
    orders = stream_orders(graph)
    assert orders["attn.sdpa.matmul"][0] == "n"
    assert orders["attn.sdpa.matmul_2"][0] == "k"
    assert "mlp.up.linear" not in streamed_dims(graph)


def test_a_graph_without_tokens_is_refused() -> None:
    b = GraphBuilder("sum")
    b.output(b.exp(b.input("a", (4, 4))), "out")
    with pytest.raises(CompileError, match="no operator of sum works on rows of 'x'"):
        permute(tile(b.graph(), 4), "tokens_outermost")
    with pytest.raises(CompileError, match="rows is 0"):
        stream_tokens(b.graph(), rows=0)
    with pytest.raises(CompileError, match="heads is 'beside'"):
        stream_tokens(b.graph(), heads="beside")  # type: ignore[arg-type]
