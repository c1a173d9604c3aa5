"""Graphs with experts, hostile routings, and their values by plain numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.design import GraphBuilder, OperatorGraph, moe_block

Trace = NDArray[np.int64]


def layer(
    rows: int = 12,
    experts: int = 4,
    k: int = 2,
    *,
    width: int = 16,
    inner: int = 24,
    max_rows: int | None = None,
    router: bool = True,
) -> OperatorGraph:
    """``y = 2 x + moe(2 x)``, in which the residual passes beside the experts on chip."""
    b = GraphBuilder("experts", dtype="f32", weight_dtype="f32")
    x = b.scale(b.input("x", (rows, width)), 2.0)
    routing = b.routing("routing", rows, k)
    gate = [b.weight(f"gate{e}", (inner, width)) for e in range(experts)]
    up = [b.weight(f"up{e}", (inner, width)) for e in range(experts)]
    down = [b.weight(f"down{e}", (width, inner)) for e in range(experts)]
    if router:
        factors: dict[str, Any] = {"router": b.weight("router", (experts, width))}
    else:
        factors = {"weights": b.input("weights", (rows, k))}
    made = b.moe(x, routing, gate, up, down, max_rows=max_rows, **factors)
    b.output(b.add(x, made), "y")
    return b.graph()


def small_block(**sizes: Any) -> OperatorGraph:
    """Attention and experts in the shape of Qwen3-30B-A3B, in f32."""
    small = {
        "tokens": 8, "hidden": 32, "inner": 16, "heads": 4, "kv_heads": 2, "head_dim": 8,
        "experts": 8, "active": 2, "dtype": "f32", "weight_dtype": "f32",
    }  # fmt: skip
    return moe_block("qwen3-30b-a3b", **{**small, **sizes})


def values_of(graph: OperatorGraph, routing: Trace, seed: int = 0) -> dict[str, Any]:
    """Random values of what comes from off chip, and a routing."""
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {
        tensor.name: rng.normal(size=tensor.shape).astype(np.float32) / 4
        for tensor in graph.with_role("input", "weight", "state")
    }
    return found | {"routing": routing}


def expected(values: Mapping[str, Any], experts: int) -> NDArray[np.float64]:
    """The result of :func:`layer`, row by row."""
    x: NDArray[np.float64] = 2 * np.asarray(values["x"], np.float64)
    routing = values["routing"]
    if "router" in values:
        scores = np.exp(x @ values["router"].T.astype(np.float64))
        factors = np.take_along_axis(scores, routing, axis=1)
        factors /= factors.sum(axis=1, keepdims=True)
    else:
        factors = values["weights"].astype(np.float64)
    y = x.copy()
    for row, chosen in enumerate(routing):
        for slot, e in enumerate(chosen):
            gate, up = x[row] @ values[f"gate{e}"].T, x[row] @ values[f"up{e}"].T
            y[row] += factors[row, slot] * (
                (gate / (1 + np.exp(-gate)) * up) @ values[f"down{e}"].T
            )
    return y


def hostile(
    rows: int, experts: int, k: int, count: int, *, seed: int = 0, most: int | None = None
) -> list[Trace]:
    """Routings of all kinds of skew, half of them with the rows of an expert after each other."""
    rng = np.random.default_rng(seed)
    found: list[Trace] = []
    while len(found) < count:
        liking = rng.dirichlet(np.full(experts, rng.choice([0.05, 0.3, 2.0]))) + 1e-9
        liking /= liking.sum()
        one = np.stack([rng.choice(experts, k, replace=False, p=liking) for _ in range(rows)])
        if rng.random() < 0.5:
            one = one[np.argsort(one.min(axis=1), kind="stable")]
        if most is None or np.bincount(one.ravel()).max() <= most:
            found.append(one)
    return found
