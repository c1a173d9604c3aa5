"""A decoder layer of the Llama family: values, FLOPs, errors."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, RankError
from stepsim.machine import load_machine
from stepsim.simulation import prepare
from tests.functional.nn import references as ref
from tests.functional.nn.support import checked, normal

SEQUENCES, LENGTH, M, D, F, WIDTH = 2, 12, 4, 16, 24, 4
TILES = LENGTH // M


def weights(heads: int, kv_heads: int) -> st.nn.LlamaWeights:
    cos, sin = st.nn.rope_tables(LENGTH, WIDTH, base=500.0)
    return st.nn.LlamaWeights(
        attention_norm=1 + normal(1, D, seed=1) / 4,
        q=normal(D, heads * WIDTH, seed=2) / 4,
        k=normal(D, kv_heads * WIDTH, seed=3) / 4,
        v=normal(D, kv_heads * WIDTH, seed=4) / 4,
        o=normal(heads * WIDTH, D, seed=5) / 4,
        ffn_norm=1 + normal(1, D, seed=6) / 4,
        gate=normal(D, F, seed=7) / 4,
        up=normal(D, F, seed=8) / 4,
        down=normal(F, D, seed=9) / 4,
        cos=cos,
        sin=sin,
    )


X = normal(SEQUENCES * LENGTH, D, seed=10)


def expected(w: st.nn.LlamaWeights) -> np.ndarray:
    """One sequence after the other, head by head."""
    found = []
    for x in X.astype(float).reshape(SEQUENCES, LENGTH, D):
        h = ref.rms_norm(x) * w.attention_norm
        q, k, v = ((h @ m).reshape(LENGTH, -1, WIDTH).transpose(1, 0, 2) for m in (w.q, w.k, w.v))
        heads = ref.attention(ref.rope(q, 500.0), ref.rope(k, 500.0), v, causal=True)
        y = x + heads.transpose(1, 0, 2).reshape(LENGTH, -1) @ w.o
        h = ref.rms_norm(y) * w.ffn_norm
        found.append(y + (ref.silu(h @ w.gate) * (h @ w.up)) @ w.down)
    return np.stack(found)


def block_flops(heads: int, kv_heads: int) -> int:
    norms = 2 * (4 * M * D + 6 * M)
    projections = 2 * M * D * WIDTH * (heads + 2 * kv_heads) + 2 * M * heads * WIDTH * D
    rotations = 3 * M * WIDTH * (heads + kv_heads)
    blocks = TILES * heads * (4 * M * M * WIDTH + 8 * M * M + M * WIDTH + 8 * M)
    ffn = 6 * M * D * F + 9 * M * F
    each = norms + projections + rotations + blocks + heads * M * WIDTH + ffn + 2 * M * D
    return SEQUENCES * TILES * each


def load() -> st.Stream:
    """[2, 3] of 4x16."""
    return st.linear_load(X, (M, D), shape=(SEQUENCES, TILES), stride=(TILES, 1))


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (4, 4), (4, 1)])
@pytest.mark.parametrize("inner", [None, 8])
def test_llama_block(heads: int, kv_heads: int, inner: int | None) -> None:
    w = weights(heads, kv_heads)
    checked(
        lambda: st.nn.llama_block(load(), w, heads=heads, kv_heads=kv_heads, inner=inner),
        expected(w), block_flops(heads, kv_heads),
    )  # fmt: skip


def test_two_layers_in_a_row() -> None:
    w = weights(4, 4)
    with st.Program(compute_bw=64) as p:
        y = load()
        for i in range(2):
            y = st.nn.llama_block(y, w, heads=4, label=f"layer{i}")
        y.consume()
    assert p.metrics().flops == 2 * block_flops(4, 4)
    assert {op.label.split(".")[0] for op in p.operators if op.label} == {"layer0", "layer1"}


W = weights(4, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: st.nn.llama_block(x, W, heads=4, kv_heads=3), ArgError, "kv_heads 3 does not"),
        (lambda x: st.nn.llama_block(x, W, heads=4), ArgError, "k must be 16 x 16, found"),
        (lambda x: st.nn.llama_block(x, W, heads=3), ArgError, "its columns are not those of 3"),
        (lambda x: st.nn.llama_block(x, {}, heads=4), ArgError, "weights must be LlamaWeights"),
        (
            lambda x: st.nn.llama_block(x.flatten(0, 1), W, heads=4, kv_heads=2),
            RankError, r"expected \[sequences, row tiles\]",
        ),
        (
            lambda x: st.nn.llama_block(x, replace(W, cos=W.cos[:4]), heads=4, kv_heads=2),
            ArgError, "cos has 4 rows, x has 3 tiles of 4 positions",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_argument(call, error, message: str) -> None:
    with pytest.raises(error, match=message), st.Program(compute_bw=8):
        call(load())


@pytest.mark.parametrize("model", ["step-2025", "step-2026"])
def test_a_layer_runs_in_both_models_and_can_be_sent_to_a_process(model: str) -> None:
    machine = load_machine("sda-1024", {"model": model})
    with st.Program(compute_bw=64) as p:
        y = st.nn.llama_block(load(), W, heads=4, kv_heads=2)
        st.linear_store(y, "y")
    other = pickle.loads(pickle.dumps(p))
    assert other.fingerprint() == p.fingerprint()
    found = [prepare(one, machine=machine).run() for one in (p, other)]
    assert {(t.status, t.flops) for t in found} == {("ok", block_flops(4, 2))}
    assert found[0].cycles == found[1].cycles
