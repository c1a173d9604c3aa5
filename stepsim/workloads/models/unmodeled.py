"""Keys of a config.json that change the work of a layer, but are not modeled.

Runs of a model that has one of them say so by name; a key that would change the shape of attention
altogether takes the attention from the model, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepsim.arguments import shown
from stepsim.workloads.models.windows import other_layers

ATTENTION, ROWS, EXPERTS = "attention", "rows", "experts"
"""The parts of a layer that notes are about: attention, the rows of queries, keys and values that a
decoder layer generates, and experts or the dense network."""

_BIAS = "it adds vectors to queries, keys and values"
_SCORES = "it takes further operations on every score"
_NORMS = "it adds norms of queries and keys"
_OTHERS = "some layers are of another kind than attention; the layer that is built is attention"
_LOCAL = "some layers attend to near tokens alone; the layer that is built attends to all"
_SHARED = "some layers read the cache of another one and write none"

_WARNED: Mapping[str, tuple[str, str]] = {
    "attention_chunk_size": (
        ATTENTION,
        "some layers attend within chunks of so many tokens; the layer that is built attends to "
        "all",
    ),
    **dict.fromkeys(("attn_logit_softcapping", "attention_logit_cap"), (ATTENTION, _SCORES)),
    **dict.fromkeys(("num_kv_shared_layers", "use_cla", "cla_share_factor"), (ATTENTION, _SHARED)),
    **dict.fromkeys(
        ("global_attn_every_n_layers", "local_attention", "attention_window", "window_size",
         "attention_types", "hybrid_layer_pattern"), (ATTENTION, _LOCAL),
    ),
    **dict.fromkeys(
        ("full_attention_interval", "attn_layer_period", "attn_layer_indices", "layers_block_type",
         "hybrid_override_pattern", "attn_type_list"), (ATTENTION, _OTHERS),
    ),
    **dict.fromkeys(
        ("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias"), (ROWS, _BIAS)
    ),
    **dict.fromkeys(("use_qk_norm", "qk_layernorm", "use_qk_layernorm"), (ROWS, _NORMS)),
    "mlp_bias": (EXPERTS, "it adds vectors to the products of experts and dense networks"),
    "swiglu_limit": (EXPERTS, "it limits the activations within experts"),
    "zero_expert_num": (EXPERTS, "some experts pass rows on without any work"),
}  # fmt: skip
"""Keys that a note is about: the part, and what they change."""

_ACTIVATIONS = ("hidden_act", "hidden_activation")
_BUILT = ("silu", "swish", "swiglu")

REFUSED: Mapping[str, str] = {
    "index_topk": "each token attends to tokens that an indexer chooses, which is not modeled",
}
"""Keys that take the attention from a model, and why."""


def notes_of(values: Mapping[str, Any], path: str) -> tuple[tuple[str, str], ...]:
    """Pairs of a part and a sentence, of keys that have an effect: neither null, false nor 0."""
    found = []
    for name, value in values.items():
        part, what = _WARNED.get(name, ("", ""))
        if part and value:
            found.append((part, f"{path}{name} {shown(value)} is not modeled: {what}"))
        elif name.startswith("swa_") and value:
            text = "layers with a sliding window have other heads; those of the others are built"
            found.append((ATTENTION, f"{path}{name} {shown(value)} is not modeled: {text}"))
        elif name in _ACTIVATIONS and isinstance(value, str) and value not in _BUILT:
            text = "experts and dense networks are built with a gate and silu"
            found.append((EXPERTS, f"{path}{name} {value} is not modeled: {text}"))
    others = other_layers(values.get("layer_types"))
    if others:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in others.items())
        found.append((ATTENTION, f"{path}layer_types: {kinds} are not modeled: {_OTHERS}"))
    return tuple(found)
