"""The table of built-in models, by name.

All are described in bf16, the type used by the published experiments. Without a layer, their layers
cannot be built from what is described here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from stepsim.workloads.models.layer import GEMMA, GPT2, Layer
from stepsim.workloads.models.model import Dense, Experts, GroupedHeads, LatentHeads, Model
from stepsim.workloads.models.unmodeled import notes_of_layer
from stepsim.workloads.models.windows import Windows

_DEEPSEEK_V3 = Model(
    "deepseek-v3", 7168, Experts(256, 8, 2048, 2048), LatentHeads(128, 512, 128, 64, 128, 1536),
    dense=Dense(18432, 3), layers=61, vocabulary=129280,
    source="config.json of deepseek-ai/DeepSeek-V3",
)  # fmt: skip

_QWEN3 = Layer(qk_norm=True)


def _dense(
    name: str, model_dim: int, inner: int, heads: GroupedHeads, layers: int, vocabulary: int,
    layer: Layer, source: str, windows: Windows | None = None,
) -> Model:  # fmt: skip
    """A model whose layers have one network each."""
    absent = (("experts", "its layers have one network each"),)
    return Model(
        name, model_dim, None, heads, Dense(inner, layers), layers, vocabulary, windows=windows,
        layer=layer, source=f"config.json of {source}", absent=absent,
        unmodeled=notes_of_layer(layer),
    )  # fmt: skip


_ALL = (
    _dense(
        "gpt2-medium", 1024, 4096, GroupedHeads(16, 16, 64), 24, 50257, GPT2,
        "openai-community/gpt2-medium",
    ),
    _dense(
        "qwen2.5-0.5b", 896, 4864, GroupedHeads(14, 2, 64), 24, 151936, Layer(biases="qkv"),
        "Qwen/Qwen2.5-0.5B",
    ),
    _dense(
        "tinyllama-1.1b", 2048, 5632, GroupedHeads(32, 4, 64), 22, 32000, Layer(eps=1e-5),
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0 (the StreamTensor paper says Llama)",
    ),
    _dense(
        "gemma-3-1b", 1152, 6912, GroupedHeads(4, 1, 256), 26, 262144,
        replace(GEMMA, qk_norm=True, post_norms=True), "google/gemma-3-1b-pt",
        Windows(512, tuple(i for i in range(26) if (i + 1) % 6)),
    ),
    Model(
        "llama-3-8b", 4096, None, GroupedHeads(32, 8, 128), Dense(14336, 32), 32, 128256,
        source="config.json of meta-llama/Meta-Llama-3-8B",
        absent=(
            ("experts", "its layers have one network each"),
            ("layer", "designs of Llama-3-8B are compiled from its config.json"),
        ),
    ),
    Model(
        "mixtral-8x7b", 4096, Experts(8, 2, 14336), GroupedHeads(32, 8, 128),
        layers=32, vocabulary=32000, layer=Layer(eps=1e-5),
        source="config.json of mistralai/Mixtral-8x7B-v0.1",
    ),
    Model(
        "qwen3-30b-a3b", 2048, Experts(128, 8, 768), GroupedHeads(32, 4, 128),
        layers=48, vocabulary=151936, layer=_QWEN3, source="config.json of Qwen/Qwen3-30B-A3B",
    ),
    Model(
        "qwen3-30b-a3b-step", 2048, heads=GroupedHeads(32, 4, 64),
        source="STeP paper, section 5.5: heads half as wide as those of the model",
        absent=(("experts", "it is the attention of a published experiment; use qwen3-30b-a3b"),),
    ),
    Model(
        "qwen3-235b-a22b", 4096, Experts(128, 8, 1536), GroupedHeads(64, 4, 128),
        layers=94, vocabulary=151936, layer=_QWEN3, source="config.json of Qwen/Qwen3-235B-A22B",
    ),
    _DEEPSEEK_V3,
    replace(
        _DEEPSEEK_V3, name="deepseek-r1", source="config.json of deepseek-ai/DeepSeek-R1"
    ),
    Model(
        "gpt-oss-120b", 2880, Experts(128, 4, 2880), GroupedHeads(64, 8, 64),
        layers=36, vocabulary=201088,
        windows=Windows(128, tuple(range(0, 36, 2))),
        source="config.json of openai/gpt-oss-120b",
    ),
    Model(
        "llama-4-scout", 5120, Experts(16, 1, 8192, 8192), GroupedHeads(40, 8, 128),
        layers=48, vocabulary=202048,
        source="config.json (text_config) of meta-llama/Llama-4-Scout-17B-16E",
    ),
    Model(
        "glm-4.5", 5120, Experts(160, 8, 1536, 1536), GroupedHeads(96, 8, 128),
        dense=Dense(12288, 3), layers=92, vocabulary=151552,
        source="config.json of zai-org/GLM-4.5",
    ),
)  # fmt: skip

MODELS: Mapping[str, Model] = MappingProxyType({model.name: model for model in _ALL})
"""Every built-in model by its name."""
