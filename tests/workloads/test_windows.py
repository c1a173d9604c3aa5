"""Sliding windows of models, and keys of a config.json that are not modeled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.errors import ArgError
from stepsim.simulation import simulate
from stepsim.simulation.cases.case import make_case
from stepsim.workloads import MODELS, Attention, Data, Decoder, Moe, ParameterError
from stepsim.workloads.models import Model, Windows, read_model
from tests.workloads.configs import transformer, write_config

LAYERS = 6
LONG = Data.of(kv_lengths=[700, 40, 129, 128])
MOE: dict[str, Any] = {"num_local_experts": 4, "num_experts_per_tok": 1}


def config(kind: str, **more: Any) -> dict[str, Any]:
    return transformer(kind, 64, 64, LAYERS, 4, 2, 1000, head_dim=16, **more)


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def made(kind: str, **more: Any) -> Model:
        return read_model(str(write_config(tmp_path, config(kind, **more))))

    return made


def cycles(model: Model, data: Data = LONG, **parameters: Any) -> int:
    built = Attention(model=model, regions=2, kv_tile=16, **parameters).build(data)
    return simulate(built.program).cycles


FULL, SLIDING = "full_attention", "sliding_attention"


@pytest.mark.parametrize(
    ("kind", "keys", "layers"),
    [
        ("phi3", {}, range(LAYERS)),
        ("mistral", {}, range(LAYERS)),
        ("gemma2", {}, [0, 2, 4]),
        ("gpt_oss", MOE, [0, 2, 4]),
        ("gemma3_text", {}, range(LAYERS - 1)),
        ("gemma3_text", {"sliding_window_pattern": 3}, [0, 1, 3, 4]),
        ("cohere2", {"sliding_window_pattern": 2}, [0, 2, 4]),
        ("gemma2", {"layer_types": [FULL] * 4 + [SLIDING] * 2}, [4, 5]),
        ("phi3", {"layer_types": [FULL] * LAYERS}, []),
        ("qwen2", {}, []),
        ("qwen2", {"use_sliding_window": False, "max_window_layers": 2}, []),
        ("qwen2", {"use_sliding_window": True, "max_window_layers": 4}, [4, 5]),
        ("qwen3", {"use_sliding_window": True, "max_window_layers": 0}, range(LAYERS)),
        ("qwen3", {"use_sliding_window": True}, []),
        ("starcoder2", {"use_sliding_window": False}, []),
    ],
)
def test_layers_that_have_the_window(
    read: Any, kind: str, keys: dict[str, Any], layers: Any
) -> None:
    model = read(kind, sliding_window=128, **keys)
    found = [i for i in range(LAYERS) if model.window(i) is not None]
    assert found == [*layers]
    assert {model.window(i) for i in found} <= {128}


def test_a_window_of_null_is_none_whatever_the_family(read: Any) -> None:
    assert read("gemma2", sliding_window=None).windows is None
    assert read("gemma2").windows == Windows(4096, (0, 2, 4))
    assert read("llama").windows is None


def test_a_request_attends_to_the_window_alone(read: Any) -> None:
    narrow, wide = read("phi3", sliding_window=128), read("phi3", sliding_window=100_000)
    cut = Data.of(kv_lengths=np.minimum(LONG.lengths, 127))
    assert cycles(wide) == cycles(read("phi3"))
    assert cycles(narrow) == cycles(read("phi3"), cut) < cycles(wide)


@pytest.mark.parametrize("tile", ["dynamic", 2])
def test_a_decoder_layer_attends_to_the_window_too(read: Any, tile: Any) -> None:
    options: dict[str, Any] = {
        "tile": tile, "tile_inter": 32, "strategy": "interleaved", "attention_regions": 2,
        "kv_tile": 16,
    }  # fmt: skip
    data = Data.of(kv_lengths=LONG.lengths, routing=np.zeros((4, 1), dtype=int))
    cut = Data.of(kv_lengths=np.minimum(LONG.lengths, 127), routing=data.routing)
    runs = []
    for window, fed in ((128, data), (None, cut)):
        built = Decoder(model=read("phi3", sliding_window=window), **options).build(fed)
        runs.append(simulate(built.program, bindings=built.bindings(fed)))
    assert (runs[0].cycles, runs[0].offchip_bytes) == (runs[1].cycles, runs[1].offchip_bytes)


def test_layers_that_differ_are_chosen(read: Any) -> None:
    model = read("gemma2", sliding_window=128)
    # without a layer, one that attends to all tokens, as before models had windows
    assert cycles(model) == cycles(model, attention_layer=1) == cycles(read("llama"))
    assert cycles(model, attention_layer=0) == cycles(read("phi3", sliding_window=128))
    notes = Attention(model=model).build(LONG).notes
    assert any(
        "3 layers of 6" in note and "the last 128 tokens alone; this is layer 1" in note
        for note in notes
    )
    notes = Attention(model=model, attention_layer=2).build(LONG).notes
    assert any(note.startswith("layer 2 of ") and "last 128" in note for note in notes)


@pytest.mark.parametrize(
    ("kind", "layer", "text"),
    [
        ("phi3", 0, "attention_layer: expected no layer, since the attention of all layers"),
        ("gemma2", 6, r"attention_layer: expected one of the 6 layers of .* from 0, found 6"),
    ],
)
def test_layers_without_effect_are_refused(read: Any, kind: str, layer: int, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        Attention(model=read(kind, sliding_window=128), attention_layer=layer).build(LONG)


def test_caches_need_no_more_than_the_window(read: Any) -> None:
    model = read("phi3", sliding_window=128)
    assert Attention(model=model, kv_tile=16).build(LONG).parameters["max_length"] == 128
    assert Attention(model=model, kv_tile=16, max_length=128).build(LONG)
    with pytest.raises(ParameterError, match="max_length"):
        Attention(model=model, kv_tile=16, max_length=112).build(LONG)


def test_the_new_token_is_in_the_window(read: Any) -> None:
    # Eight tiles of 16 rows hold 128 tokens; one more would need a ninth.
    narrow = Attention(model=read("phi3", sliding_window=128), regions=2, kv_tile=16)
    exact, long = (Data.of(kv_lengths=[length] * 4) for length in (127, 1000))
    found = [simulate(narrow.build(data).program) for data in (exact, long)]
    assert found[0].cycles == found[1].cycles
    assert found[0].offchip_bytes == found[1].offchip_bytes


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"sliding_window": "wide"}, "sliding_window: expected a whole number from 1"),
        ({"sliding_window": 0}, "sliding_window: expected a whole number from 1"),
        ({"sliding_window": 8, "use_sliding_window": 1}, "use_sliding_window: expected true or"),
        (
            {"sliding_window": 8, "layer_types": [FULL]},
            "layer_types: expected a word for each of",
        ),
        ({"layer_types": FULL}, "layer_types: expected a word for each layer"),
        (
            {"layer_types": [SLIDING] * 6},
            "the window is missing: expected the key",
        ),
        ({"sliding_window": 8, "sliding_window_pattern": "LG"}, "sliding_window_pattern: expected"),
        ({"qk_rope_head_dim": 8}, "qk_rope_head_dim: describes latent attention, expected the key"),
    ],
)
def test_windows_that_cannot_be_are_refused(read: Any, keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgError, match=text):
        read("llama", **keys)


NOTES = [
    ("attn_logit_softcapping", 50.0, Attention),
    ("attention_chunk_size", 8192, Attention),
    ("num_kv_shared_layers", 2, Attention),
    ("swa_num_attention_heads", 8, Attention),
    ("full_attention_interval", 4, Attention),
    ("layer_types", ["linear_attention"] * 5 + [FULL], Attention),
    ("attention_bias", True, Decoder),
    ("use_qk_norm", True, Decoder),
    ("swiglu_limit", 7.0, Moe),
    ("mlp_bias", True, Moe),
    ("hidden_act", "relu2", Moe),
]


@pytest.mark.parametrize(("key", "value", "kind"), NOTES)
def test_keys_that_are_not_modeled_are_reported(read: Any, key: str, value: Any, kind: Any) -> None:
    model = read("mixtral", **{**MOE, key: value})
    data = Data.of(kv_lengths=[3, 4], routing=[[0], [1]])
    options: dict[Any, dict[str, Any]] = {
        Attention: {},
        Moe: {"tile": 2},
        Decoder: {"tile": 2, "strategy": "interleaved"},
    }
    for workload, more in options.items():
        notes = workload(model=model, **more).build(data).notes
        said = [note for note in notes if key in note and "not modeled" in note]
        assert len(said) == (workload in (kind, Decoder)), (workload, notes)
    off = read("mixtral", **{**MOE, key: False if isinstance(value, bool) else None})
    assert not off.unmodeled


def test_notes_are_in_the_result(read: Any) -> None:
    model = read("gemma2", sliding_window=128, attn_logit_softcapping=50.0)
    notes = make_case("attention", LONG, model=model).result(LONG).notes
    assert sum("attn_logit_softcapping 50.0 is not modeled" in note for note in notes) == 1


def test_sparse_attention_is_refused_and_experts_run(read: Any) -> None:
    model = read("deepseek_v32", **{**MOE, "index_topk": 2048})
    with pytest.raises(ArgError, match="has no attention: index_topk: each token attends to"):
        Attention(model=model).build(LONG)
    assert Moe(model=model, tile=2).build(Data.of(routing=[[0], [1]])).program


def test_values_of_another_width_than_keys(read: Any) -> None:
    assert read("llama", v_head_dim=8).attention.value_width == 8
    assert read("llama", v_head_dim=16).heads == read("llama").heads


def test_the_built_in_model_with_windows_is_as_its_file() -> None:
    model = MODELS["gpt-oss-120b"]
    assert model.windows == Windows(128, tuple(range(0, 36, 2)))
    assert (model.window(), model.window(0), model.window(1)) == (None, 128, None)
    assert "windows" not in MODELS["mixtral-8x7b"].to_dict()


def test_windows_in_yaml(tmp_path: Path) -> None:
    heads = "attention: {heads: 4, kv_heads: 2, head_dim: 16, window: 128%s}\n"
    file = tmp_path / "m.yaml"
    file.write_text("model_dim: 64\nlayers: 2\n" + heads % "")
    assert read_model(str(file)).windows == Windows(128)
    file.write_text("model_dim: 64\nlayers: 2\n" + heads % ", windowed_layers: [1]")
    assert read_model(str(file)).windows == Windows(128, (1,))
    file.write_text("model_dim: 64\nlayers: 2\n" + heads % ", windowed_layers: [0, 1]")
    assert read_model(str(file)).windows == Windows(128)
    for bad in ("[2]", "[1, 0]", "[]", "x", "[-1]"):
        file.write_text("model_dim: 64\nlayers: 2\n" + heads % f", windowed_layers: {bad}")
        with pytest.raises(ArgError, match="layers"):
            read_model(str(file))
