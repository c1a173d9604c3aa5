"""The layers in numpy, in double precision."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["attention", "gelu", "layer_norm", "rms_norm", "rope", "silu", "softmax"]

Array = np.ndarray


def _wide(x: Array) -> Array:
    return np.asarray(x, np.float64)


def softmax(x: Array) -> Array:
    powers = np.exp(_wide(x) - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def rms_norm(x: Array, eps: float = 1e-5) -> Array:
    return _wide(x) / np.sqrt((_wide(x) ** 2).mean(axis=-1, keepdims=True) + eps)


def layer_norm(x: Array, eps: float = 1e-5) -> Array:
    wide = _wide(x)
    centered = wide - wide.mean(axis=-1, keepdims=True)
    return centered / np.sqrt(wide.var(axis=-1, keepdims=True) + eps)


def silu(x: Array) -> Array:
    return _wide(x) / (1 + np.exp(-_wide(x)))


def gelu(x: Array, approximate: str = "none") -> Array:
    wide = _wide(x)
    if approximate == "tanh":
        return 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    return 0.5 * wide * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))


def rope(x: Array, base: float = 10000.0, pairs: str = "half") -> Array:
    """Rows are positions from 0; the pairs are complex numbers that are turned."""
    length, dim = x.shape[-2:]
    half = dim // 2
    turns = np.exp(1j * np.arange(length)[:, None] * base ** (-np.arange(half) / half))
    wide = _wide(x)
    if pairs == "half":
        turned = (wide[..., :half] + 1j * wide[..., half:]) * turns
        return np.concatenate([turned.real, turned.imag], axis=-1)
    turned = (wide[..., ::2] + 1j * wide[..., 1::2]) * turns
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    window: int | None = None,
    start: int = 0,
    scale: float | None = None,
) -> Array:
    """``[heads, queries, d]`` with ``[key heads, keys, d]`` and ``[key heads, keys, e]``."""
    group = len(q) // len(k)
    k, v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)
    scores = _wide(q) @ _wide(k).transpose(0, 2, 1)
    scores *= 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if causal:
        at = start + np.arange(q.shape[1])[:, None]
        key = np.arange(k.shape[1])
        seen = (key <= at) & (key > at - (window or k.shape[1] + at.max() + 1))
        scores = np.where(seen, scores, -np.inf)
    return softmax(scores) @ _wide(v)
