"""What the programs compute: their names are not taken on trust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.simulation import run_functional
from tests.parity.stepdb.points import WORKLOADS
from tests.parity.stepdb.router import experts_of_tokens

Array = np.ndarray[Any, Any]


def run(workload: str, sizes: dict[str, int], same: bool = False) -> tuple[list[Array], Array]:
    """The matrices that a program loads, in the order of its loads, and the one that it stores."""
    with st.Program(workload, compute_bw=1024) as program:
        WORKLOADS[workload](**sizes)
    loads = [op for op in program.operators if op.name == "linear_load"]
    rng = np.random.default_rng(0)
    matrices = [rng.normal(size=op.tensor.shape).astype(np.float32) for op in loads]
    if same:
        matrices = matrices[:1] * len(matrices)
    (stored,) = run_functional(program, dict(zip(loads, matrices, strict=True))).stored.values()
    return matrices, stored


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    return np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)


def normalized(x: Array) -> Array:
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)


def sums_of_tiles(x: Array) -> Array:
    return x.reshape(len(x), -1, 16).sum(axis=1)


def half_turned(x: Array) -> Array:
    half = x.shape[1] // 2
    return np.concatenate([-x[:, half:], x[:, :half]], axis=1)


def rotated(x: Array, cos: Array, sin: Array) -> Array:
    heads = len(x) // len(cos)
    return x * cos.repeat(heads, axis=0) + half_turned(x) * sin.repeat(heads, axis=0)


TILES = {"m": 32, "k": 64, "tile_m": 16, "tile_k": 16}
WIDE = {**TILES, "tile_k": 64}
CASES: list[tuple[str, dict[str, int], Callable[..., Array]]] = [
    ("silu_activation", TILES, silu),
    ("element_wise_add", TILES, np.add),
    ("vector_reduce_sum", TILES, sums_of_tiles),
    ("chained_unary", TILES, lambda x: 1 / np.sqrt(silu(np.exp(x**2)))),
    ("broadcast_diamond", TILES, lambda x: x**2 + silu(x) + np.exp(x)),
    ("gemm", {**TILES, "n": 48, "tile_n": 16}, np.matmul),
    ("matmul_binarymap", {"b": 32, "h": 64, "tile_m": 16, "tile_n": 16}, np.matmul),
    (
        "qkv_projection",
        {"b": 32, "d": 64, "proj_dim": 48, "tile_b": 16, "tile_proj": 16},
        np.matmul,
    ),
    ("outer_product_accum", {"b": 8, "m": 32, "n": 48, "tile_m": 16, "tile_n": 16}, np.matmul),
    (
        "sdpa_core",
        {"m": 16, "n": 64, "d": 32, "tile_m": 8, "tile_n": 16},
        lambda q, k, v: softmax(q @ k.T) @ v,
    ),
    (
        "gated_mlp",
        {"b": 8, "d": 32, "f": 48, "tile_b": 4, "tile_f": 16},
        lambda x, gate, again, up, down: (silu(x @ gate) * (again @ up)) @ down,
    ),
    ("softmax", TILES, softmax),
    ("softmax", WIDE, softmax),
    ("residual_add_norm", TILES, lambda x, y: normalized(x + y)),
    ("residual_add_norm", WIDE, lambda x, y: normalized(x + y)),
    ("layernorm", {**TILES, "tile_k": 32}, lambda x: normalized(x - x.mean(1, keepdims=True))),
    ("layernorm", WIDE, lambda x: normalized(x - x.mean(1, keepdims=True))),
    ("rotate_half", {"batch": 4, "num_heads": 8, "head_dim": 16}, half_turned),
    ("rope", {"batch": 4, "num_q_heads": 6, "num_kv_heads": 2, "head_dim": 16}, rotated),
]


@pytest.mark.parametrize(
    ("workload", "sizes", "expected"),
    CASES,
    ids=[f"{name}-{'-'.join(map(str, sizes.values()))}" for name, sizes, _ in CASES],
)
def test_values(workload: str, sizes: dict[str, int], expected: Callable[..., Array]) -> None:
    matrices, stored = run(workload, sizes)
    close(stored, expected(*(x.astype(np.float64) for x in matrices)))


@pytest.mark.parametrize("sizes", [TILES, WIDE])
def test_rms_norm_scales_a_second_copy_of_its_input(sizes: dict[str, int]) -> None:
    (x, _), stored = run("rms_norm", sizes, same=True)
    close(stored, normalized(x))


EXPERTS = {"b": 16, "d": 16, "f": 32, "n_experts": 4, "n_active": 2}


def mixture(x: Array, shares: Array, weights: list[list[Array]]) -> Array:
    """Rows of ``x`` through their experts, whose gate, up and down matrices are ``weights``."""
    rows = []
    for row, share, experts in zip(x, shares, experts_of_tokens(**EXPERTS), strict=True):
        hidden = [silu(row @ weights[0][e]) * (row @ weights[1][e]) for e in experts]
        results = [h @ weights[2][e] for h, e in zip(hidden, experts, strict=True)]
        rows.append(share @ np.stack(results))
    return np.stack(rows)


def test_moe_routed() -> None:
    (x, *weights, shares), stored = run("moe_routed", {**EXPERTS, "tile_n": 4, "tile_f": 16})
    up, gate, down = (weights[4 * i : 4 * i + 4] for i in range(3))
    close(stored, mixture(x, shares, [gate, up, down]))


def test_generated_moe() -> None:
    (x, shares, *weights), stored = run("generated_moe", EXPERTS)
    close(stored, mixture(x, shares, [weights[i::3] for i in range(3)]))


def test_every_workload_is_evaluated() -> None:
    evaluated = {name for name, *_ in CASES} | {"rms_norm", "moe_routed", "generated_moe"}
    assert evaluated == set(WORKLOADS)


def close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-3, atol=1e-4)
