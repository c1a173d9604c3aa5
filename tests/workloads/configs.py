"""config.json files of public models, as far as their shapes go, one for each family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["CONFIGS", "write_config"]

Config = dict[str, Any]


def transformer(
    kind: str, hidden: int, inner: int, layers: int, heads: int, kv_heads: int, words: int,
    **more: Any,
) -> Config:  # fmt: skip
    """The keys that nearly all families share."""
    return {
        "model_type": kind,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": words,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        **more,
    }


CONFIGS: dict[str, Config] = {
    "Llama-3.1-8B": transformer("llama", 4096, 14336, 32, 32, 8, 128256),
    "Mixtral-8x7B-v0.1": transformer(
        "mixtral", 4096, 14336, 32, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2
    ),
    "Qwen2.5-72B-Instruct-AWQ": transformer(
        "qwen2", 8192, 29696, 80, 64, 8, 152064, torch_dtype="float16",
        quantization_config={
            "bits": 4, "group_size": 128, "modules_to_not_convert": None, "quant_method": "awq",
            "version": "gemm", "zero_point": True,
        },
    ),
    "Qwen1.5-MoE-A2.7B": transformer(
        "qwen2_moe", 2048, 5632, 24, 16, 16, 151936, num_experts=60, num_experts_per_tok=4,
        moe_intermediate_size=1408, shared_expert_intermediate_size=5632, decoder_sparse_step=1,
    ),
    "Qwen3-30B-A3B": transformer(
        "qwen3_moe", 2048, 6144, 48, 32, 4, 151936, num_experts=128, num_experts_per_tok=8,
        moe_intermediate_size=768, head_dim=128, decoder_sparse_step=1, mlp_only_layers=[],
    ),
    "DeepSeek-V2-Lite": transformer(
        "deepseek_v2", 2048, 10944, 27, 16, 16, 102400, n_routed_experts=64, n_shared_experts=2,
        num_experts_per_tok=6, moe_intermediate_size=1408, first_k_dense_replace=1,
        moe_layer_freq=1, kv_lora_rank=512, q_lora_rank=None, qk_nope_head_dim=128,
        qk_rope_head_dim=64, v_head_dim=128,
    ),
    "DeepSeek-V3": transformer(
        "deepseek_v3", 7168, 18432, 61, 128, 128, 129280, n_routed_experts=256, n_shared_experts=1,
        num_experts_per_tok=8, moe_intermediate_size=2048, first_k_dense_replace=3,
        moe_layer_freq=1, kv_lora_rank=512, q_lora_rank=1536, qk_nope_head_dim=128,
        qk_rope_head_dim=64, v_head_dim=128,
        quantization_config={
            "activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
            "weight_block_size": [128, 128],
        },
    ),
    "gpt-oss-120b": {
        **transformer(
            "gpt_oss", 2880, 2880, 36, 64, 8, 201088, head_dim=64, num_local_experts=128,
            num_experts_per_tok=4, experts_per_token=4,
            quantization_config={
                "quant_method": "mxfp4",
                "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router"],
            },
        ),
        "torch_dtype": None,
    },
    "OLMoE-1B-7B-0125": transformer(
        "olmoe", 2048, 1024, 16, 16, 16, 50304, num_experts=64, num_experts_per_tok=8,
        torch_dtype="float32",
    ),
    "granite-3.1-3b-a800m": transformer(
        "granitemoe", 1536, 512, 32, 24, 8, 49155, num_local_experts=40, num_experts_per_tok=8
    ),
    "Phi-3.5-MoE": transformer(
        "phimoe", 4096, 6400, 32, 32, 8, 32064, num_local_experts=16, num_experts_per_tok=2
    ),
    "gemma-2-9b": transformer("gemma2", 3584, 14336, 42, 16, 8, 256000, head_dim=256),
    "gemma-3-4b-it": {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": {
            "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
            "num_hidden_layers": 34, "sliding_window": 1024,
        },
        "torch_dtype": "bfloat16",
        "vision_config": {"hidden_size": 1152, "num_attention_heads": 16},
    },
    "Qwen3-32B": {
        **transformer("qwen3", 5120, 25600, 64, 64, 8, 151936, head_dim=128),
        "torch_dtype": None, "dtype": "bfloat16",
    },
    "Llama-4-Scout-17B-16E": {
        "model_type": "llama4",
        "text_config": transformer(
            "llama4_text", 5120, 8192, 48, 40, 8, 202048, head_dim=128, intermediate_size_mlp=16384,
            num_local_experts=16, num_experts_per_tok=1, interleave_moe_layer_step=1,
        ),
    },
    "GLM-4.5": transformer(
        "glm4_moe", 5120, 12288, 92, 96, 8, 151552, head_dim=128, n_routed_experts=160,
        n_shared_experts=1, num_experts_per_tok=8, moe_intermediate_size=1536,
        first_k_dense_replace=3,
    ),
    "ERNIE-4.5-21B-A3B": transformer(
        "ernie4_5_moe", 2560, 12288, 28, 20, 4, 103424, head_dim=128, moe_num_experts=64, moe_k=6,
        moe_num_shared_experts=2, moe_intermediate_size=1536, moe_layer_start_index=1,
        moe_layer_end_index=27, moe_layer_interval=1,
    ),
}  # fmt: skip


def write_config(folder: Path, config: Any, name: str = "config.json") -> Path:
    """Write a config.json into a folder, which is made; returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(config if isinstance(config, str) else json.dumps(config), "utf-8")
    return path
