"""A decoder layer: QKV generation, attention and experts, against direct numpy implementations."""

from __future__ import annotations

import numpy as np
import pytest

from stepsim.workloads import Decoder
from stepsim.workloads.models import AttentionShape, MoEShape
from tests.functional.references import Cache, Layer, close, served
from tests.functional.support import run_both
from tests.layers import built

HEADS = AttentionShape("small", 32, 4, 2, 8)
EXPERTS = MoEShape("small", 4, 2, 32, 16)
LENGTHS = [0, 3, 32, 31, 5, 40, 1, 64]
REGIONS = 4


@pytest.mark.parametrize("scalar", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("strategy", "tile", "expert_regions"),
    [("interleaved", 4, None), ("dynamic", "dynamic", 2), ("dynamic", 8, None)],
)
def test_decoder_layer(strategy, tile, expert_regions, scalar):
    rng = np.random.default_rng(3)
    batch, heads, group = len(LENGTHS), HEADS.kv_heads, HEADS.heads // HEADS.kv_heads
    width, d = HEADS.head_dim, HEADS.model_dim
    indices = np.stack([rng.permutation(EXPERTS.experts)[: EXPERTS.active] for _ in range(batch)])
    layer = Layer(EXPERTS, indices)
    work, bindings = built(
        Decoder, routing=indices, kv_lengths=LENGTHS, model=EXPERTS, attention=HEADS, tile=tile,
        tile_inter=8, strategy=strategy, expert_regions=expert_regions,
    )  # fmt: skip
    hidden = rng.normal(size=(batch, d)).astype(np.float32)
    # columns: for every KV head its queries, its key, its value
    weights = rng.normal(size=(d, heads, group + 2, width)).astype(np.float32) / np.sqrt(d)
    qkv = np.einsum("bd,dhgw->hbgw", hidden, weights).reshape(heads * batch, group + 2, width)

    stores = [op for op in work.program.operators if getattr(op, "label", "") == "store_key.0"]
    reserved = stores[0].tensor.shape[0] // (heads * batch)
    cache = Cache(LENGTHS * heads, reserved, HEADS)  # a task is a request of one head
    cache.query = qkv[:, :group] = qkv[:, :group] / 2
    cache.rows = {"key": qkv[:, group], "value": qkv[:, group + 1]}
    weights[:, :, :group] /= 2

    tensors = layer.per_expert() if expert_regions is None else layer.per_region(expert_regions)
    for r in range(REGIONS):
        tensors[f"hidden.{r}"] = hidden[r::REGIONS]
        tensors[f"qkv_weights.{r}"] = weights.reshape(d, -1)
        for what, full in cache.caches.items():
            tensors[f"cache_{what}.{r}"] = full.reshape(-1, width)
    result = run_both(work.program, tensors, bindings=bindings, scalar=scalar)

    close(result.stored["output"], layer.expected(), scalar)
    expected = cache.expected()
    lanes = served(work.program, result, REGIONS)
    assert sorted(t for lane in lanes for t in lane) == list(range(heads * batch))
    for r, lane in enumerate(lanes):
        output = result.stored[f"output.{r}"].reshape(expected.shape)
        close(output[lane], expected[lane], scalar)
        for what in ("key", "value"):
            updated = result.stored[f"cache_{what}.{r}"].reshape(heads * batch, reserved, width)
            close(updated[lane], cache.grown(what)[lane], scalar)
