"""Decoder layers with latent attention: what QKV generation reads and computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepsim import Result
from stepsim.workloads import Built, Data, Decoder, Model, ParameterError
from stepsim.workloads.models import Dense, Experts, LatentHeads, read_model
from tests.workloads.configs import CONFIGS, write_config
from tests.workloads.support import exact, run, used

BATCH, REGIONS = 8, 2
LENGTHS = [5, 0, 40, 31, 32, 63, 64, 7]
PLAIN = LatentHeads(4, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16)
COMPRESSED = LatentHeads(4, 32, 16, 8, 16, q_lora_rank=24)
NO_NARROW_TILES = LatentHeads(3, 32, 32, 32, 16, q_lora_rank=32)


def layer(model: Model, **changes: object) -> Decoder:
    given = {
        "tile": "dynamic", "tile_inter": model.feed_forward.inner_dim, "strategy": "interleaved",
        "attention_regions": REGIONS,
    }  # fmt: skip
    return Decoder(model=model, **used(Decoder, given, changes))


def data_for(model: Model, lengths: list[int] = LENGTHS) -> Data:
    experts = model.feed_forward
    ids = [np.arange(i, i + experts.active) % experts.experts for i in range(len(lengths))]
    return Data.of(routing=ids, kv_lengths=lengths)


def weights_read(built: Built, result: Result) -> int:
    """Bytes of weights that QKV generation loaded."""
    kinds = ("kv_down", "query_down", "query_up", "key_up")
    names = tuple(f"load_{kind}_weights." for kind in kinds)
    rows = result.units.select(["name", "offchip_bytes"]).to_pylist()
    return sum(row["offchip_bytes"] for row in rows if row["name"].startswith(names))


@pytest.mark.parametrize("strategy", ["interleaved", "dynamic"])
@pytest.mark.parametrize("heads", [PLAIN, COMPRESSED, NO_NARROW_TILES])
def test_a_run_moves_and_computes_what_the_formulas_say(heads: LatentHeads, strategy: str) -> None:
    model = Model("tiny", 64, Experts(4, 2, 32, 16), heads)
    data = data_for(model)
    built, result = run(layer(model, strategy=strategy, tile_inter=16), data)
    counted = exact(built, data)
    assert result.status == "ok"
    assert result.offchip_bytes == counted.off_chip_traffic
    assert result.flops == counted.flops


def test_bytes_and_flops_by_hand() -> None:
    model = Model("tiny", 64, None, COMPRESSED, Dense(32))
    data = data_for(model)
    built, result = run(layer(model, parts="qkv+attention+experts"), data)
    latent, key, heads = 32, 32 + 8, 4
    generation = 64 * key + 64 * 24 + 24 * heads * (16 + 8) + heads * 16 * latent
    assert weights_read(built, result) == generation * 2
    hidden, network = BATCH * 64 * 2, 3 * 64 * 32 * 2 + 2 * BATCH * 64 * 2
    tiles = sum((length + 1 + 31) // 32 for length in LENGTHS)
    caches = (tiles + BATCH) * 32 * (key + latent) * 2
    outputs = BATCH * heads * latent * 2
    assert result.offchip_bytes == generation * 2 + hidden + caches + outputs + network

    wider = Model("tiny", 64, None, LatentHeads(4, 32, 16, 8, 16), Dense(32))
    _, direct = run(layer(wider, parts="qkv+attention+experts"), data)
    saved = 64 * heads * (16 + 8) - (64 * 24 + 24 * heads * (16 + 8))
    assert direct.flops - result.flops == 2 * BATCH * saved

    _, output = run(layer(model, parts="output"), data)
    matrices = heads * (latent * 16 + 16 * 64)
    assert output.offchip_bytes == matrices * 2 + BATCH * (heads * latent + 64) * 2
    assert output.flops == 2 * BATCH * matrices


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "element_bytes", "weights"),
    [
        (
            "DeepSeek-V3", 1,
            7168 * 576 + 7168 * 1536 + 1536 * 128 * 192 + 128 * 128 * 512,
        ),
        ("DeepSeek-V2-Lite", 2, 2048 * 576 + 2048 * 16 * 192 + 16 * 128 * 512),
    ],
)  # fmt: skip
def test_weights_of_public_models(
    name: str, element_bytes: int, weights: int, tmp_path: Path
) -> None:
    model = read_model(str(write_config(tmp_path / name, CONFIGS[name])))
    data = data_for(model, [3, 40, 0, 17])
    built, result = run(layer(model, attention_regions=1), data)
    assert result.status == "ok"
    assert weights_read(built, result) == weights * element_bytes


def test_wide_values_need_the_dimensions_of_latent_attention() -> None:
    bare = Model.parse({"model_dim": 64, "dense": {"inner_dim": 32}, "attention": {
        "heads": 4, "kv_heads": 1, "head_dim": 40, "value_dim": 32}})  # fmt: skip
    message = (
        "attention: expected keys and values of one width, .* give the dimensions kv_lora_rank"
    )
    with pytest.raises(ParameterError, match=message):
        layer(bare).build(data_for(bare))
