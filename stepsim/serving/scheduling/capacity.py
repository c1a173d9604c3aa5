"""Blocks of keys and values that a device holds beside the weights of a model."""

from __future__ import annotations

from fractions import Fraction

from stepsim.arguments import Range, shown
from stepsim.dtypes import packed_bytes
from stepsim.errors import ArgError
from stepsim.typed import typed
from stepsim.workloads import LatentHeads, Model

_BYTES = Range((1 << 62) - 1, "bytes")


@typed
def kv_bytes_per_token(model: Model) -> int:
    """Bytes of keys and values of one token in all layers, in the model's ``kv_dtype``.

    Grouped heads keep a key and a value for every KV head; latent attention keeps the latent
    vector and the rotary part of the key, once for all heads.

    Raises:
        ArgError: the heads or the number of layers are not known.
    """
    shape = model.attention
    if model.layers is None:
        raise ArgError(f"model {model.where} has no number of layers; give it by the key 'layers'")
    # The value of latent attention is a part of its key.
    is_latent = isinstance(model.heads, LatentHeads)
    width = shape.head_dim if is_latent else shape.head_dim + shape.value_width
    return packed_bytes(shape.kv_heads * width * model.layers, model.kv_dtype.bits)


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
