"""The built-in models are consistent, and shapes out of range are refused."""

from __future__ import annotations

import pytest

from stepsim.dtypes import DType
from stepsim.errors import ArgError
from stepsim.workloads.models import MODELS, AttentionShape, MoEShape, read_model

# layers with experts and billions of parameters in all, from the model cards
CARDS = {
    "mixtral-8x7b": (32, 46.7), "qwen3-30b-a3b": (48, 30.5), "qwen3-235b-a22b": (94, 235),
    "deepseek-v3": (58, 671), "deepseek-r1": (58, 671), "gpt-oss-120b": (36, 116.8),
    "llama-4-scout": (48, 109), "glm-4.5": (89, 355),
}  # fmt: skip

# experts, active, model_dim, inner_dim, shared_inner; heads, kv_heads, head_dim, width of values
SHAPES = {
    "gpt2-medium": (None, (16, 16, 64, 64)),
    "qwen2.5-0.5b": (None, (14, 2, 64, 64)),
    "tinyllama-1.1b": (None, (32, 4, 64, 64)),
    "gemma-3-1b": (None, (4, 1, 256, 256)),
    "llama-3-8b": (None, (32, 8, 128, 128)),
    "mixtral-8x7b": ((8, 2, 4096, 14336, 0), (32, 8, 128, 128)),
    "qwen3-30b-a3b": ((128, 8, 2048, 768, 0), (32, 4, 128, 128)),
    "qwen3-30b-a3b-step": (None, (32, 4, 64, 64)),
    "qwen3-235b-a22b": ((128, 8, 4096, 1536, 0), (64, 4, 128, 128)),
    "deepseek-v3": ((256, 8, 7168, 2048, 2048), (128, 1, 576, 512)),
    "deepseek-r1": ((256, 8, 7168, 2048, 2048), (128, 1, 576, 512)),
    "gpt-oss-120b": ((128, 4, 2880, 2880, 0), (64, 8, 64, 64)),
    "llama-4-scout": ((16, 1, 5120, 8192, 8192), (40, 8, 128, 128)),
    "glm-4.5": ((160, 8, 5120, 1536, 1536), (96, 8, 128, 128)),
}


def test_every_model_has_its_shapes():
    assert set(MODELS) == set(SHAPES)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_shapes(name):
    model, (experts, heads) = read_model(name), SHAPES[name]
    attention = model.attention
    assert model.source
    assert str(model) == attention.name == name
    assert (
        attention.heads, attention.kv_heads, attention.head_dim, attention.value_width,
    ) == heads  # fmt: skip
    assert {model.weight_dtype, model.activation_dtype, model.kv_dtype} == {DType.bf16}
    if experts is None:
        with pytest.raises(
            ArgError, match=f"model {name} has no experts: it(s layers have one ne| is the att)"
        ):
            _ = model.moe
        return
    moe = model.moe
    assert moe.name == name
    assert moe.model_dim == attention.model_dim
    assert (
        moe.experts, moe.active, moe.model_dim, moe.inner_dim, moe.shared_inner,
    ) == experts  # fmt: skip


@pytest.mark.parametrize("name", sorted(CARDS))
def test_experts_are_nearly_all_of_the_model(name):
    model, (layers, billions) = read_model(name), CARDS[name]
    assert model.expert_layers == layers
    inner = model.moe.experts * model.moe.inner_dim + model.moe.shared_inner
    assert 0.93 < layers * 3 * model.model_dim * inner / 10**9 / billions < 1


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
