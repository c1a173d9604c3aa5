"""A decoder layer: QKV generation, attention and experts, against direct numpy implementations."""

from __future__ import annotations

import numpy as np
import pytest

from stepsim.workloads import Decoder
from stepsim.workloads.models import AttentionShape, Experts, LatentHeads, Model, MoEShape
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
    computes(LENGTHS, REGIONS, strategy, tile, expert_regions, scalar)


@pytest.mark.parametrize("strategy", ["interleaved", "dynamic"])
@pytest.mark.parametrize(
    ("requests", "regions", "generating", "attending"),
    [
        (7, 3, 3, {"interleaved": 3, "dynamic": 3}),
        (5, 4, 4, {"interleaved": 4, "dynamic": 4}),
        (3, 8, 3, {"interleaved": 3, "dynamic": 6}),
        (1, 4, 1, {"interleaved": 1, "dynamic": 2}),
        (3, 1, 1, {"interleaved": 1, "dynamic": 1}),
    ],
)
def test_any_number_of_requests(requests, regions, generating, attending, strategy):
    """Two tasks of a request, one for each KV head, may go to two regions of dynamic attention."""
    program = computes(LENGTHS[:requests], regions, strategy, 4, None, "f32")
    labels = [op.label for op in program.operators]
    assert sum(str(label).startswith("matmul_qkv.") for label in labels) == generating
    assert sum(str(label).startswith("store_output.") for label in labels) == attending[strategy]


def computes(lengths, regions, strategy, tile, expert_regions, scalar):
    """Outputs and caches of a layer are those of numpy; returns its program."""
    rng = np.random.default_rng(3)
    batch, heads, group = len(lengths), HEADS.kv_heads, HEADS.heads // HEADS.kv_heads
    width, d = HEADS.head_dim, HEADS.model_dim
    indices = np.stack([rng.permutation(EXPERTS.experts)[: EXPERTS.active] for _ in range(batch)])
    layer = Layer(EXPERTS, indices)
    work, bindings = built(
        Decoder, routing=indices, kv_lengths=lengths, model=EXPERTS, attention=HEADS, tile=tile,
        tile_inter=8, strategy=strategy, expert_regions=expert_regions, attention_regions=regions,
    )  # fmt: skip
    hidden = rng.normal(size=(batch, d)).astype(np.float32)
    # columns: for every KV head its queries, its key, its value
    weights = rng.normal(size=(d, heads, group + 2, width)).astype(np.float32) / np.sqrt(d)
    qkv = np.einsum("bd,dhgw->hbgw", hidden, weights).reshape(heads * batch, group + 2, width)

    stores = [op for op in work.program.operators if getattr(op, "label", "") == "store_key.0"]
    reserved = stores[0].tensor.shape[0] // (heads * batch)
    cache = Cache(lengths * heads, reserved, HEADS)  # a task is a request of one head
    cache.query = qkv[:, :group] = qkv[:, :group] / 2
    cache.rows = {"key": qkv[:, group], "value": qkv[:, group + 1]}
    weights[:, :, :group] /= 2

    tensors = layer.per_expert() if expert_regions is None else layer.per_region(expert_regions)
    for r in range(min(batch, regions)):
        tensors[f"hidden.{r}"] = hidden[r::regions]
        tensors[f"qkv_weights.{r}"] = weights.reshape(d, -1)
    attending = sum(str(op.label).startswith("store_output.") for op in work.program.operators)
    for r in range(attending):
        for what, full in cache.caches.items():
            tensors[f"cache_{what}.{r}"] = full.reshape(-1, width)
    result = run_both(work.program, tensors, bindings=bindings, scalar=scalar)

    close(result.stored["output"], layer.expected(), scalar)
    expected = cache.expected()
    lanes = served(work.program, result, attending)
    assert sorted(t for lane in lanes for t in lane) == list(range(heads * batch))
    for r, lane in enumerate(lanes):
        output = result.stored[f"output.{r}"].reshape(expected.shape)
        close(output[lane], expected[lane], scalar)
        for what in ("key", "value"):
            updated = result.stored[f"cache_{what}.{r}"].reshape(heads * batch, reserved, width)
            close(updated[lane], cache.grown(what)[lane], scalar)
    return work.program


