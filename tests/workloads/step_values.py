"""A layer of a step in plain numpy, and the tensors that its program reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stepsim.graph import Program
from stepsim.workloads import Data, Model, Step
from stepsim.workloads.models import Experts, GroupedHeads, LatentHeads
from stepsim.workloads.step.layer import blocks_of

Array = np.ndarray[Any, Any]


def rms(x: Array, factors: Array) -> Array:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * factors


def turned(x: Array, cos: Array, sin: Array) -> Array:
    """Rotary embedding of pairs ``i`` and ``i + d / 2``; tables ``[tokens, d / 2]``."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


@dataclass
class Numbers:
    """Random numbers of a layer, its cached keys and values, and what it makes of them."""

    workload: Step
    data: Data
    seed: int = 0

    def __post_init__(self) -> None:
        model = self.workload.layer_model
        rng = np.random.default_rng(self.seed)
        d, shape, ffn = model.model_dim, model.attention, model.feed_forward

        def draw(*size: int) -> Array:
            return (rng.standard_normal(size) / np.sqrt(size[0])).astype(np.float32)

        self.hidden = rng.standard_normal((self.data.tokens, d)).astype(np.float32)
        self.norms = 1 + rng.standard_normal((3, d)).astype(np.float32) / 10
        heads = self.workload.latent
        if heads is None:
            group = shape.queries_per_kv_head
            self.matrices = {"qkv": draw(d, shape.kv_heads * (group + 2) * shape.head_dim)}
            self.matrices["output"] = draw(shape.heads * shape.value_width, d)
            width = shape.head_dim
        else:
            rank, nope, rope = heads.kv_lora_rank, heads.qk_nope_head_dim, heads.qk_rope_head_dim
            self.matrices = {"kv_down": draw(d, rank + rope)}
            if heads.q_lora_rank is not None:
                self.matrices["query_down"] = draw(d, heads.q_lora_rank)
            self.matrices |= {
                "query_up": draw(heads.q_lora_rank or d, heads.heads * (nope + rope)),
                "key_up": draw(nope, heads.heads * rank),
                "value_up": draw(rank, heads.heads * heads.v_head_dim),
                "output": draw(heads.heads * heads.v_head_dim, d),
            }
            width = rope
        # The shared expert, which has the same inner dimension, comes last.
        experts = ffn.experts + bool(ffn.shared_inner)
        self.up, self.gate = (draw(d, experts, ffn.inner_dim) for _ in range(2))
        self.down = draw(ffn.inner_dim, experts, d)
        self.router = draw(d, ffn.experts)
        self.head = draw(d, model.vocabulary or 1)
        self.new, self.cached = self.data.new, self.data.lengths
        self.request = np.repeat(np.arange(len(self.new)), self.new)
        before = np.cumsum(self.new) - self.new
        inside = np.arange(self.data.tokens) - before[self.request]
        self.position = self.cached[self.request] + inside
        angle = self.position[:, None] / 10.0 ** (np.arange(width // 2) / 4)
        self.cos, self.sin = np.cos(angle).astype("f4"), np.sin(angle).astype("f4")
        longest = int((self.cached + self.new).max())
        sizes = len(self.new), shape.kv_heads, longest
        self.keys = rng.standard_normal((*sizes, shape.head_dim)).astype(np.float32)
        self.values = rng.standard_normal((*sizes, shape.value_width)).astype(np.float32)
        self.compute()

    def compute(self) -> None:
        """Rows behind the layer, logits, and the caches with the new keys and values."""
        model = self.workload.layer_model
        shape, window = model.attention, self.workload.window
        query, key, value = self._projected(rms(self.hidden, self.norms[0]))
        self.keys[self.request, :, self.position] = key
        self.values[self.request, :, self.position] = value
        group = shape.queries_per_kv_head
        attended = np.zeros((self.data.tokens, shape.heads, shape.value_width), np.float32)
        for t, (i, at) in enumerate(zip(self.request, self.position, strict=True)):
            low = 0 if window is None else max(0, at - window + 1)
            for h in range(shape.heads):
                keys = self.keys[i, h // group, low : at + 1]
                weights = np.exp(keys @ query[t, h])
                weights /= weights.sum()
                attended[t, h] = weights @ self.values[i, h // group, low : at + 1]
        if isinstance(model.heads, LatentHeads):
            up = self.matrices["value_up"].reshape(shape.value_width, shape.heads, -1)
            attended = np.einsum("thr,rhv->thv", attended, up)
        x = self.hidden + attended.reshape(self.data.tokens, -1) @ self.matrices["output"]
        self.rows = x + self._network(rms(x, self.norms[1]))
        ends = np.cumsum(self.new) - 1
        self.logits = rms(self.rows[ends], self.norms[2]) @ self.head

    def _projected(self, x: Array) -> tuple[Array, Array, Array]:
        """Queries ``[tokens, heads, width]``, keys and values ``[tokens, KV heads, width]``."""
        shape, heads = self.workload.model.attention, self.workload.latent
        cos, sin = self.cos[:, None], self.sin[:, None]
        if heads is None:
            group = shape.queries_per_kv_head
            qkv = (x @ self.matrices["qkv"]).reshape(
                len(x), shape.kv_heads, group + 2, shape.head_dim
            )
            query = qkv[:, :, :group].reshape(len(x), shape.heads, -1)
            return turned(query, cos, sin), turned(qkv[:, :, group], cos, sin), qkv[:, :, group + 1]
        rank, nope = heads.kv_lora_rank, heads.qk_nope_head_dim
        down = (x @ self.matrices["kv_down"])[:, None]
        value = down[..., :rank]
        key = np.concatenate([value, turned(down[..., rank:], cos, sin)], axis=-1)
        source = x @ self.matrices["query_down"] if heads.q_lora_rank is not None else x
        query = (source @ self.matrices["query_up"]).reshape(len(x), heads.heads, -1)
        up = self.matrices["key_up"].reshape(nope, heads.heads, rank)
        plain = np.einsum("thn,nhr->thr", query[..., :nope], up)
        return np.concatenate([plain, turned(query[..., nope:], cos, sin)], axis=-1), key, value

    def _network(self, x: Array) -> Array:
        model = self.workload.layer_model
        if model.experts is None:
            return self._expert(x, 0)
        assert self.data.routing is not None
        scores = x @ self.router
        result = self._expert(x, -1) if model.experts.shared_inner else np.zeros_like(x)
        for t, experts in enumerate(self.data.routing):
            weights = np.exp(scores[t, experts] - scores[t, experts].max())
            for e, w in zip(experts, weights / weights.sum(), strict=True):
                result[t] += w * self._expert(x[t : t + 1], e)[0]
        return result

    def _expert(self, x: Array, e: int) -> Array:
        gate = x @ self.gate[:, e]
        return (x @ self.up[:, e] * gate / (1 + np.exp(-gate))) @ self.down[:, e]

    def tensors(self, program: Program) -> dict[str, Array]:
        """All tensors of a program with one load for each matrix, by name."""
        blocks = blocks_of(self.workload, self.data)
        found: dict[str, Array] = {
            f"{name}_weights.0": matrix for name, matrix in self.matrices.items()
        }
        found |= {"router_weights.0": self.router, "head_weights.0": self.head}
        names = ("attention_norm", "experts_norm", "head_norm")
        found |= {name: row[None] for name, row in zip(names, self.norms, strict=True)}
        routed = self.workload.layer_model.feed_forward.experts
        for e in range(self.up.shape[1]):
            name = str(e) if e < routed else "shared"
            found |= {f"up.{name}": self.up[:, e], f"gate.{name}": self.gate[:, e]}
            found[f"down.{name}"] = self.down[:, e]
        for r in range(len(blocks.shares)):
            own = blocks.region_of_rows == r
            found |= {f"hidden.{r}": self.hidden[own], f"cos.{r}": self.cos[own]}
            found[f"sin.{r}"] = self.sin[own]
        for name, cached in (("cache_key", self.keys), ("cache_value", self.values)):
            found[name] = self.laid_out(cached)
        names = {op.tensor.name for op in program.operators if hasattr(op, "tensor")}
        return {name: array for name, array in found.items() if name in names}

    def laid_out(self, cached: Array) -> Array:
        """Caches as they lie off chip: by KV head, request and position, in whole tiles."""
        requests, heads, longest, width = cached.shape
        reserved = blocks_of(self.workload, self.data).reserved
        laid = np.zeros((heads, requests, reserved, width), np.float32)
        laid[:, :, :longest] = cached.transpose(1, 0, 2, 3)
        return laid.reshape(-1, width)


def model_of(name: str = "tiny", **changes: Any) -> Model:
    """A small model of grouped heads and experts, with changes."""
    given = {"experts": Experts(4, 2, 64), "heads": GroupedHeads(4, 2, 16), "vocabulary": 96}
    return Model(name, 64, **(given | changes))
