"""Models from config.json, from YAML and by name: what is read, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepsim.errors import ArgError
from stepsim.workloads.models import (
    MODELS,
    Dense,
    Experts,
    GroupedHeads,
    LatentHeads,
    Model,
    read_model,
)
from tests.workloads.configs import CONFIGS, write_config

# experts, heads, dense layers; layers, vocabulary; types of weights and of activations
EXPECTED: dict[str, tuple[Any, Any, Any, int, int, str, str]] = {
    "Llama-3.1-8B": (
        None, GroupedHeads(32, 8, 128), Dense(14336, 32), 32, 128256, "bf16", "bf16",
    ),
    "Mixtral-8x7B-v0.1": (
        Experts(8, 2, 14336), GroupedHeads(32, 8, 128), None, 32, 32000, "bf16", "bf16",
    ),
    "Qwen2.5-72B-Instruct-AWQ": (
        None, GroupedHeads(64, 8, 128), Dense(29696, 80), 80, 152064, "i4", "f16",
    ),
    "Qwen1.5-MoE-A2.7B": (
        Experts(60, 4, 1408, 5632), GroupedHeads(16, 16, 128), None, 24, 151936, "bf16", "bf16",
    ),
    "Qwen3-30B-A3B": (
        Experts(128, 8, 768), GroupedHeads(32, 4, 128), None, 48, 151936, "bf16", "bf16",
    ),
    "DeepSeek-V2-Lite": (
        Experts(64, 6, 1408, 2816), LatentHeads(16, 512, 128, 64, 128), Dense(10944, 1), 27,
        102400, "bf16", "bf16",
    ),
    "DeepSeek-V3": (
        Experts(256, 8, 2048, 2048), LatentHeads(128, 512, 128, 64, 128, 1536), Dense(18432, 3),
        61, 129280, "f8e4m3", "bf16",
    ),
    "gpt-oss-120b": (
        Experts(128, 4, 2880), GroupedHeads(64, 8, 64), None, 36, 201088, "f4", "bf16",
    ),
    "OLMoE-1B-7B-0125": (
        Experts(64, 8, 1024), GroupedHeads(16, 16, 128), None, 16, 50304, "f32", "f32",
    ),
    "granite-3.1-3b-a800m": (
        Experts(40, 8, 512), GroupedHeads(24, 8, 64), None, 32, 49155, "bf16", "bf16",
    ),
    "Phi-3.5-MoE": (
        Experts(16, 2, 6400), GroupedHeads(32, 8, 128), None, 32, 32064, "bf16", "bf16",
    ),
    "gemma-2-9b": (
        None, GroupedHeads(16, 8, 256), Dense(14336, 42), 42, 256000, "bf16", "bf16",
    ),
    "gemma-3-4b-it": (
        None, GroupedHeads(8, 4, 256), Dense(10240, 34), 34, 262208, "bf16", "bf16",
    ),
    "Qwen3-32B": (
        None, GroupedHeads(64, 8, 128), Dense(25600, 64), 64, 151936, "bf16", "bf16",
    ),
    "Llama-4-Scout-17B-16E": (
        Experts(16, 1, 8192, 8192), GroupedHeads(40, 8, 128), None, 48, 202048, "bf16", "bf16",
    ),
    "GLM-4.5": (
        Experts(160, 8, 1536, 1536), GroupedHeads(96, 8, 128), Dense(12288, 3), 92, 151552,
        "bf16", "bf16",
    ),
    "ERNIE-4.5-21B-A3B": (
        Experts(64, 6, 1536, 3072), GroupedHeads(20, 4, 128), Dense(12288, 1), 28, 103424,
        "bf16", "bf16",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_public_models(name: str, tmp_path: Path) -> None:
    path = write_config(tmp_path / name, CONFIGS[name])
    model = read_model(str(path.parent))
    assert model == read_model(str(path))
    assert (model.name, model.source) == (name, str(path))
    assert (
        model.experts, model.heads, model.dense, model.layers, model.vocabulary,
        model.weight_dtype.text, model.activation_dtype.text,
    ) == EXPECTED[name]  # fmt: skip
    assert model.kv_dtype is model.activation_dtype


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ("Mixtral-8x7B-v0.1", "mixtral-8x7b"),
        ("Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("DeepSeek-V3", "deepseek-v3"),
        ("gpt-oss-120b", "gpt-oss-120b"),
        ("Llama-4-Scout-17B-16E", "llama-4-scout"),
        ("GLM-4.5", "glm-4.5"),
    ],
)
def test_built_in_models_are_those_of_their_files(config: str, name: str, tmp_path: Path) -> None:
    found, known = read_model(str(write_config(tmp_path / name, CONFIGS[config]))), MODELS[name]
    for part in ("model_dim", "experts", "heads", "dense", "layers", "vocabulary"):
        assert getattr(found, part) == getattr(known, part), part


def changed(name: str, **changes: Any) -> dict[str, Any]:
    """The config of a model with other values; ``...`` takes a key away."""
    config = {**CONFIGS[name], **changes}
    return {key: value for key, value in config.items() if value is not ...}


FP8 = {"quant_method": "fp8", "fmt": "e5m2", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
GROUPS = {"group_0": {"weights": {"num_bits": 8, "type": "int"}, "targets": ["Linear"]}}


@pytest.mark.parametrize(
    ("quantization", "weights", "cache"),
    [
        (FP8, "f8e5m2", "f8e4m3"),
        ({**FP8, "kv_cache_scheme": {"num_bits": 8}}, "f8e5m2", "i8"),
        ({"quant_method": "fp8", "fmt": "float8_e5m2"}, "f8e5m2", "bf16"),
        ({"bits": 8, "mode": "mxfp8"}, "f8e4m3", "bf16"),
        ({"quant_method": "gptq", "bits": 8}, "i8", "bf16"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "f4", "bf16"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "i8", "bf16"),
        ({"quant_method": "bitsandbytes"}, "bf16", "bf16"),
        ({"quant_method": "compressed-tensors", "config_groups": GROUPS}, "i8", "bf16"),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"},
            "f4", "f8e4m3",
        ),
        ({"group_size": 64, "bits": 4}, "i4", "bf16"),
    ],
)  # fmt: skip
def test_quantization(quantization: Any, weights: str, cache: str, tmp_path: Path) -> None:
    config = changed("Llama-3.1-8B", quantization_config=quantization)
    model = read_model(str(write_config(tmp_path, config)))
    found = (model.weight_dtype.text, model.activation_dtype.text, model.kv_dtype.text)
    assert found == (weights, "bf16", cache)


@pytest.mark.parametrize(
    ("config", "dense"),
    [
        (changed("Qwen3-30B-A3B", mlp_only_layers=[0, 5]), Dense(6144, 2)),
        (changed("Qwen3-30B-A3B", decoder_sparse_step=2), Dense(6144, 24)),
        (changed("DeepSeek-V2-Lite", moe_layer_freq=[0, 0] + [1] * 25), Dense(10944, 2)),
        (changed("DeepSeek-V2-Lite", first_k_dense_replace=...), None),
        (changed("ERNIE-4.5-21B-A3B", moe_layer_start_index=...), Dense(12288, 1)),
        (changed("ERNIE-4.5-21B-A3B", moe_layer_end_index=-1), Dense(12288, 1)),
        (changed("ERNIE-4.5-21B-A3B", moe_layer_start_index=3), Dense(12288, 3)),
        (changed("ERNIE-4.5-21B-A3B", moe_layer_end_index=23), Dense(12288, 5)),
        (changed("ERNIE-4.5-21B-A3B", moe_layer_interval=2), Dense(12288, 14)),
    ],
)
def test_layers_without_experts(config: Any, dense: Dense | None, tmp_path: Path) -> None:
    model = read_model(str(write_config(tmp_path, config)))
    assert model.dense == dense
    assert model.layers is not None
    left = 0 if dense is None or dense.layers is None else dense.layers
    assert model.expert_layers == model.layers - left


def test_a_snapshot_in_a_cache_has_the_name_of_its_model(tmp_path: Path) -> None:
    folder = tmp_path / "models--Qwen--Qwen3-30B-A3B" / "snapshots" / "0123abcd"
    write_config(folder, CONFIGS["Qwen3-30B-A3B"])
    assert str(read_model(str(folder))) == "Qwen3-30B-A3B"


HINT = "a YAML file can describe any model."
BAD_CONFIGS: list[tuple[Any, str]] = [
    ("{", ":1:2: not valid JSON: expecting property name enclosed in double quotes"),
    ("[" * 100_000, ":1:41: expected lists and mappings at most 40 deep, found more"),
    ("[1]", ": expected the keys and values of a model, found [1]"),
    ({}, ": the hidden size is missing: expected the key 'hidden_size' or 'n_embd' or "
     f"'d_model'. It has no model_type, so the usual keys were tried; {HINT}"),
    (
        {"model_type": "mamba", "d_model": 64, "num_experts": 4},
        ": 2 problems. Its model_type 'mamba' is unknown, so the usual keys were tried; "
        f"{HINT}\n  the number of experts of a token is missing: expected the key "
        "'num_experts_per_tok' or 'experts_per_token' or 'num_experts_per_token' or 'moe_k'\n  "
        "the inner dimension of an expert is missing: expected the key 'moe_intermediate_size' or "
        "'intermediate_size'",
    ),
    (
        changed("Mixtral-8x7B-v0.1", num_experts_per_tok=...),
        ": the number of experts of a token is missing: expected the key "
        "'num_experts_per_tok' or 'experts_per_token' or 'num_experts_per_token' or 'moe_k'.",
    ),
    (
        changed("Qwen3-30B-A3B", moe_intermediate_size=...),
        ": the inner dimension of an expert is missing: expected the key "
        "'moe_intermediate_size'.",
    ),
    (
        changed("Qwen1.5-MoE-A2.7B", shared_expert_intermediate_size=...),
        ": the inner dimension of the shared expert is missing: expected the key "
        "'shared_expert_intermediate_size'.",
    ),
    (
        changed("Qwen3-30B-A3B", num_shared_experts=1, shared_expert_overlap=False),
        ": num_shared_experts: describes shared experts in an unknown way, expected "
        "n_shared_experts, moe_num_shared_experts or shared_expert_intermediate_size; describe the "
        "model in a YAML file, with experts.shared_inner.",
    ),
    (
        changed("DeepSeek-V3", qk_rope_head_dim=...),
        ": a size of latent attention is missing: expected the key 'qk_rope_head_dim'.",
    ),
    (
        changed("Mixtral-8x7B-v0.1", num_local_experts=True),
        ": num_local_experts: expected a whole number from 1 to 1048576, found True.",
    ),
    (
        changed("Llama-3.1-8B", hidden_size="4096", num_hidden_layers=0),
        ": 2 problems.\n  hidden_size: expected a whole number from 1 to 1048576, found "
        "'4096'\n  num_hidden_layers: expected a whole number from 1 to 16384, found 0",
    ),
    (
        changed("Llama-3.1-8B", num_key_value_heads=5),
        ": num_key_value_heads: expected a divisor of the 32 heads, found 5.",
    ),
    (
        changed("Llama-3.1-8B", hidden_size=4097),
        ": the width of a head is missing: expected the key 'head_dim', since 32 heads do "
        "not divide the hidden size 4097.",
    ),
    (
        changed("Mixtral-8x7B-v0.1", num_experts_per_tok=9),
        ": expected at most the 8 experts for each token, found 9.",
    ),
    (
        changed("Qwen3-30B-A3B", mlp_only_layers="none"),
        ": mlp_only_layers: expected indices of layers from 0 to 47, found 'none'.",
    ),
    (
        changed("Qwen3-30B-A3B", mlp_only_layers=[0, 48]),
        ": mlp_only_layers: expected indices of layers from 0 to 47, found [0, 48].",
    ),
    (
        changed(
            "Qwen3-30B-A3B", num_hidden_layers=..., mlp_only_layers=[-1], decoder_sparse_step=0
        ),
        ": 2 problems.\n  decoder_sparse_step: expected a whole number from 1 to 1048576, found 0"
        "\n  mlp_only_layers: expected indices of layers, found [-1]",
    ),
    (
        changed("DeepSeek-V2-Lite", moe_layer_freq=[0, 1]),
        ": moe_layer_freq: expected 0 or 1 for each of 27 layers, found 2 values: [0, 1].",
    ),
    (
        changed("DeepSeek-V2-Lite", num_hidden_layers=..., moe_layer_freq=["0", 1]),
        ": moe_layer_freq: expected 0 or 1 for each layer, found 2 values: ['0', 1].",
    ),
    (
        changed("DeepSeek-V2-Lite", first_k_dense_replace=28),
        ": first_k_dense_replace: expected a whole number from 0 to 27, found 28.",
    ),
    (
        changed("Llama-3.1-8B", torch_dtype="float64"),
        ": torch_dtype: unknown scalar type 'float64'; did you mean 'float",
    ),
    (
        changed("Llama-3.1-8B", torch_dtype="bool"),
        ": torch_dtype: expected one of f32, bf16, f16, f8e4m3, f8e5m2, i8, f4, i4, found "
        "bool.",
    ),
    (
        changed("Llama-3.1-8B", quantization_config={"quant_method": "hqq"}),
        ": quantization_config.quant_method: expected one of fp8, fbgemm_fp8, mxfp4, awq, "
        "gptq, auto-round, bitsandbytes, compressed-tensors, modelopt, found 'hqq'; describe the "
        "model in a YAML file, with weight_dtype.",
    ),
    (
        changed("Llama-3.1-8B", quantization_config={"bits": 4, "mode": ["affine"]}),
        ": quantization_config.mode: expected one of affine, mxfp4, mxfp8, nvfp4, found "
        "['affine'].",
    ),
    (
        changed("Llama-3.1-8B", quantization_config={"quant_method": "fp8", "fmt": "e3m4"}),
        ": quantization_config.fmt: expected one of e4m3, e5m2, float8_e4m3fn, float8_e5m2, found "
        "'e3m4'.",
    ),
    (
        changed(
            "Llama-3.1-8B",
            quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": "false"},
        ),
        ": quantization_config.load_in_4bit: expected true or false, found 'false'.",
    ),
    (
        changed(
            "Llama-3.1-8B",
            quantization_config={**FP8, "kv_cache_scheme": {"num_bits": 8, "type": "f8"}},
        ),
        ": quantization_config.kv_cache_scheme.type: expected one of int, float, found "
        "'f8'.",
    ),
    (
        changed("Llama-3.1-8B", quantization_config={"quant_method": "gptq", "bits": 3}),
        ": quantization_config.bits: expected 4 or 8 bits, found 3.",
    ),
    (
        changed("Llama-3.1-8B", quantization_config={"quant_method": "compressed-tensors"}),
        ": the type of the weights is missing: expected quantization_config.config_groups.",
    ),
    (
        changed("Llama-3.1-8B", quantization_config="fp8"),
        ": quantization_config: expected keys and values, found 'fp8'.",
    ),
    (
        changed("gemma-3-4b-it", text_config={"model_type": "gemma3_text"}),
        ": the hidden size is missing: expected the key 'text_config.hidden_size' or ",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "message"), BAD_CONFIGS)
def test_bad_configs(config: Any, message: str, tmp_path: Path) -> None:
    path = write_config(tmp_path, config)
    with pytest.raises(ArgError) as error:
        read_model(str(path))
    assert str(error.value).startswith(f"model {path}{message}")


def test_a_model_without_experts_names_the_keys_that_it_lacks(tmp_path: Path) -> None:
    path = write_config(tmp_path, CONFIGS["Llama-3.1-8B"])
    model = read_model(str(path))
    with pytest.raises(ArgError) as error:
        _ = model.moe
    assert str(error.value) == (
        f"model {path} has no experts: none of the keys num_experts, num_local_experts, "
        "n_routed_experts, moe_num_experts is in the file (model_type 'llama'). Give the "
        "config.json of a mixture-of-experts model, or a YAML file"
    )
    shape = model.feed_forward
    assert (shape.experts, shape.active, shape.inner_dim) == (1, 1, 14336)


YAML = """
model_dim: 512
layers: 4
vocabulary: 1000
attention: {heads: 8, kv_heads: 2, head_dim: 64}
experts: {count: 4, active: 2, inner_dim: 256, shared_inner: 128}
dense: {inner_dim: 1024, layers: 1}
weight_dtype: mxfp4
kv_dtype: fp8
"""


def test_yaml(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(YAML)
    model = read_model(str(path))
    assert str(model) == "small"
    assert model.experts == Experts(4, 2, 256, 128)
    assert model.heads == GroupedHeads(8, 2, 64)
    assert (model.dense, model.layers, model.vocabulary) == (Dense(1024, 1), 4, 1000)
    types = (model.weight_dtype, model.activation_dtype, model.kv_dtype)
    assert [str(dtype) for dtype in types] == ["f4", "bf16", "f8e4m3"]


def test_yaml_of_latent_attention(tmp_path: Path) -> None:
    path = tmp_path / "latent.yml"
    path.write_text(
        "name: mine\nmodel_dim: 64\nattention: {heads: 4, kv_lora_rank: 16, qk_nope_head_dim: 8, "
        "qk_rope_head_dim: 4, v_head_dim: 8}\n"
    )
    shape = read_model(str(path)).attention
    assert (shape.name, shape.heads, shape.kv_heads) == ("mine", 4, 1)
    assert (shape.head_dim, shape.value_width) == (20, 16)
    with pytest.raises(ArgError, match=r"latent.yml has no experts: add the key 'exp"):
        _ = read_model(str(path)).moe


BAD_YAML = [
    (
        "model_dim: 64\nlayers: 4\ndense: {inner_dim: 128, layers: 9}",
        ": model 'odd': dense: layers must be at most its 4 layers, found 9",
    ),
    ("a: [", ":1:5: not valid YAML: while parsing a flow node"),
    ("[" * 5000, ":1:41: expected lists and mappings at most 40 deep"),
    ("- 1", ": expected keys and values such as 'model_dim: 4096', found [1]"),
    (
        "model_dim: 64",
        ": expected one of the keys attention, experts and dense, found none.",
    ),
    (
        "model_dim: 64\nattension: 1\ndense: {inner_dim: 64}",
        ": unknown key 'attension'; did you mean 'attention'? Known are name, model_dim, ",
    ),
    (
        "model_dim: 64\nexperts: {count: 4, active: 5.0, inner: 8}",
        ": 3 problems.\n  unknown key experts.'inner'; did you mean 'inner_dim'? Known are "
        "count, active, inner_dim, shared_inner\n  experts.active: expected a whole number from 1 "
        "to 1048576, found 5.0\n  the inner dimension of an expert is missing: expected the key "
        "'experts.inner_dim'",
    ),
    (
        "model_dim: true\nexperts: 8",
        ": 2 problems.\n  model_dim: expected a whole number from 1 to 1048576, found True\n"
        "  experts: expected keys and values, found 8",
    ),
    (
        "model_dim: 64\nexperts: {count: 4, active: 5, inner_dim: 8}",
        ": MoE shape 'odd': experts, active, model_dim and inner_dim must be >= 1, active <= "
        "experts",
    ),
    (
        "model_dim: 2097152\ndense: {inner_dim: 64}",
        ": model_dim: expected a whole number from 1 to 1048576, found 2097152.",
    ),
    (
        "model_dim: 64\ndense: {inner_dim: 64}\nkv_dtype: int3",
        ": kv_dtype: unknown scalar type 'int3'; did you mean 'int",
    ),
    (
        "name: [1]\nmodel_dim: 4\ndense: {inner_dim: 64}",
        ": name: expected a text of up to ",
    ),
    (
        "1: 2\nmodel_dim: 4\ndense: {inner_dim: 64}",
        ":1:1: expected a text key in the top level, found 1",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD_YAML)
def test_bad_yaml(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(ArgError) as error:
        read_model(str(path))
    assert str(error.value).startswith(f"model {path}{message}")


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text("")
    (tmp_path / "large.yaml").write_bytes(b"#" * ((1 << 20) + 1))
    for name, message in [
        ("", "the folder holds no config.json; give the folder of a model"),
        ("model.toml", "expected a file that ends in .yaml, .yml or .json, found '.toml'. Give"),
        ("none.yaml", "there is no such file; check the path, or give the name of a model"),
        ("large.yaml", "expected at most 524,288 bytes, found more; leave out what is not needed"),
    ]:
        path = tmp_path / name
        with pytest.raises(ArgError) as error:
            read_model(str(path))
        assert str(error.value).startswith(f"model {path}: {message}")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("mixtral-8x7", "; did you mean 'mixtral-8x7b'?"), ("bert", "."), ("a\0b", ".")],
)
def test_unknown_names(name: str, hint: str) -> None:
    with pytest.raises(ArgError) as error:
        read_model(name)
    assert str(error.value) == (
        f"unknown model '{name}'{hint} Expected one of {', '.join(MODELS)}, or a YAML file with "
        "dimensions, a Hugging Face config.json, or a folder that holds one"
    )


def test_parse_takes_models_shapes_and_dimensions() -> None:
    model = MODELS["mixtral-8x7b"]
    assert Model.parse(model) is model
    assert Model.parse("mixtral-8x7b") is model
    assert Model.parse(model.moe).moe == model.moe
    assert Model.parse(model.attention).attention == model.attention
    assert Model.parse({"model_dim": 8, "dense": {"inner_dim": 4}}).dense == Dense(4)
    with pytest.raises(ArgError, match=r"expected a name, a YAML file, a config\.json or"):
        Model.parse(3)
    with pytest.raises(ArgError, match="model: unknown key 'dim'"):
        Model.parse({"model_dim": 8, "dim": 1, "dense": {"inner_dim": 4}})


def test_reading_a_model_starts_fast(tmp_path: Path) -> None:
    path = write_config(tmp_path, CONFIGS["DeepSeek-V3"])
    code = (
        "import sys; from stepsim.workloads.models import read_model;"
        f"read_model({str(path)!r});"
        "heavy = {'numba', 'numpy', 'sympy', 'pyarrow', 'pydantic', 'yaml'} & set(sys.modules);"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_configs_cover_twelve_families() -> None:
    kinds = {json.dumps(c.get("model_type")) for c in CONFIGS.values()}
    assert len(kinds) >= 12
    assert set(EXPECTED) == set(CONFIGS)
