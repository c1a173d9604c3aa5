"""What a layer of a model computes beside its products: norms, activation, biases, rotation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.typed import check_fields

Norm: TypeAlias = Literal["layer", "rms", "rms+1"]
Activation: TypeAlias = Literal["gelu", "gelu_tanh", "relu", "silu"]
Biases: TypeAlias = Literal["none", "qkv", "attention", "all"]

_WORDS = {"norm": get_args(Norm), "activation": get_args(Activation), "biases": get_args(Biases)}


@dataclass(frozen=True, slots=True)
class Layer:
    """The parts of a layer that its dimensions leave open; the defaults are those of Llama.

    Attributes
    ----------
    norm : ``layer`` with bias, ``rms``, or ``rms+1`` with a weight of ``1 + w``.
    eps : added to the variance under the root of a norm.
    gated : the feed-forward network multiplies by an activated gate.
    rotary : queries and keys are rotated by their position.
    biases : linear layers that have one: none, those of queries, keys and values, these and the
        output of attention, or all.
    qk_norm : queries and keys of each head are normalized before the rotary embedding.
    post_norms : the results of attention and network are normalized, before the residual sum.

    Raises
    ------
    ArgError : a field has a wrong type or value.
    """

    norm: Norm = "rms"
    eps: float = 1e-6
    activation: Activation = "silu"
    gated: bool = True
    rotary: bool = True
    biases: Biases = "none"
    qk_norm: bool = False
    post_norms: bool = False

    def __post_init__(self) -> None:
        check_fields(type(self), {name: getattr(self, name) for name in self.__slots__})
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                raise ArgError(
                    f"layer: {name} is {shown(getattr(self, name))}; use one of {', '.join(words)}"
                )
        if not 0 <= self.eps < 1:
            raise ArgError(f"layer: eps is {self.eps:g}; use a number from 0 to below 1")


LLAMA = Layer()
GPT2 = Layer("layer", 1e-5, "gelu_tanh", gated=False, rotary=False, biases="all")
GEMMA = Layer("rms+1", activation="gelu_tanh")
"""Layers that several models have, or nearly so."""
