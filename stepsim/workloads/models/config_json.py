"""Models from the config.json of a Hugging Face model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepsim.documents import load_json
from stepsim.dtypes import DType
from stepsim.errors import ArgError
from stepsim.workloads.models.families import FAMILIES, USUAL, Family
from stepsim.workloads.models.keys import Keys, latent_heads, shown
from stepsim.workloads.models.layer_keys import layer_of
from stepsim.workloads.models.model import Dense, Experts, GroupedHeads, LatentHeads, Model
from stepsim.workloads.models.quantization import quantized
from stepsim.workloads.models.unmodeled import BLOCK, REFUSED, block_notes_of, notes_of
from stepsim.workloads.models.windows import windows_of

_NESTED = ("text_config", "llm_config", "language_config")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
_HEADS = ("num_attention_heads", "n_head")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_ACTIVE = ("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_k")
_SHARED = ("n_shared_experts", "moe_num_shared_experts")
_SHARED_INNER = "shared_expert_intermediate_size"
_FIRST = ("first_k_dense_replace", "moe_layer_start_index")
_STEP = ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval")
_LATENT = ("q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim")
_DTYPES = ("dtype", "torch_dtype")
KEYS = (*_HIDDEN, *_LAYERS, *_HEADS, *_EXPERTS, *_ACTIVE, *_DTYPES, *_NESTED)
"""Keys shared by all families."""

_MOST_LAYERS, _MOST_WORDS = 1 << 14, 1 << 32


def read_config(path: Path) -> Model:
    """The model of a config.json; for a multimodal one, its language model.

    Raises
    ------
    ArgError
        The text is not JSON, or keys are missing or have wrong values; the message names all of
        them.
    """
    where = f"model {path}"
    raw = load_json(path, "model", ArgError).data
    if not isinstance(raw, dict):
        raise ArgError(f"{where}: expected the keys and values of a model, found {shown(raw)}")
    nest = next((name for name in _NESTED if isinstance(raw.get(name), dict)), None)
    inner: Mapping[str, Any] = raw if nest is None else raw[nest]
    kind = inner.get("model_type", raw.get("model_type"))
    family = FAMILIES.get(kind, USUAL) if isinstance(kind, str) else USUAL
    keys = Keys({**family.defaults, **_given(inner)}, "" if nest is None else f"{nest}.")
    outer = Keys(raw, problems=keys.problems)
    hidden = keys.number("the hidden size", *_HIDDEN)
    layers = keys.number("", *_LAYERS, default=0, most=_MOST_LAYERS) or None
    experts = _experts(keys, family)
    dense_layers = _dense_layers(keys, layers, experts)
    weights, activations, cache = _types(keys, outer)
    layer, unlike = layer_of(keys.values, keys.path, family)
    found: dict[str, Any] = {
        "model_dim": hidden,
        "experts": experts,
        "heads": _heads(keys, hidden),
        "windows": windows_of(keys, inner, family, layers),
        "dense": _dense(keys, family, experts, dense_layers, hidden),
        "layer": layer,
        "layers": layers,
        "vocabulary": keys.number("", "vocab_size", default=0, most=_MOST_WORDS) or None,
        "weight_dtype": weights,
        "activation_dtype": activations,
        "kv_dtype": cache,
    }
    known = isinstance(kind, str) and kind in FAMILIES
    keys.refuse(where, "" if known else _unknown(kind))
    label = f"model_type {shown(kind)}"
    refused = [f"{keys.path}{name}: {why}" for name, why in REFUSED.items() if keys.has(name)]
    if refused:
        found["heads"] = None
    absent = (
        ("layer", unlike),
        ("experts", f"none of the keys {', '.join(keys.path + n for n in _EXPERTS)} is in the file "
         f"({label}). Give the config.json of a mixture-of-experts model, or a YAML file"),
        *(("attention", f"{text}. Describe attention that is as much work in a YAML file")
          for text in refused),
        ("attention", f"none of the keys {', '.join(keys.path + n for n in _HEADS)} is in the file "
         f"({label}). Give the config.json of a transformer, or a YAML file"),
    )  # fmt: skip
    try:
        notes = (
            *notes_of(keys.values, keys.path),
            *(() if known else ((BLOCK, f"{_usual(kind)}: its layer is built as one of Llama"),)),
            *block_notes_of(keys.values, keys.path, layer),
        )
        return Model(_name(path), **found, source=str(path), absent=absent, unmodeled=notes)
    except ArgError as error:
        raise ArgError(f"{where}: {error}") from None


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that have a value; null means the default."""
    return {name: value for name, value in values.items() if value is not None}


def _unknown(kind: object) -> str:
    what = _usual(kind)
    tried = "so the usual keys were tried; a YAML file can describe any model."
    return f"{what[0].upper()}{what[1:]}, {tried}"


def _usual(kind: object) -> str:
    return "it has no model_type" if kind is None else f"its model_type {shown(kind)} is unknown"


def _name(path: Path) -> str:
    """The name of the folder, or of the model in a cache of snapshots."""
    if path.name != "config.json":
        return path.stem
    folder = path.resolve().parent
    if folder.parent.name == "snapshots":
        return folder.parent.parent.name.rsplit("--", 1)[-1]
    return folder.name or path.stem


