"""The registered shapes are consistent and can be built."""

from __future__ import annotations

import pytest

from stepsim.errors import ArgError
from stepsim.workloads import (
    ATTENTION_SHAPES,
    MOE_SHAPES,
    AttentionShape,
    MoEShape,
    attention,
    moe_layer,
    moe_shape,
)

# layers with experts and billions of parameters in all, from the model cards
CARDS = {
    "mixtral-8x7b": (32, 46.7), "qwen3-30b-a3b": (48, 30.5), "qwen3-235b-a22b": (94, 235),
    "deepseek-v3": (58, 671), "deepseek-r1": (58, 671), "gpt-oss-120b": (36, 116.8),
    "llama-4-scout": (48, 109), "glm-4.5": (89, 355),
}  # fmt: skip


def test_every_expert_model_has_attention():
    assert set(MOE_SHAPES) <= set(ATTENTION_SHAPES)
    for name, shape in MOE_SHAPES.items():
        assert shape.model_dim == ATTENTION_SHAPES[name].model_dim


@pytest.mark.parametrize("name", sorted(MOE_SHAPES))
def test_experts_are_nearly_all_of_the_model(name):
    shape = moe_shape(name)
    layers, billions = CARDS[name]
    inner = shape.experts * shape.inner_dim + shape.shared_inner
    share = layers * 3 * shape.model_dim * inner / 10**9 / billions
    assert 0.93 < share < 1
    assert shape.source


@pytest.mark.parametrize("name", sorted(ATTENTION_SHAPES))
def test_attention_shapes_build(name):
    shape = ATTENTION_SHAPES[name]
    assert shape.source
    work = attention(shape, [100] * 4, "interleaved")
    rows = 4 * 2 * (shape.queries_per_kv_head + 1) * (shape.head_dim + shape.value_width)
    caches = 5 * 4 * 32 * 2 * (shape.head_dim + shape.value_width)
    assert work.metrics(memory="paper").off_chip_traffic == rows + caches


@pytest.mark.parametrize("name", sorted(MOE_SHAPES))
def test_expert_shapes_build(name):
    shape = moe_shape(name)
    work = moe_layer(shape, 2, "dynamic", shape.inner_dim // 4)
    assert (work.routing.rows, work.routing.k, work.routing.experts) == (
        2, shape.active, shape.experts,
    )  # fmt: skip


@pytest.mark.parametrize(
    "sizes",
    [
        {"heads": 6, "kv_heads": 4}, {"head_dim": 0}, {"value_dim": 0}, {"model_dim": -1},
    ],
)  # fmt: skip
def test_bad_attention_shapes(sizes):
    given = {"model_dim": 64, "heads": 8, "kv_heads": 4, "head_dim": 16} | sizes
    with pytest.raises(ArgError, match="kv_heads must divide heads, found"):
        AttentionShape("odd", **given)


def test_bad_shared_expert():
    with pytest.raises(ArgError, match="shared_inner >= 0, found"):
        MoEShape("odd", experts=2, active=1, model_dim=8, inner_dim=8, shared_inner=-8)
