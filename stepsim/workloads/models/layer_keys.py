"""The layer that a config.json states: norms, activation and biases, by family and by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stepsim.arguments import is_number, shown
from stepsim.workloads.models.layer import Activation, Biases, Layer

if TYPE_CHECKING:
    from stepsim.workloads.models.families import Family

ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function")
"""Keys of the activation; the last one with a value is the one that `transformers` takes."""

ATTENTION_BIASES = ("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias")
QK_NORMS = ("use_qk_norm", "qk_layernorm", "use_qk_layernorm")
NETWORK_BIAS = "mlp_bias"

_EPS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon")

_NAMES: Mapping[str, Activation] = {
    **dict.fromkeys(("silu", "swish", "swiglu"), "silu"),
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_tanh"), "gelu_tanh"),
    "gelu": "gelu",
    "relu": "relu",
}  # fmt: skip


def layer_of(values: Mapping[str, Any], path: str, family: Family) -> tuple[Layer | None, str]:
    """The layer of a model, or None and why it cannot be described, as a clause.

    Parameters
    ----------
    values : keys of the file that are not null; ``path`` is their prefix in messages.
    """
    if family.unlike:
        return None, f"its model_type is {values.get('model_type')}; {family.unlike}"
    layer = family.layer
    for name in ACTIVATIONS:
        if name not in values:
            continue
        found = _NAMES.get(values[name]) if isinstance(values[name], str) else None
        if found is None:
            known = ", ".join(_NAMES)
            return None, f"{path}{name} is {shown(values[name])}; known are {known}"
        # Gemma's first files say gelu and mean its form by tanh.
        by_tanh = found == "gelu" and layer.activation == "gelu_tanh" and layer.gated
        layer = replace(layer, activation="gelu_tanh" if by_tanh else found)
    for name in _EPS:
        if name in values:
            eps = values[name]
            if not is_number(eps) or not 0 <= eps < 1:
                return None, f"{path}{name} is {shown(eps)}; use a number from 0 to below 1"
            layer = replace(layer, eps=float(eps))
    biases = _biases(values, family)
    if biases is None:
        return None, f"{path}{NETWORK_BIAS} is true, but not all products of attention have a bias"
    return replace(layer, biases=biases), ""


def _biases(values: Mapping[str, Any], family: Family) -> Biases | None:
    """Linear layers with a bias; None for those of the network without those of attention."""
    found = family.layer.biases
    for name in ATTENTION_BIASES:
        if values.get(name):
            found = "qkv" if name != ATTENTION_BIASES[0] else family.biased
    if not values.get(NETWORK_BIAS) or found == "all":
        return found
    return "all" if found == "attention" else None
