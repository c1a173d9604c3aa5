"""Models in YAML: dimensions under their names in `Model`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from stepsim.documents import load_yaml
from stepsim.dtypes import DType
from stepsim.errors import ArgError, did_you_mean
from stepsim.workloads.models.keys import Keys, latent_heads, shown
from stepsim.workloads.models.layer import LLAMA, Layer
from stepsim.workloads.models.model import Dense, Experts, GroupedHeads, LatentHeads, Model
from stepsim.workloads.models.unmodeled import notes_of_layer
from stepsim.workloads.models.windows import Windows

_TOP = (
    "name", "model_dim", "layers", "vocabulary", "attention", "experts", "dense", "layer",
    "weight_dtype", "activation_dtype", "kv_dtype",
)  # fmt: skip
_EXPERTS = ("count", "active", "inner_dim", "shared_inner")
_DENSE = ("inner_dim", "layers")
_WINDOWS = ("window", "windowed_layers")
_GROUPED = ("heads", "kv_heads", "head_dim", "value_dim", *_WINDOWS)
_LATENT = (
    "heads", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "q_lora_rank",
    *_WINDOWS,
)  # fmt: skip
_MOST_WORDS = 1 << 32


def read_yaml(path: Path) -> Model:
    """The model of a YAML file.

    Raises
    ------
    ArgError
        The text is not YAML, or a key is unknown, missing or has a wrong value.
    """
    where = f"model {path}"
    values = load_yaml(path, "model", ArgError, "docs/models.md shows a model.").data
    if not isinstance(values, Mapping):
        raise ArgError(
            f"{where}: expected keys and values such as 'model_dim: 4096', found {shown(values)}"
        )
    return model_of(values, where, path.stem, str(path))


def model_of(
    values: Mapping[Any, Any], where: str, name: str = "custom", source: str = ""
) -> Model:
    """The model of dimensions by key; ``where`` begins the messages, ``name`` is the default name.

    Raises
    ------
    ArgError
        A key is unknown, missing or has a wrong value.
    """
    keys = Keys(values)
    _known(keys, _TOP)
    given = values.get("name", name)
    if not isinstance(given, str) or not given or len(given) > 200 or not given.isprintable():
        keys.problem(f"name: expected a text of up to 200 characters, found {shown(given)}")
    activations = keys.dtype("activation_dtype", default=DType.bf16)
    found: dict[str, Any] = {
        "model_dim": keys.number("the width of the activations", "model_dim"),
        "layers": keys.number("", "layers", default=0) or None,
        "vocabulary": keys.number("", "vocabulary", default=0, most=_MOST_WORDS) or None,
        "experts": _experts(keys.inside("experts")),
        "heads": _heads(keys.inside("attention")),
        "windows": _windows(keys.inside("attention")),
        "dense": _dense(keys.inside("dense")),
        "layer": _layer(keys.inside("layer")),
        "weight_dtype": keys.dtype("weight_dtype", default=activations),
        "activation_dtype": activations,
        "kv_dtype": keys.dtype("kv_dtype", default=activations),
    }
    if not any(keys.has(part) for part in ("attention", "experts", "dense")):
        keys.problem("expected one of the keys attention, experts and dense, found none")
    keys.refuse(where)
    absent = tuple((part, f"add the key '{part}'") for part in ("experts", "attention"))
    try:
        notes = notes_of_layer(found["layer"])
        return Model(given, **found, source=source, absent=absent, unmodeled=notes)
    except ArgError as error:
        raise ArgError(f"{where}: {error}") from None


def _experts(keys: Keys | None) -> Experts | None:
    if keys is None:
        return None
    _known(keys, _EXPERTS)
    return Experts(
        keys.number("the number of experts", "count"),
        keys.number("the number of experts of a token", "active"),
        keys.number("the inner dimension of an expert", "inner_dim"),
        keys.number("", "shared_inner", default=0, least=0),
    )


def _dense(keys: Keys | None) -> Dense | None:
    if keys is None:
        return None
    _known(keys, _DENSE)
    inner = keys.number("the inner dimension of dense layers", "inner_dim")
    return Dense(
        inner, keys.number("", "layers", default=0, least=0) if keys.has("layers") else None
    )


def _layer(keys: Keys | None) -> Layer:
    """What a layer has beside its products; that of Llama unless it is described."""
    if keys is None:
        return LLAMA
    known = tuple(one.name for one in fields(Layer))
    _known(keys, known)
    try:
        return Layer(**{name: keys.values[name] for name in known if keys.has(name)})
    except ArgError as error:
        keys.problem(str(error).replace("Layer: ", keys.path).replace("layer: ", keys.path))
        return LLAMA


def _heads(keys: Keys | None) -> GroupedHeads | LatentHeads | None:
    if keys is None:
        return None
    heads = keys.number("the number of query heads", "heads")
    if keys.has(*(name for name in _LATENT[1:] if name not in _WINDOWS)):
        _known(keys, _LATENT)
        return latent_heads(keys, heads)
    _known(keys, _GROUPED)
    return GroupedHeads(
        heads,
        keys.number("the number of KV heads", "kv_heads", default=heads),
        keys.number("the width of a head", "head_dim"),
        keys.number("", "value_dim", default=0) or None,
    )


def _windows(keys: Keys | None) -> Windows | None:
    """The sliding windows; all layers have one unless those that do are listed."""
    if keys is None or not keys.has(*_WINDOWS):
        return None
    tokens = keys.number("the window of the layers", "window", most=1 << 31)
    layers = keys.values.get("windowed_layers")
    if layers is None:
        return Windows(tokens)
    try:
        return Windows(tokens, layers)
    except ArgError as error:
        keys.problem(f"{keys.path}windowed_layers: {error}")
        return None


def _known(keys: Keys, names: tuple[str, ...]) -> None:
    for key in keys.values:
        if key not in names:
            near = did_you_mean(key, names)
            near = f"{near} Known" if near != "." else "; known"
            keys.problem(f"unknown key {keys.path}{shown(key)}{near} are {', '.join(names)}")
