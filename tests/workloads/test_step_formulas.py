"""FLOPs and off-chip bytes of steps of Llama-3-8B, Mixtral-8x7B and Qwen3-30B-A3B, by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from stepsim.workloads import Data, Model, Step
from stepsim.workloads.models import Dense, GroupedHeads
from tests.workloads.support import exact, run

BYTES = 2
"""Bytes of a bf16 scalar."""
KV_TILE, QUERY_TILE = 32, 16
NEW = np.array([1, 40, 1, 16, 1])
CACHED = np.array([64, 0, 200, 31, 5])
TOKENS = int(NEW.sum())

LLAMA = Model(
    "llama-3-8b", 4096, heads=GroupedHeads(32, 8, 128), dense=Dense(14336, 32), layers=32,
    vocabulary=128256, source="MODEL_CARD of llama3",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """Dimensions by hand, as in config.json."""

    d: int
    heads: int
    kv_heads: int
    width: int
    inner: int
    experts: int
    active: int
    vocabulary: int


SHAPES = {
    "llama-3-8b": Shape(4096, 32, 8, 128, 14336, 1, 1, 128256),
    "mixtral-8x7b": Shape(4096, 32, 8, 128, 14336, 8, 2, 32000),
    "qwen3-30b-a3b": Shape(2048, 32, 4, 128, 768, 128, 8, 151936),
}


def model_of(name: str) -> Model:
    return LLAMA if name == LLAMA.name else Model.parse(name)


def data_of(shape: Shape) -> Data:
    rng = np.random.default_rng(3)
    chosen = rng.random((TOKENS, shape.experts)).argsort(axis=1)[:, : shape.active]
    return Data.of(routing=chosen, kv_lengths=CACHED, new_tokens=NEW)


def useful_flops(s: Shape, data: Data) -> int:
    norm = TOKENS * (4 * s.d + 6)  # squares, sum, product, factors; mean, eps, root (4)
    qkv = 2 * TOKENS * s.d * (s.heads + 2 * s.kv_heads) * s.width
    rotary = 6 * TOKENS * (s.heads + s.kv_heads) * s.width // 2
    pairs = sum(int(c) * int(n) + n * (n + 1) // 2 for c, n in zip(CACHED, NEW, strict=True))
    # A score, its exponential (4), its sum, its product with the value; then a quotient.
    attention = s.heads * (pairs * (2 * s.width + 4 + 1 + 2 * s.width) + TOKENS * s.width)
    output = 2 * TOKENS * s.heads * s.width * s.d
    residuals = 2 * TOKENS * s.d
    network = TOKENS * s.active * (6 * s.d * s.inner + 9 * s.inner)
    total = 2 * norm + qkv + rotary + attention + output + residuals + network
    if s.experts > 1:
        # Product; greatest, difference, exponential (4), sum, quotient of each score; normalized.
        total += TOKENS * (2 * s.d * s.experts + s.experts * 8 + 2 * s.active)
        total += 2 * TOKENS * s.active * s.d  # results are scaled and added up
    return int(total)


def moved_bytes(s: Shape, data: Data) -> int:
    columns = (s.heads + 2 * s.kv_heads) * s.width
    weights = 2 * s.d + s.d * columns + s.heads * s.width * s.d
    if s.experts > 1:
        weights += s.d * s.experts
    assert data.routing is not None
    weights += len(np.unique(data.routing)) * 3 * s.d * s.inner
    rows = 2 * TOKENS * s.d + TOKENS * s.width  # in, out; cosines and sines
    written = 2 * TOKENS * s.kv_heads * s.width
    read = 0
    for cached, new in zip(CACHED, NEW, strict=True):
        for end in [*range(QUERY_TILE, new, QUERY_TILE), new]:
            read += -(-(cached + end) // KV_TILE) * KV_TILE
    return int(BYTES * (weights + rows + written + 2 * read * s.kv_heads * s.width))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["coarse", "interleaved", "dynamic"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_layer(name: str, strategy: str) -> None:
    shape = SHAPES[name]
    data = data_of(shape)
    workload = Step.of(model=model_of(name), strategy=strategy, query_tile=QUERY_TILE)
    built, result = run(workload, data)
    padded = built.padded_flops(data)
    assert result.status == "ok"
    assert padded is not None
    assert padded > 0
    assert result.flops - padded == useful_flops(shape, data)
    assert result.offchip_bytes == moved_bytes(shape, data)
    counted = exact(built, data)
    assert (counted.flops, counted.off_chip_traffic) == (result.flops, result.offchip_bytes)


@pytest.mark.parametrize("name", SHAPES)
def test_a_head(name: str) -> None:
    shape, rows = SHAPES[name], 5
    data = Data.of(rows=rows)
    built, result = run(Step.of(model=model_of(name), part="head"), data)
    norm = rows * (4 * shape.d + 6)
    assert (result.status, built.padded_flops(data)) == ("ok", 0)
    assert result.flops == norm + 2 * rows * shape.d * shape.vocabulary
    scalars = rows * (shape.d + shape.vocabulary) + shape.d * (1 + shape.vocabulary)
    assert result.offchip_bytes == BYTES * scalars


@pytest.mark.slow
def test_the_head_of_last_tokens_adds_to_the_layer() -> None:
    data = data_of(SHAPES["mixtral-8x7b"])
    _, layer = run(Step.of(model="mixtral-8x7b"), data)
    _, both = run(Step.of(model="mixtral-8x7b", part="layer+head"), data)
    _, head = run(Step.of(model="mixtral-8x7b", part="head"), Data.of(rows=len(NEW)))
    assert both.flops == layer.flops + head.flops
    # The rows of the last tokens stay on chip.
    assert both.offchip_bytes == layer.offchip_bytes + head.offchip_bytes - len(NEW) * 4096 * BYTES
    assert both.cycles > layer.cycles


@pytest.mark.slow
def test_a_window_bounds_what_is_read() -> None:
    name = "gpt-oss-120b"
    found = {}
    for layer in (0, 1):  # the first has a window of 128 tokens
        workload = Step.of(model=name, attention_layer=layer, query_tile=QUERY_TILE, tile_inter=60)
        chosen = np.tile(np.arange(4), (17, 1))
        data = Data.of(routing=chosen, kv_lengths=[296, 296], new_tokens=[1, 16])
        built, result = run(workload, data)
        found[layer] = result.offchip_bytes
        assert exact(built, data).off_chip_traffic == result.offchip_bytes
    # The 128 latest tokens of position 296 are in tiles 5 to 9, those of the other's 16 queries
    # from 169 on in tiles 5 to 9 too; without a window both read tiles 0 to 9.
    tile = KV_TILE * 8 * 64 * 2 * BYTES
    assert found[1] - found[0] == (10 - 5 + 10 - 5) * tile
