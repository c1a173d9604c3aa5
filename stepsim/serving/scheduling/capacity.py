"""Bytes of weights, and the blocks of keys and values that a device holds beside them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from stepsim.arguments import Range, shown
from stepsim.dtypes import packed_bytes
from stepsim.errors import ArgError, ServingError
from stepsim.typed import typed
from stepsim.workloads import LatentHeads, Model, Split

_BYTES = Range((1 << 62) - 1, "bytes")


@typed
def kv_bytes_per_token(model: Model) -> int:
    """Bytes of keys and values of one token in all layers, in the model's ``kv_dtype``.

    Grouped heads keep a key and a value for every KV head; latent attention keeps the latent
    vector and the rotary part of the key, once for all heads.

    Raises:
        ArgError: the heads or the number of layers are not known.
    """
    if model.layers is None:
        raise ArgError(f"model {model.where} has no number of layers; give it by the key 'layers'")
    return _kv_bytes(model, model.layers)


def _kv_bytes(model: Model, layers: int) -> int:
    """Bytes of keys and values of one token in some layers."""
    shape = model.attention
    # The value of latent attention is a part of its key.
    is_latent = isinstance(model.heads, LatentHeads)
    width = shape.head_dim if is_latent else shape.head_dim + shape.value_width
    return packed_bytes(shape.kv_heads * width * layers, model.kv_dtype.bits)


@typed
def blocks_in(
    capacity_bytes: int, weight_bytes: int, *, share: float, block_size: int, kv_bytes: int
) -> int:
    """Blocks that fit a device beside the weights.

    Args:
        capacity_bytes: off-chip memory of the device.
        weight_bytes: bytes of the weights that it keeps.
        share: share of the memory that weights and blocks may use.
        block_size: tokens of a block.
        kv_bytes: bytes of keys and values of one token, as by :func:`kv_bytes_per_token`.

    Raises:
        ArgError: the weights leave no room for a block.
    """
    for what, value in (("capacity_bytes", capacity_bytes), ("kv_bytes", kv_bytes)):
        _BYTES.checked(what, value)
    if not 0 < share <= 1:
        raise ArgError(f"share must be above 0 and at most 1, found {shown(share)}")
    usable = int(Fraction(repr(float(share))) * capacity_bytes)
    blocks = (usable - weight_bytes) // (block_size * kv_bytes)
    if blocks < 1:
        raise ArgError(
            f"the weights take {weight_bytes} of {usable} usable bytes, and a block of "
            f"{block_size} tokens {block_size * kv_bytes}: no block fits; take a device with more "
            "memory, a larger share of it, or narrower types"
        )
    return int(blocks)


@dataclass(frozen=True, slots=True)
class Held:
    """What every chip of a stage holds.

    Attributes
    ----------
    weights : bytes of its weights.
    kv_bytes : of keys and values of one token, in all layers of the stage.
    """

    weights: int
    kv_bytes: int


def held_by_stages(model: Model, split: Split) -> list[Held]:
    """What the chips of each stage hold: the weights of its layers, the embedding on the first one,
    the head on the last one, and keys and values; norms and biases are not counted.

    Layers follow each other, and stages have equal numbers of them, but for one more on the first
    stages. Members of a stage divide the words of embedding and head; each has the whole router.

    Raises
    ------
    ServingError : the number of layers or the vocabulary is not known.
    ArgError : the heads are not known.
    """
    if model.layers is None:
        raise _lacks(model, "the number of its layers")
    if model.vocabulary is None:
        raise _lacks(model, "its vocabulary")
    own = split.model(model)
    dense_layers = model.layers - (model.expert_layers or 0)
    routed = 0 if model.experts is None else model.experts.count
    words = -(-model.vocabulary // split.tp) * model.model_dim
    found, begin = [], 0
    for stage in range(split.pp):
        end = begin + model.layers // split.pp + (stage < model.layers % split.pp)
        dense = max(min(end, dense_layers) - begin, 0)
        elements = words * ((stage == 0) + (stage == split.pp - 1))
        elements += (end - begin) * _attention_elements(own) + dense * _dense_elements(own)
        elements += (end - begin - dense) * _expert_elements(own, routed)
        weights = -(-elements * model.weight_dtype.bits // 8)
        found.append(Held(weights, _kv_bytes(own, end - begin)))
        begin = end
    return found


def _dense_elements(model: Model) -> int:
    """Elements of the dense network of one layer."""
    matrices = 3 if model.layer is None or model.layer.gated else 2
    return 0 if model.dense is None else matrices * model.model_dim * model.dense.inner_dim


def _expert_elements(model: Model, routed: int) -> int:
    """Elements of the experts of one layer, and of a router of so many."""
    if model.experts is None:
        return 0
    inner = model.experts.count * model.experts.inner_dim + model.experts.shared_inner
    return model.model_dim * (3 * inner + routed)


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