LATENT = {
    "direct": LatentHeads(4, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8),
    "compressed": LatentHeads(4, 16, 8, 4, 8, q_lora_rank=12),
}


@pytest.mark.parametrize("scalar", ["f32", "bf16"])
@pytest.mark.parametrize("heads", LATENT.values(), ids=LATENT)
def test_latent_attention(heads, scalar):
    """The scores are those of keys that are projected up, which the program never makes."""
    rng = np.random.default_rng(5)
    model = Model("small", 32, Experts(4, 2, 16), heads)
    shape, batch, d = model.attention, len(LENGTHS), model.model_dim
    nope, rank, source = heads.qk_nope_head_dim, heads.kv_lora_rank, heads.q_lora_rank or d
    indices = np.stack([rng.permutation(4)[:2] for _ in range(batch)])
    layer = Layer(model.moe, indices)
    work, bindings = built(
        Decoder, routing=indices, kv_lengths=LENGTHS, model=model, tile=4, tile_inter=8,
        strategy="interleaved",
    )  # fmt: skip

    def normal(*size, over=1):
        return rng.normal(size=size).astype(np.float32) / np.sqrt(over)

    hidden, kv_down, query_down = normal(batch, d), normal(d, shape.head_dim, over=d), None
    if heads.q_lora_rank is not None:
        query_down = normal(d, source, over=d)
    # small queries: rounding to bf16 moves the weights of large scores far
    query_up = normal(source, heads.heads, nope + heads.qk_rope_head_dim, over=16 * source)
    key_up = normal(heads.heads, nope, rank, over=nope)

    latent = hidden if query_down is None else hidden @ query_down
    query = np.einsum("bs,shw->bhw", latent, query_up)
    rows = hidden @ kv_down
    keys = np.einsum("br,hnr->bhn", rows[:, :rank], key_up)
    absorbed = np.einsum("bhn,hnr->bhr", query[:, :, :nope], key_up)
    np.testing.assert_allclose(
        np.einsum("bhr,br->bh", absorbed, rows[:, :rank]),
        np.einsum("bhn,bhn->bh", query[:, :, :nope], keys), rtol=1e-3, atol=1e-3,
    )  # fmt: skip

    stores = [op for op in work.program.operators if getattr(op, "label", "") == "store_key.0"]
    reserved = stores[0].tensor.shape[0] // batch
    cache = Cache(LENGTHS, reserved, shape)
    cache.caches = {what: full / 4 for what, full in cache.caches.items()}
    cache.query = np.concatenate([absorbed, query[:, :, nope:]], axis=2)
    cache.rows = {"key": rows, "value": rows[:, :rank]}

    tensors = layer.per_expert()
    for r in range(REGIONS):
        tensors[f"hidden.{r}"] = hidden[r::REGIONS]
        tensors[f"kv_down_weights.{r}"] = kv_down
        if query_down is not None:
            tensors[f"query_down_weights.{r}"] = query_down
        tensors[f"query_up_weights.{r}"] = query_up.reshape(source, -1)
        tensors[f"key_up_weights.{r}"] = key_up.reshape(-1, rank)
        for what, full in cache.caches.items():
            tensors[f"cache_{what}.{r}"] = full.reshape(-1, full.shape[-1])
    result = run_both(work.program, tensors, bindings=bindings, scalar=scalar)

    close(result.stored["output"], layer.expected(), scalar)
    expected = cache.expected()
    for r, lane in enumerate(served(work.program, result, REGIONS)):
        assert sorted(lane) == list(range(r, batch, REGIONS))
        close(result.stored[f"output.{r}"].reshape(expected.shape)[lane], expected[lane], scalar)
        for what in ("key", "value"):
            updated = result.stored[f"cache_{what}.{r}"].reshape(batch, reserved, -1)
            close(updated[lane], cache.grown(what)[lane], scalar)
