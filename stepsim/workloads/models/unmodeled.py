"""Keys of a config.json that change the work of a layer, but are not modeled.

Runs of a model that has one of them say so by name; a key that would change the shape of attention
altogether takes the attention from the model, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepsim.arguments import shown
from stepsim.workloads.models.layer import Layer
from stepsim.workloads.models.layer_keys import (
    ACTIVATIONS,
    ATTENTION_BIASES,
    NETWORK_BIAS,
    QK_NORMS,
)
from stepsim.workloads.models.windows import other_layers

ATTENTION, ROWS, EXPERTS, BLOCK = "attention", "rows", "experts", "block"
"""The parts of a layer that notes are about: attention, the rows of queries, keys and values that a
decoder layer generates, experts or the dense network, and the block that is compiled to a design,
which has norms, biases and activations."""

_BIAS = "it adds vectors to queries, keys and values"
_SCORES = "it takes further operations on every score"
_NORMS = "it adds norms of queries and keys"
_NETWORK_BIAS = "it adds vectors to the products of experts and dense networks"
_ACTIVATION = "experts and dense networks are built with a gate and silu"
_PART = "only a part of each head is rotated; all of it is, in the block that is built"
_PARALLEL = "attention and network read the same rows; they follow each other in the block"
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
    **dict.fromkeys(ATTENTION_BIASES, (ROWS, _BIAS)),
    **dict.fromkeys(QK_NORMS, (ROWS, _NORMS)),
    NETWORK_BIAS: (EXPERTS, _NETWORK_BIAS),
    "swiglu_limit": (EXPERTS, "it limits the activations within experts"),
    "zero_expert_num": (EXPERTS, "some experts pass rows on without any work"),
}  # fmt: skip
"""Keys that a note is about: the part, and what they change."""

_BUILT = ("silu", "swish", "swiglu")

_OF_BLOCKS: Mapping[str, tuple[Any, str]] = {
    **dict.fromkeys(("partial_rotary_factor", "rotary_pct"), (1, _PART)),
    **dict.fromkeys(("parallel_attn", "use_parallel_residual"), (False, _PARALLEL)),
    "no_rope_layers": ([], "some layers do not rotate queries and keys; the block does"),
    "alibi": (False, "it adds the distance of tokens to scores, and rotates nothing"),
    "clip_qkv": (0, "it limits queries, keys and values"),
    "residual_multiplier": (1, "it multiplies what is added to the residual"),
    "routed_scaling_factor": (1, "it multiplies the factors of experts"),
    "norm_topk_prob": (True, "the block that is built divides the factors of experts by their sum"),
    "scoring_func": ("softmax", "the router of the block that is built ends in a softmax"),
}  # fmt: skip
"""Keys that are about blocks alone: the value without an effect, and what they change."""

_READ_BY_BLOCKS = (*ATTENTION_BIASES, NETWORK_BIAS, *ACTIVATIONS)

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
        elif name in ACTIVATIONS and isinstance(value, str) and value not in _BUILT:
            found.append((EXPERTS, f"{path}{name} {value} is not modeled: {_ACTIVATION}"))
    others = other_layers(values.get("layer_types"))
    if others:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in others.items())
        found.append((ATTENTION, f"{path}layer_types: {kinds} are not modeled: {_OTHERS}"))
    return tuple(found)


def block_notes_of(
    values: Mapping[str, Any], path: str, layer: Layer | None
) -> tuple[tuple[str, str], ...]:
    """As :func:`notes_of`, of the block that is compiled, which has all that a layer describes."""
    read = (*_READ_BY_BLOCKS, *(QK_NORMS if layer is not None and layer.qk_norm else ()))
    left = {name: value for name, value in values.items() if name not in read}
    found = [(BLOCK, text) for _, text in notes_of(left, path)]
    for name, (idle, what) in _OF_BLOCKS.items():
        if name in values and values[name] != idle:
            found.append((BLOCK, f"{path}{name} {shown(values[name])} is not modeled: {what}"))
    return tuple(found)


def notes_of_layer(layer: Layer) -> tuple[tuple[str, str], ...]:
    """Pairs of a part and a sentence, of what runs of workloads leave out of a described layer."""
    found = []
    if layer.biases != "none":
        found.append((ROWS, f"biases {layer.biases} are not modeled: {_BIAS}"))
    if layer.biases == "all":
        found.append((EXPERTS, f"biases all are not modeled: {_NETWORK_BIAS}"))
    if layer.qk_norm:
        found.append((ROWS, f"qk_norm is not modeled: {_NORMS}"))
    if layer.activation != "silu" or not layer.gated:
        gate = "" if layer.gated else " without a gate"
        found.append((EXPERTS, f"{layer.activation}{gate} is not modeled: {_ACTIVATION}"))
    return tuple(found)
