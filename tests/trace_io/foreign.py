"""Foreign trace files, made as the documentation of their formats describes them.

* vLLM: docs/training/routed_experts_replay.md of vllm-project/vllm (``prompt_routed_experts`` of
  the response, ``choices[i].routed_experts``, [len, layers, k] int16, -1 for cached positions);
  https://github.com/vllm-project/vllm/pull/28284; base64 of a .npy file: tests/.../
  test_routed_experts of vllm-project/vllm and https://github.com/vllm-project/vllm/pull/51906.
* SGLang: https://github.com/sgl-project/sglang/pull/12162 and .../pull/17434 (base64 of flat int32,
  logical [tokens, layers, k], seqlen - 1 tokens, ``meta_info`` or ``choices[i].sgl_ext``).
* Megatron-Core: megatron/core/transformer/moe/router_trace.py of NVIDIA/Megatron-LM,
  https://github.com/NVIDIA/Megatron-LM/pull/5220.
* llama.cpp: https://github.com/ggml-org/llama.cpp/pull/28544.
"""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

LAYERS, EXPERTS, K = 3, 16, 4


def routing(tokens: int, seed: int = 0, layers: int = LAYERS) -> np.ndarray:
    """Distinct random ids, int16 [tokens, layers, k]."""
    order = np.argsort(np.random.default_rng(seed).random((tokens, layers, EXPERTS)), axis=2)
    return order[:, :, :K].astype(np.int16)


def npy_base64(ids: np.ndarray) -> str:
    buffer = io.BytesIO()
    np.save(buffer, ids)
    return base64.b64encode(buffer.getvalue()).decode()


def lines(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def vllm_response(prompt: np.ndarray | None, *completions: np.ndarray) -> dict[str, Any]:
    return {
        "id": "cmpl-0",
        "object": "text_completion",
        "choices": [
            {"index": i, "text": "", "routed_experts": ids.tolist()}
            for i, ids in enumerate(completions)
        ],
        "prompt_routed_experts": None if prompt is None else prompt.tolist(),
    }


def vllm_base64_response(ids: np.ndarray) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": "", "routed_experts": npy_base64(ids)}]}


def int32_base64(ids: np.ndarray) -> str:
    return base64.b64encode(ids.astype("<i4").tobytes()).decode()


def sglang_generate(ids: np.ndarray, prompt: int = 5) -> dict[str, Any]:
    """A response of /generate: the last token has no routing."""
    meta = {
        "id": "0",
        "prompt_tokens": prompt,
        "completion_tokens": len(ids) + 1 - prompt,
        "routed_experts": int32_base64(ids),
    }
    return {"text": "", "meta_info": meta}


def sglang_openai(ids: np.ndarray, prompt: int = 5) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": len(ids) + 1 - prompt}
    extra = {"routed_experts": int32_base64(ids)}
    return {"choices": [{"index": 0, "text": "", "sgl_ext": extra}], "usage": usage}


def megatron_record(
    ids: np.ndarray, step: int, layer: int, rank: int = 0, **more: Any
) -> dict[str, Any]:
    """One record of [tokens, k] ids."""
    return {
        "step": step,
        "stage": "pre_dispatch",
        "block": "decoder",
        "layer": layer,
        "rank": rank,
        "num_tokens": ids.shape[0],
        "topk": ids.shape[1],
        "top_indices": ids.tolist(),
    } | more


def llamacpp_text(passes: list[np.ndarray], header: bool = True) -> str:
    """Passes [tokens, layers, k], layer by layer."""
    rows = [
        f"{layer},{expert}"
        for ids in passes
        for layer in range(ids.shape[1])
        for expert in ids[:, layer].ravel()
    ]
    return "\n".join([*(["layer,expert"] if header else []), *rows]) + "\n"


AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,374,44\n"
    "2023-11-16 18:15:50.9951690,396,109\n"
)

MOONCAKE = [
    {"timestamp": 500, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]},
    {"timestamp": 3500, "input_length": 12, "output_length": 3, "hash_ids": []},
]
