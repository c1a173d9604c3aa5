"""Bytes of the weights of a model."""

from __future__ import annotations

from stepsim.errors import ServingError
from stepsim.workloads import LatentHeads, Model


def weight_bytes(model: Model) -> int:
    """Bytes of all weights, which stay off chip: layers, embedding, head; norms and biases are not
    counted.

    Raises
    ------
    ServingError : the number of layers or the vocabulary is not known.
    ArgError : the heads are not known.
    """
    if model.layers is None:
        raise _lacks(model, "the number of its layers")
    if model.vocabulary is None:
        raise _lacks(model, "its vocabulary")
    with_experts = model.expert_layers or 0
    matrices = 3 if model.layer is None or model.layer.gated else 2
    dense = 0 if model.dense is None else matrices * model.model_dim * model.dense.inner_dim
    experts = 0
    if model.experts is not None:
        inner = model.experts.count * model.experts.inner_dim + model.experts.shared_inner
        experts = model.model_dim * (3 * inner + model.experts.count)
    elements = (
        2 * model.vocabulary * model.model_dim
        + model.layers * _attention_elements(model)
        + with_experts * experts
        + (model.layers - with_experts) * dense
    )
    return -(-elements * model.weight_dtype.bits // 8)


def _attention_elements(model: Model) -> int:
    """Elements of the projections of one layer."""
    heads, wide = model.heads, model.model_dim
    if not isinstance(heads, LatentHeads):
        shape = model.attention
        return wide * (shape.heads + shape.kv_heads) * (shape.head_dim + shape.value_width)
    queries = heads.heads * (heads.qk_nope_head_dim + heads.qk_rope_head_dim)
    low = heads.q_lora_rank
    of_queries = wide * queries if not low else low * (wide + queries)
    widths = heads.qk_nope_head_dim + heads.v_head_dim
    of_latent = heads.kv_lora_rank * (wide + heads.heads * widths)
    output = wide * heads.heads * heads.v_head_dim
    return of_queries + of_latent + wide * heads.qk_rope_head_dim + output


def _lacks(model: Model, what: str) -> ServingError:
    return ServingError(
        f"model {model.where}: {what} is not known, which decides how many KV blocks fit; give "
        "num_blocks, or a config.json of the model"
    )
