"""Dimensions of the models that blocks are built of (StreamTensor paper, table 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from stepsim.errors import CompileError, did_you_mean
from stepsim.typed import typed


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The dimensions of one decoder block of a model.

    Attributes
    ----------
    inner : width of the feed-forward network.
    head_dim : width of a head; ``heads * head_dim`` need not be ``hidden``.
    norm : ``layer`` with bias, ``rms``, or ``rms+1`` with a weight of ``1 + w``.
    gated : the feed-forward network multiplies by an activated gate.
    biases : which linear layers have one.
    qk_norm : queries and keys are normalized before the rotary embedding.
    post_norms : the results of attention and network are normalized, before the residual sum.
    window : keys that a query sees in the local layers; None without such layers.
    experts, active : networks of ``inner`` columns, and how many of them each token goes to; 0
        without experts.
    """

    name: str
    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    norm: Literal["layer", "rms", "rms+1"]
    eps: float
    activation: Literal["gelu_tanh", "silu"]
    gated: bool = True
    rotary: bool = True
    biases: Literal["none", "qkv", "all"] = "none"
    qk_norm: bool = False
    post_norms: bool = False
    window: int | None = None
    source: str = ""
    experts: int = 0
    active: int = 0

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.heads // self.kv_heads


_ALL = (
    ModelShape(
        "gpt2-medium", 24, 1024, 4096, 16, 16, 64, "layer", 1e-5, "gelu_tanh",
        gated=False, rotary=False, biases="all",
        source="config.json of openai-community/gpt2-medium",
    ),
    ModelShape(
        "qwen2.5-0.5b", 24, 896, 4864, 14, 2, 64, "rms", 1e-6, "silu", biases="qkv",
        source="config.json of Qwen/Qwen2.5-0.5B",
    ),
    ModelShape(
        "tinyllama-1.1b", 22, 2048, 5632, 32, 4, 64, "rms", 1e-5, "silu",
        source="config.json of TinyLlama/TinyLlama-1.1B-Chat-v1.0 (the paper says Llama)",
    ),
    ModelShape(
        "gemma-3-1b", 26, 1152, 6912, 4, 1, 256, "rms+1", 1e-6, "gelu_tanh",
        qk_norm=True, post_norms=True, window=512,
        source="config.json of google/gemma-3-1b-pt",
    ),
)  # fmt: skip

MODELS: Mapping[str, ModelShape] = MappingProxyType({shape.name: shape for shape in _ALL})
"""Models that have blocks, by name."""

_EXPERTS = (
    ModelShape(
        "qwen3-30b-a3b", 48, 2048, 768, 32, 4, 128, "rms", 1e-6, "silu", qk_norm=True,
        experts=128, active=8, source="config.json of Qwen/Qwen3-30B-A3B",
    ),
    ModelShape(
        "mixtral-8x7b", 32, 4096, 14336, 32, 8, 128, "rms", 1e-5, "silu",
        experts=8, active=2, source="config.json of mistralai/Mixtral-8x7B-v0.1",
    ),
)  # fmt: skip

MOE_MODELS: Mapping[str, ModelShape] = MappingProxyType({shape.name: shape for shape in _EXPERTS})
"""Models with experts, by name; see :func:`stepsim.design.moe_block`."""


@typed
def model_shape(model: str | ModelShape) -> ModelShape:
    """The shape of a name, or itself.

    Raises
    ------
    CompileError : there is no such model, or the heads do not share the key heads evenly.
    """
    if isinstance(model, str):
        known = {**MODELS, **MOE_MODELS}
        if model not in known:
            near = did_you_mean(model, known)
            raise CompileError(f"there is no model '{model}'{near} Known: {', '.join(known)}")
        return known[model]
    if model.heads % model.kv_heads:
        raise CompileError(
            f"model {model.name}: {model.heads} heads cannot share {model.kv_heads} key heads; "
            "give a divisor"
        )
    if model.rotary and model.head_dim % 2:
        raise CompileError(f"model {model.name}: head_dim {model.head_dim} is odd; give pairs")
    if model.experts and not (model.gated and 1 <= model.active <= model.experts):
        raise CompileError(
            f"model {model.name}: {model.active} of {model.experts} experts are active; give from "
            "1 to all of them, with gated networks"
        )
    return model
