"""Layers of neural networks, written in the language itself: ``st.nn``."""

from typing import Any

from stepsim.errors import did_you_mean
from stepsim.graph.nn.experts import moe
from stepsim.graph.nn.feed_forward import gelu_ffn, swiglu
from stepsim.graph.nn.flash import flash_attention
from stepsim.graph.nn.full_attention import attention
from stepsim.graph.nn.latent import latent_attention
from stepsim.graph.nn.linear import linear
from stepsim.graph.nn.llama import LlamaWeights, llama_block
from stepsim.graph.nn.norms import layer_norm, rms_norm
from stepsim.graph.nn.paged import paged_attention
from stepsim.graph.nn.parallel.collectives import all_gather, all_reduce, all_to_all, reduce_scatter
from stepsim.graph.nn.parallel.exchange import combine_rows, dispatch_rows
from stepsim.graph.nn.rotary import rope, rope_tables
from stepsim.graph.nn.routing import chosen_weights, router, top_k
from stepsim.graph.nn.safe_softmax import softmax

__all__ = [
    "LlamaWeights",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "attention",
    "chosen_weights",
    "combine_rows",
    "dispatch_rows",
    "flash_attention",
    "gelu_ffn",
    "latent_attention",
    "layer_norm",
    "linear",
    "llama_block",
    "moe",
    "paged_attention",
    "reduce_scatter",
    "rms_norm",
    "rope",
    "rope_tables",
    "router",
    "softmax",
    "swiglu",
    "top_k",
]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from stepsim.graph import fn

    hint = did_you_mean(name, __all__).removesuffix(".")
    if name in fn.__all__:
        hint = f"; st.fn.{name} is a function"
    raise AttributeError(f"there is no layer st.nn.{name}{hint}")
