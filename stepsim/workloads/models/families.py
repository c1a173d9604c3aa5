"""The keys that families of models use in a Hugging Face config.json.

Most keys are shared by all families. This table has the differences, and the defaults in classes of
`transformers` that files of a family leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stepsim.workloads.models.layer import GEMMA, GPT2, LLAMA, Biases, Layer


@dataclass(frozen=True, slots=True)
class Family:
    """Keys of one family.

    Attributes
    ----------
    expert_inner : inner dimension of a routed expert; the first key found is used.
    dense_inner : inner dimension of layers without experts.
    shared_inner : inner dimension of all shared experts together, in families that have them.
    shares_one : every layer has one shared expert, as large as a routed one.
    defaults : values of keys that the files of the family may leave out.
    window : tokens of the sliding window where the file does not have the key.
    window_period : all layers but every so many-th have the window.
    window_off : windows have to be turned on, and then begin at layer ``max_window_layers``.
    wide : the network is four times as wide as the activations where the file does not say it.
    layer : the layers of the family where the file does not say otherwise.
    biased : linear layers to which the key ``attention_bias`` adds one.
    unlike : what its layers have that a :class:`Layer` does not describe, as a clause.
    """

    expert_inner: tuple[str, ...] = ("moe_intermediate_size", "intermediate_size")
    dense_inner: tuple[str, ...] = ("intermediate_size",)
    shared_inner: tuple[str, ...] = ()
    shares_one: bool = False
    defaults: Mapping[str, int] = field(default_factory=dict)
    window: int | None = None
    window_period: int | None = None
    window_off: bool = False
    wide: bool = False
    layer: Layer = LLAMA
    biased: Biases = "attention"
    unlike: str = ""


USUAL = Family()
"""The keys for a family that is not in the table."""

_ONE_SIZE = Family(expert_inner=("intermediate_size",))
_OWN_SIZE = Family(expert_inner=("moe_intermediate_size",))
_GEMMA3 = Family(
    defaults={
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208,
    },
    window=4096, window_period=6, layer=replace(GEMMA, qk_norm=True, post_norms=True),
)  # fmt: skip
_OLMO2 = "it normalizes the results of attention and network, and not what they read"
_LLAMA4 = Family(
    expert_inner=("intermediate_size",), dense_inner=("intermediate_size_mlp",), shares_one=True
)
_GRANITE_SHARED = Family(
    expert_inner=("intermediate_size",), shared_inner=("shared_intermediate_size",)
)

FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("llama", "mistral", "ministral", "mistral3", "phi3"), USUAL),
    "gpt2": Family(dense_inner=("n_inner", "intermediate_size"), wide=True, layer=GPT2),
    "olmo": Family(unlike="its norms have no weights"),
    "olmo2": Family(unlike=_OLMO2),
    "olmo3": Family(window=4096, window_period=4, unlike=_OLMO2),
    "qwen2": Family(window_off=True, layer=Layer(biases="qkv")),
    "granite": USUAL,
    "glm4": Family(layer=Layer(post_norms=True), biased="qkv"),
    "qwen3": Family(defaults={"head_dim": 128}, window_off=True, layer=Layer(qk_norm=True)),
    "gemma": Family(defaults={"head_dim": 256}, layer=GEMMA),
    "gemma2": Family(
        defaults={"head_dim": 256}, window=4096, window_period=2,
        layer=replace(GEMMA, post_norms=True),
    ),
    **dict.fromkeys(("gemma3", "gemma3_text"), _GEMMA3),
    "mixtral": Family(expert_inner=("intermediate_size",), layer=Layer(eps=1e-5)),
    "granitemoe": _ONE_SIZE,
    "phimoe": Family(expert_inner=("intermediate_size",), layer=Layer("layer", 1e-5)),
    "olmoe": Family(
        expert_inner=("intermediate_size",),
        unlike="its norms of queries and keys are over all heads together",
    ),
    "gpt_oss": Family(
        expert_inner=("intermediate_size",), defaults={"head_dim": 64}, window=128, window_period=2,
        unlike="its attention has sinks, and its experts biases and limits",
    ),
    **dict.fromkeys(("granitemoeshared", "granitemoehybrid"), _GRANITE_SHARED),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "glm4_moe", "kimi_k2"), _OWN_SIZE),
    "qwen3_moe": Family(
        expert_inner=("moe_intermediate_size",), window_off=True, layer=Layer(qk_norm=True)
    ),
    "ernie4_5_moe": Family(
        expert_inner=("moe_intermediate_size",),
        defaults={"moe_num_shared_experts": 2, "moe_layer_start_index": 1},
    ),
    "qwen2_moe": Family(
        expert_inner=("moe_intermediate_size",),
        shared_inner=("shared_expert_intermediate_size",),
        window_off=True,
        layer=Layer(biases="qkv"),
    ),
    **dict.fromkeys(("llama4", "llama4_text"), _LLAMA4),
}  # fmt: skip
"""Families by their `model_type`."""
