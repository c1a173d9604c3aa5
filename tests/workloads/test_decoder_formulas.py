"""FLOPs and off-chip bytes of the layers of Llama-3-8B and Mixtral-8x7B, by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from stepsim.workloads import Data, Decoder, Model
from stepsim.workloads.models import Dense, GroupedHeads
from tests.workloads.support import run, used

D, HEADS, KV_HEADS, WIDTH, INNER = 4096, 32, 8, 128, 14336
"""Both models have these dimensions: llama3/MODEL_CARD and config.json of the two."""
BYTES = 2
"""Bytes of a bf16 scalar."""
KV_TILE = 32
TOKENS = [32, 64, 320, 1024, 96]
"""Cached tokens and the new one of each request, whole KV tiles: no operation is on padding."""
BATCH = len(TOKENS)
CHOSEN = np.array([[0, 1], [1, 2], [5, 0], [5, 6], [1, 0]])

LLAMA = Model("llama-3-8b", D, heads=GroupedHeads(HEADS, KV_HEADS, WIDTH), dense=Dense(INNER))


@dataclass(frozen=True)
class Work:
    flops: int
    bytes: int

    def __add__(self, other: Work) -> Work:
        return Work(self.flops + other.flops, self.bytes + other.bytes)


# Squares, their sum, mean, eps, reciprocal root (4), product with it, product with the weights.
NORM = Work(BATCH * (D + D + 1 + 1 + 4 + D + D), BYTES * D)
QKV_COLUMNS = (HEADS + 2 * KV_HEADS) * WIDTH
QKV = Work(2 * BATCH * D * QKV_COLUMNS, BYTES * D * QKV_COLUMNS)
# Four products and two sums for each pair of columns; cosines and sines of one position each.
ROTARY = Work(6 * BATCH * (HEADS + KV_HEADS) * WIDTH // 2, BYTES * BATCH * WIDTH)
# For each token of each head: a score, its exponential (4), its sum, its product with the value.
# Then the sums of 32 columns are summed, and the outputs divided. Caches are read, and the last
# tile of each is written.
ATTENTION = Work(
    HEADS * sum(t * (2 * WIDTH + 4 + 1 + 2 * WIDTH) + KV_TILE + WIDTH for t in TOKENS),
    BYTES * 2 * KV_HEADS * WIDTH * sum(t + KV_TILE for t in TOKENS),
)
OUTPUT = Work(2 * BATCH * HEADS * WIDTH * D, BYTES * HEADS * WIDTH * D)
RESIDUAL = Work(BATCH * D, 0)
ROWS = Work(0, BYTES * BATCH * D)
"""Hidden states that are read, or results that are written."""


def network(rows: int, times_read: int) -> Work:
    """Up, gate and down; SiLU (8) and a product of each inner scalar."""
    return Work(rows * (6 * D * INNER + 9 * INNER), times_read * BYTES * 3 * D * INNER)


# Product; greatest, difference, exponential (4), sum and quotient of each score; normalized.
ROUTER = Work(BATCH * (2 * D * 8 + 8 * (1 + 1 + 4 + 1 + 1) + 2 * 2), BYTES * D * 8)
# Results are scaled and added up; the weights of every expert in use are read once.
EXPERTS = network(2 * BATCH, len(set(CHOSEN.ravel()))) + Work(2 * BATCH * (D + D), 0)

BEFORE = ROWS + NORM + QKV + ROTARY + ATTENTION + OUTPUT + RESIDUAL
LAYERS = {
    "llama-3-8b": BEFORE + NORM + network(BATCH, 1) + RESIDUAL + ROWS,
    "mixtral-8x7b": BEFORE + NORM + ROUTER + EXPERTS + RESIDUAL + ROWS,
}


@pytest.mark.parametrize("strategy", ["interleaved", "dynamic"])
@pytest.mark.parametrize("name", LAYERS)
def test_whole_layers(name: str, strategy: str) -> None:
    model = LLAMA if name == LLAMA.name else Model.parse(name)
    data = Data.of(routing=CHOSEN if model.experts else None, kv_lengths=[t - 1 for t in TOKENS])
    built, result = run(Decoder.of(model=model, tile="dynamic", strategy=strategy), data)
    assert (result.status, built.padded_flops(data)) == ("ok", 0)
    assert result.flops == LAYERS[name].flops
    assert result.offchip_bytes == LAYERS[name].bytes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "work"),
    [
        # Queries, keys and values that no attention takes are written.
        ("qkv", ROWS + QKV + Work(0, BYTES * BATCH * QKV_COLUMNS)),
        ("norms+qkv+rotary",
         ROWS + NORM + QKV + ROTARY + Work(0, BYTES * BATCH * QKV_COLUMNS)),
        # Rows of queries, keys and values are read, outputs are written.
        ("attention", ATTENTION + Work(0, BYTES * BATCH * (QKV_COLUMNS + HEADS * WIDTH))),
        ("output", OUTPUT + Work(0, BYTES * BATCH * HEADS * WIDTH) + ROWS),
        ("output+residuals",
         OUTPUT + Work(0, BYTES * BATCH * HEADS * WIDTH) + RESIDUAL + ROWS + ROWS),
        ("experts", EXPERTS + Work(0, BYTES * BATCH * 2) + ROWS + ROWS),
        ("norms+residuals+router+experts", NORM + ROUTER + EXPERTS + RESIDUAL + ROWS + ROWS),
        # The parts of the published figure: outputs of attention are written, experts read rows.
        ("qkv+attention+experts",
         ROWS + QKV + ATTENTION + Work(0, BYTES * BATCH * HEADS * WIDTH)
         + EXPERTS + Work(0, BYTES * BATCH * 2) + ROWS + ROWS),
    ],
)  # fmt: skip
def test_parts_of_mixtral(parts: str, work: Work) -> None:
    data = Data.of(routing=CHOSEN, kv_lengths=[t - 1 for t in TOKENS])
    given = used(Decoder, {"tile": "dynamic", "strategy": "dynamic"}, {"parts": parts})
    _, result = run(Decoder.of(model="mixtral-8x7b", **given), data)
    assert result.status == "ok"
    assert Work(result.flops, result.offchip_bytes) == work


@pytest.mark.parametrize("loads", [1, 3, 16])
def test_every_matrix_is_read_once_however_many_loads_read_it(loads: int) -> None:
    data = Data.of(kv_lengths=[31] * 8)
    cycles = {}
    for regions in (1, 4):
        workload = Decoder.of(
            model=LLAMA, attention_regions=regions, weight_loads=loads, parts="qkv+output"
        )
        _, result = run(workload, data)
        weights = BYTES * D * (QKV_COLUMNS + HEADS * WIDTH)
        rows = BYTES * 8 * (D + QKV_COLUMNS + HEADS * WIDTH + D)
        assert result.offchip_bytes == weights + rows
        cycles[regions] = result.cycles
        # One load issues 64 B per cycle; the memory delivers 1024.
        assert result.cycles >= weights / min(1024, 2 * 64 * loads)
    assert loads < 16 or cycles[4] < 1.25 * weights / 1024
