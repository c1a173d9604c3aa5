"""Blocks of models that are described in files: one reader serves runs and designs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepsim.design import MODELS, MOE_MODELS, find_model, model_shape
from stepsim.errors import StepSimError
from stepsim.machine import load_machine
from stepsim.workloads.models import BLOCK, Layer, read_model
from tests.workloads.configs import CONFIGS, transformer, write_config

QUICK = {"tokens": 4, "hidden": 16, "inner": 16, "heads": 2, "kv_heads": 1, "head_dim": 8}

PUBLIC: dict[str, dict[str, Any]] = {
    "gpt2-medium": {
        "model_type": "gpt2", "activation_function": "gelu_new", "n_embd": 1024, "n_head": 16,
        "n_layer": 24, "n_inner": None, "layer_norm_epsilon": 1e-5, "vocab_size": 50257,
    },
    "qwen2.5-0.5b": transformer(
        "qwen2", 896, 4864, 24, 14, 2, 151936, rms_norm_eps=1e-6, use_sliding_window=False
    ),
    "tinyllama-1.1b": transformer("llama", 2048, 5632, 22, 32, 4, 32000, rms_norm_eps=1e-5),
    "mixtral-8x7b": transformer(
        "mixtral", 4096, 14336, 32, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2,
        rms_norm_eps=1e-5, sliding_window=None,
    ),
    "qwen3-30b-a3b": transformer(
        "qwen3_moe", 2048, 6144, 48, 32, 4, 151936, num_experts=128, num_experts_per_tok=8,
        moe_intermediate_size=768, head_dim=128, rms_norm_eps=1e-6, norm_topk_prob=True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_public_files_have_the_blocks_of_their_names(name: str, tmp_path: Path) -> None:
    path = write_config(tmp_path / name, PUBLIC[name])
    known = {**MODELS, **MOE_MODELS}[name]
    assert replace(model_shape(str(path)), source=known.source) == known
    assert read_model(str(path)).notes(BLOCK) == []


def block_of(tmp_path: Path, config: dict[str, Any], **sizes: Any) -> Any:
    path = write_config(tmp_path / "model", config)
    return find_model(str(path), load_machine("u55c"), {**QUICK, **sizes})


def test_biases_norms_and_activations_are_built(tmp_path: Path) -> None:
    config = transformer("llama", 64, 96, 4, 4, 2, 100, attention_bias=True, hidden_act="gelu")
    source = block_of(tmp_path, config)
    names = {tensor.name for tensor in source.graph.tensors.values()}
    assert {"q.bias", "o.bias"} <= names
    assert "up.bias" not in names
    assert any(op.name == "mlp.gelu" for op in source.graph.ops)
    (types,) = source.notes
    assert "activations are i8 and weights i4, as machine u55c states" in types


def test_a_yaml_file_describes_a_layer(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(
        "model_dim: 32\nattention: {heads: 2, kv_heads: 1, head_dim: 16}\n"
        "dense: {inner_dim: 64}\nlayer: {norm: rms+1, eps: 1.0e-5, activation: gelu_tanh, "
        "qk_norm: true}\nactivation_dtype: f32\nweight_dtype: f32\n"
    )
    assert model_shape(str(path)).layer == Layer("rms+1", 1e-5, "gelu_tanh", qk_norm=True)
    source = find_model(str(path), load_machine("sda-1024"), {"tokens": 4})
    assert source.graph.tensors["x"].dtype == "f32"
    assert source.notes == ()
    # What runs of workloads leave out of it is said there.
    assert any("qk_norm" in text for text in read_model(str(path)).notes("rows"))


def test_windows_are_those_of_the_layer(tmp_path: Path) -> None:
    config = transformer(
        "gemma2", 64, 96, 4, 4, 2, 100, sliding_window=8, hidden_activation="gelu_pytorch_tanh"
    )

    def window(**sizes: Any) -> Any:
        source = block_of(tmp_path, config, phase="decode", context=16, **sizes)
        mask = [op for op in source.graph.ops if op.kind == "causal_mask"]
        return (mask[0].attributes.get("window") if mask else None), source.notes

    assert window()[0] == 8
    assert "windows differ by layer" in window()[1][-1]
    assert window(attention_layer=0)[0] == 8
    found, notes = window(attention_layer=1)
    assert found is None
    assert not any("windows" in text for text in notes)


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"attn_logit_softcapping": 30.0}, "attn_logit_softcapping 30.0 is not modeled"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5 is not modeled: only a part"),
        ({"residual_multiplier": 0.2}, "residual_multiplier 0.2 is not modeled"),
        ({"attention_chunk_size": 8}, "attention_chunk_size 8 is not modeled"),
        ({"model_type": "unheard"}, "its model_type 'unheard' is unknown: its layer is built as"),
    ],
)
def test_keys_that_are_not_built_are_named(
    tmp_path: Path, more: dict[str, Any], wanted: str
) -> None:
    config = {**transformer("llama", 64, 96, 4, 4, 2, 100), **more}
    assert any(wanted in text for text in block_of(tmp_path, config).notes)


@pytest.mark.parametrize(
    ("config", "sizes", "wanted"),
    [
        ({"hidden_act": "relu2"}, {}, "hidden_act is 'relu2'; known are silu, "),
        ({"mlp_bias": True}, {}, "mlp_bias is true, but not all products of attention"),
        ({"rms_norm_eps": "small"}, {}, "rms_norm_eps is 'small'; use a number"),
        ({"v_head_dim": 8}, {}, "its values are 8 wide and its keys 16"),
        ({"model_type": "olmo2"}, {}, "it normalizes the results of attention"),
        ({"num_attention_heads": None}, {}, "it has no attention"),
        ({}, {"attention_layer": 1}, "all layers of model are alike"),
        ({}, {"experts": 4}, "experts: model has no experts"),
        ({}, {"token": 4}, "no argument 'token'; did you mean 'tokens'?"),
        ({}, {"context": 4}, "prefill starts at an empty cache"),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(
    tmp_path: Path, config: dict[str, Any], sizes: dict[str, Any], wanted: str
) -> None:
    with pytest.raises(StepSimError) as caught:
        block_of(tmp_path, {**transformer("llama", 64, 96, 4, 4, 2, 100), **config}, **sizes)
    assert wanted in str(caught.value)


@pytest.mark.parametrize("name", ["DeepSeek-V3", "gpt-oss-120b", "Qwen1.5-MoE-A2.7B"])
def test_other_public_models_are_refused_by_name(name: str, tmp_path: Path) -> None:
    path = write_config(tmp_path / name, CONFIGS[name])
    with pytest.raises(StepSimError, match="no block can be built of model") as caught:
        model_shape(str(path))
    assert any(why in str(caught.value) for why in ("latent attention", "sinks", "a shared expert"))


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        ("{norm: batch}", "norm is 'batch'; use one of layer, rms, rms+1"),
        ("{eps: 2.0}", "eps is 2; use a number from 0"),
        ("{bias: all}", "unknown key layer.'bias'; did you mean 'biases'?"),
        ("[1]", "layer: expected keys and values"),
    ],
)
def test_mistakes_in_a_layer_of_a_yaml_file_are_reported(
    tmp_path: Path, layer: str, wanted: str
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(f"model_dim: 32\ndense: {{inner_dim: 64}}\nlayer: {layer}\n")
    with pytest.raises(StepSimError) as caught:
        read_model(str(path))
    assert wanted in str(caught.value)
