"""Direct numpy implementations of the workloads, and their inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepsim.functional import FunctionalResult
from stepsim.graph import Program
from stepsim.workloads.models import AttentionShape, MoEShape

__all__ = ["Cache", "Layer", "close", "served", "silu", "tensors_of"]

TOLERANCE = {"f32": 1e-4, "bf16": 2e-2}


def close(got: np.ndarray, want: np.ndarray, scalar: str) -> None:
    """Relative to the scale of each row: sums of both signs may cancel."""
    rtol = TOLERANCE[scalar]
    scale = np.abs(want).max(axis=-1, keepdims=True)
    off = np.abs(got.astype(np.float32) - want) / np.maximum(scale, 1e-30)
    assert off.max() <= rtol


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


class Layer:
    """Random weights and inputs of an expert layer, and its output by direct computation."""

    def __init__(self, shape: MoEShape, indices: np.ndarray, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        e, d, f = shape.experts, shape.model_dim, shape.inner_dim
        self.shape, self.indices = shape, indices
        self.x = rng.normal(size=(len(indices), d)).astype(np.float32)
        self.scales = rng.random(indices.shape).astype(np.float32)
        self.up = rng.normal(size=(e, d, f)).astype(np.float32) / np.sqrt(d)
        self.gate = rng.normal(size=(e, d, f)).astype(np.float32) / np.sqrt(d)
        self.down = rng.normal(size=(e, f, d)).astype(np.float32) / np.sqrt(f)
        self.shared = [
            rng.normal(size=s).astype(np.float32) / np.sqrt(d)
            for s in [(d, shape.shared_inner)] * 2 + [(shape.shared_inner, d)]
        ]

    def inputs(self) -> dict[str, np.ndarray]:
        found = {"activations": self.x, "router_scales": self.scales}
        if self.shape.shared_inner:
            names = ("up.shared", "gate.shared", "down.shared")
            found |= dict(zip(names, self.shared, strict=True))
        return found

    def per_expert(self) -> dict[str, np.ndarray]:
        found = self.inputs()
        for e in range(self.shape.experts):
            found |= {f"up.{e}": self.up[e], f"gate.{e}": self.gate[e], f"down.{e}": self.down[e]}
        return found

    def per_region(self, regions: int) -> dict[str, np.ndarray]:
        """Weights of the experts of a region, one below the other."""
        found = self.inputs()
        for what, weights in (("up", self.up), ("gate", self.gate), ("down", self.down)):
            blocks = weights.reshape(regions, -1, weights.shape[-1])
            found |= {f"{what}.{r}": block for r, block in enumerate(blocks)}
        return found

    def expected(self) -> np.ndarray:
        up, gate, down = self.shared
        out = (self.x @ up * silu(self.x @ gate)) @ down
        for row, experts in enumerate(self.indices):
            for slot, e in enumerate(experts):
                hidden = (self.x[row] @ self.up[e]) * silu(self.x[row] @ self.gate[e])
                out[row] += self.scales[row, slot] * (hidden @ self.down[e])
        return out


class Cache:
    """Random rows and caches of a batch of requests, and the attention of its new tokens."""

    def __init__(self, lengths: list[int], reserved: int, shape: AttentionShape) -> None:
        rng = np.random.default_rng(len(lengths))
        self.lengths, self.reserved = lengths, reserved
        self.group = shape.heads // shape.kv_heads
        batch, width = len(lengths), shape.head_dim
        widths = {"key": width, "value": shape.value_width}
        self.query = rng.normal(size=(batch, self.group, width)).astype(np.float32) / 4
        self.rows = {k: self._normal(rng, batch, w) for k, w in widths.items()}
        self.caches = {k: self._normal(rng, batch, reserved, w) for k, w in widths.items()}

    @staticmethod
    def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    def grown(self, what: str) -> np.ndarray:
        """The caches ``[batch, reserved, width]`` with the new rows appended."""
        cache = self.caches[what].copy()
        cache[np.arange(len(self.lengths)), self.lengths] = self.rows[what]
        return cache

    def expected(self) -> np.ndarray:
        """``[batch, group, value width]``; scores are not scaled, as in the published graph."""
        keys, values = self.grown("key"), self.grown("value")
        out = np.zeros((*self.query.shape[:2], values.shape[-1]), np.float32)
        for i, length in enumerate(self.lengths):
            weights = np.exp(self.query[i] @ keys[i, : length + 1].T)
            out[i] = weights @ values[i, : length + 1] / weights.sum(1, keepdims=True)
        return out


def tensors_of(
    program: Program, cache: Cache, lanes: Sequence[Sequence[int]]
) -> dict[str, np.ndarray]:
    """The tensors of an attention program by name; coarse regions load their own rows."""
    given: dict[str, np.ndarray] = {}
    specs = {op.tensor.name: op.tensor for op in program.operators if hasattr(op, "tensor")}
    for name, spec in specs.items():
        what, _, region = name.partition(".")
        if what.startswith("cache_"):
            full = cache.caches[what.removeprefix("cache_")]
        elif what == "output":
            continue
        else:
            full = cache.query if what == "query" else cache.rows[what]
            full = full[list(lanes[int(region)])] if region else full
        rows = full.reshape(-1, full.shape[-1])
        given[name] = np.zeros(spec.shape, np.float32)
        given[name][: len(rows)] = rows  # keys and values of all requests lie in a larger tensor
    return given


def served(program: Program, result: FunctionalResult, regions: int) -> list[list[int]]:
    """The requests that every region really got, from the indices that its keys were read by."""
    by_label = {op.label: op for op in program.operators}
    reads = [by_label[f"addresses_key.{r}"] for r in range(regions)]
    return [[t.payload.value for t in result.stream(op.inputs[0])] for op in reads]