def _experts(keys: Keys, family: Family) -> Experts | None:
    if not any(keys.values.get(name, 0) != 0 for name in _EXPERTS):
        return None
    count = keys.number("the number of experts", *_EXPERTS)
    active = keys.number("the number of experts of a token", *_ACTIVE)
    inner = keys.number("the inner dimension of an expert", *family.expert_inner)
    if family.shares_one:
        shared = inner
    elif family.shared_inner:
        shared = keys.number(
            "the inner dimension of the shared expert", *family.shared_inner, least=0
        )
    elif keys.has(_SHARED_INNER):
        shared = keys.number("", _SHARED_INNER, least=0)
    else:
        shared = inner * keys.number("", *_SHARED, default=0, least=0)
    for name in _unread_of_shared(keys.values):
        keys.problem(
            f"{keys.path}{name}: describes shared experts in an unknown way, expected "
            f"{', '.join(_SHARED)} or {_SHARED_INNER}; describe the model in a YAML file, with "
            "experts.shared_inner"
        )
    if active > count and not keys.problems:
        keys.problem(f"expected at most the {count} experts for each token, found {active}")
    return Experts(count, active, inner, shared)


def _unread_of_shared(values: Mapping[str, Any]) -> list[str]:
    """Unknown keys about shared experts; 0 and false mean that there are no such experts."""
    read = (*_SHARED, _SHARED_INNER)
    return [
        name
        for name, value in values.items()
        if "expert" in name.partition("shared")[2] and value and name not in read
    ]


def _dense_layers(keys: Keys, layers: int | None, experts: Experts | None) -> int | None:
    """Layers without experts; None if the file does not state the number of layers."""
    if experts is None:
        return layers
    first = keys.number("", *_FIRST, default=0, least=0, most=layers or _MOST_LAYERS)
    # -1 is the last layer.
    last = keys.number("", "moe_layer_end_index", default=-1, least=-1, most=_MOST_LAYERS)
    flags = _flags(keys, layers)
    every = 1 if flags is not None else keys.number("", "moe_layer_freq", default=1)
    step = keys.number("", *_STEP, default=1)
    plain = keys.values.get("mlp_only_layers", [])
    known = range(layers or _MOST_LAYERS)
    if not isinstance(plain, list) or not all(type(i) is int and i in known for i in plain):
        of = "" if layers is None else f" from 0 to {layers - 1}"
        keys.problem(
            f"{keys.path}mlp_only_layers: expected indices of layers{of}, found {shown(plain)}"
        )
        plain = []
    if layers is None:
        return None
    if flags is not None:
        return flags.count(0)
    inside = range(first, layers if last == -1 else last + 1)
    skipped = set(plain)
    return sum(
        1 for i in range(layers) if i not in inside or i % every or (i + 1) % step or i in skipped
    )


def _flags(keys: Keys, layers: int | None) -> list[Any] | None:
    """The numbers of ``moe_layer_freq``, 0 for each layer without experts; None without a list."""
    flags = keys.values.get("moe_layer_freq")
    if not isinstance(flags, list):
        return None
    if any(flag not in (0, 1) for flag in flags) or len(flags) != (layers or len(flags)):
        each = "each layer" if layers is None else f"each of {layers} layers"
        keys.problem(
            f"{keys.path}moe_layer_freq: expected 0 or 1 for {each}, found {len(flags)} values: "
            f"{shown(flags)}"
        )
    return flags


def _dense(
    keys: Keys, family: Family, experts: Experts | None, layers: int | None, hidden: int
) -> Dense | None:
    if experts is not None and not layers:
        return None
    if experts is None and not family.wide and not keys.has(*family.dense_inner):
        return None
    inner = keys.number(
        "the inner dimension of layers without experts", *family.dense_inner,
        default=4 * hidden if family.wide else None,
    )  # fmt: skip
    return Dense(inner, layers)


def _heads(keys: Keys, hidden: int) -> GroupedHeads | LatentHeads | None:
    if not keys.has(*_HEADS):
        return None
    heads = keys.number("", *_HEADS)
    if keys.has("kv_lora_rank"):
        return latent_heads(keys, heads)
    if latent := [name for name in _LATENT if keys.has(name)]:
        keys.problem(
            f"{keys.path}{latent[0]}: describes latent attention, expected the key "
            f"'{keys.path}kv_lora_rank' with it"
        )
    groups = keys.number("", "num_key_value_heads", default=heads)
    if keys.problems:
        return None
    if heads % groups:
        keys.problem(
            f"{keys.path}num_key_value_heads: expected a divisor of the {heads} heads, "
            f"found {groups}"
        )
        groups = heads
    if not keys.has("head_dim") and hidden % heads:
        keys.problem(
            f"the width of a head is missing: expected the key '{keys.path}head_dim', since "
            f"{heads} heads do not divide the hidden size {hidden}"
        )
    width = keys.number("", "head_dim", default=max(1, hidden // heads))
    value = keys.number("", "v_head_dim", default=width)
    return GroupedHeads(heads, groups, width, None if value == width else value)


def _types(keys: Keys, outer: Keys) -> tuple[DType, DType, DType]:
    """Element types of weights, activations and cache; bf16 if the file does not name any."""
    plain = keys.dtype(*_DTYPES, default=outer.dtype(*_DTYPES, default=DType.bf16))
    for place in (keys, outer):
        for name in ("quantization_config", "quantization"):
            part = place.inside(name)
            if part is not None:
                weights, cache = quantized(part, plain)
                return weights, plain, cache
    return plain, plain, plain
