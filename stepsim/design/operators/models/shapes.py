"""Dimensions of the models that blocks are built of: those that runs know, as ``ModelShape``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from stepsim.errors import CompileError
from stepsim.typed import typed
from stepsim.workloads.models import (
    LLAMA,
    MODELS as KNOWN,
    GroupedHeads,
    Layer,
    Model,
    read_model,
)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The dimensions of one decoder block of a model.

    Attributes
    ----------
    inner : width of the feed-forward network.
    head_dim : width of a head; ``heads * head_dim`` need not be ``hidden``.
    layer : norms, activation, biases and rotation.
    window : keys that a query sees; None is all.
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
    layer: Layer = LLAMA
    window: int | None = None
    source: str = ""
    experts: int = 0
    active: int = 0

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.heads // self.kv_heads


@typed
def shape_of(model: Model, layer: int | None = None) -> ModelShape:
    """The shape of the block of a model.

    Parameters
    ----------
    layer : number of the layer from 0, where windows differ; None is the first one.

    Raises
    ------
    CompileError : the model lacks a part of a block, or has one that blocks do not have.
    ArgError : it has no such layer.
    """
    why = _unlike(model)
    if why:
        raise CompileError(f"compile: no block can be built of model {model.where}: {why}")
    if layer is not None and (model.windows is None or model.windows.layers is None):
        raise CompileError(
            f"compile: attention_layer is {layer}, but all layers of {model.name} are alike; "
            "leave it out"
        )
    heads, layers = model.heads, model.layers or 1
    assert isinstance(heads, GroupedHeads)  # as _unlike found
    assert model.layer is not None
    network = model.feed_forward
    experts = (
        {} if model.experts is None else {"experts": network.experts, "active": network.active}
    )
    return ModelShape(
        model.name, layers, model.model_dim, network.inner_dim, heads.heads, heads.kv_heads,
        heads.head_dim, model.layer, model.window(0 if layer is None else layer), model.source,
        **experts,
    )  # fmt: skip


def _unlike(model: Model) -> str:
    """What of a model no block has, as a clause; empty if it can be built."""
    heads = model.heads
    if heads is None:
        return f"it has no attention: {model.why_without('attention')}"
    if not isinstance(heads, GroupedHeads):
        return "it has latent attention (kv_lora_rank), which blocks do not have"
    if heads.value_dim not in (None, heads.head_dim):
        return (
            f"its values are {heads.value_dim} wide and its keys {heads.head_dim}; make them equal"
        )
    if model.experts is None and model.dense is None:
        return f"it has no feed-forward network: {model.why_without('experts')}"
    if model.experts is not None and model.experts.shared_inner:
        return (
            f"it has a shared expert, {model.experts.shared_inner} wide, which blocks do not have"
        )
    return "" if model.layer is not None else model.why_without("layer")


_SHAPES = {name: shape_of(model) for name, model in KNOWN.items() if not _unlike(model)}

MODELS: Mapping[str, ModelShape] = MappingProxyType(
    {name: shape for name, shape in _SHAPES.items() if not shape.experts}
)
"""Models that have blocks without experts, by name."""

MOE_MODELS: Mapping[str, ModelShape] = MappingProxyType(
    {name: shape for name, shape in _SHAPES.items() if shape.experts}
)
"""Models with experts, by name; see :func:`stepsim.design.moe_block`."""


@typed
def model_shape(model: str | Model | ModelShape, layer: int | None = None) -> ModelShape:
    """The shape of a name, of a file as :func:`stepsim.workloads.models.read_model` takes it, of a
    model, or itself.

    Parameters
    ----------
    layer : as of :func:`shape_of`.

    Raises
    ------
    ArgError : there is no such model, file or layer, or the file is wrong.
    CompileError : no block can be built of the model, or the heads do not share the key heads
        evenly.
    """
    if isinstance(model, str):
        model = read_model(model)
    if isinstance(model, Model):
        model = shape_of(model, layer)
    elif layer is not None:
        raise CompileError(f"model {model.name}: a shape is of one layer; leave out layer {layer}")
    if model.heads % model.kv_heads:
        raise CompileError(
            f"model {model.name}: {model.heads} heads cannot share {model.kv_heads} key heads; "
            "give a divisor"
        )
    if model.layer.rotary and model.head_dim % 2:
        raise CompileError(f"model {model.name}: head_dim {model.head_dim} is odd; give pairs")
    if model.experts and not (model.layer.gated and 1 <= model.active <= model.experts):
        raise CompileError(
            f"model {model.name}: {model.active} of {model.experts} experts are active; give from "
            "1 to all of them, with gated networks"
        )
    return model
