"""Shapes of the models that the workloads know, as data."""

from __future__ import annotations

from dataclasses import dataclass

from stepsim.errors import ArgError

__all__ = [
    "ATTENTION_SHAPES",
    "MOE_SHAPES",
    "AttentionShape",
    "MoEShape",
    "attention_shape",
    "moe_shape",
]


@dataclass(frozen=True, slots=True)
class MoEShape:
    """A mixture-of-experts layer: ``E`` experts, ``K`` active, model dim ``D``, inner ``F``.

    Attributes
    ----------
    shared_inner : inner dim of the expert that every token visits; 0 without one.
    source : where the dimensions are published.
    """

    name: str
    experts: int
    active: int
    model_dim: int
    inner_dim: int
    shared_inner: int = 0
    source: str = ""

    def __post_init__(self) -> None:
        sizes = (self.experts, self.active, self.model_dim, self.inner_dim)
        if min(sizes) < 1 or self.active > self.experts or self.shared_inner < 0:
            raise ArgError(
                f"MoE shape '{self.name}': experts, active, model_dim and inner_dim must be >= 1, "
                f"active <= experts and shared_inner >= 0, found {(*sizes, self.shared_inner)}"
            )


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Grouped-query attention: ``heads`` query heads share ``kv_heads`` key and value heads.

    Multi-head latent attention is one KV head whose keys are the latent vector and the rotary part,
    and whose values are the latent vector.

    Attributes
    ----------
    head_dim : width of queries and keys.
    value_dim : width of values; None when it is that of the keys.
    source : where the dimensions are published.
    """

    name: str
    model_dim: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int | None = None
    source: str = ""

    def __post_init__(self) -> None:
        sizes = (self.model_dim, self.heads, self.kv_heads, self.head_dim, self.value_width)
        if min(sizes) < 1 or self.heads % self.kv_heads:
            raise ArgError(
                f"attention shape '{self.name}': model_dim, heads, kv_heads, head_dim and "
                f"value_dim must be >= 1 and kv_heads must divide heads, found {sizes}"
            )

    @property
    def queries_per_kv_head(self) -> int:
        return self.heads // self.kv_heads

    @property
    def value_width(self) -> int:
        return self.head_dim if self.value_dim is None else self.value_dim


MOE_SHAPES: dict[str, MoEShape] = {
    s.name: s
    for s in (
        MoEShape(
            "mixtral-8x7b", experts=8, active=2, model_dim=4096, inner_dim=14336,
            source="config.json of mistralai/Mixtral-8x7B-v0.1",
        ),
        MoEShape(
            "qwen3-30b-a3b", experts=128, active=8, model_dim=2048, inner_dim=768,
            source="config.json of Qwen/Qwen3-30B-A3B",
        ),
        MoEShape(
            "qwen3-235b-a22b", experts=128, active=8, model_dim=4096, inner_dim=1536,
            source="config.json of Qwen/Qwen3-235B-A22B",
        ),
        MoEShape(
            "deepseek-v3", experts=256, active=8, model_dim=7168, inner_dim=2048,
            shared_inner=2048,
            source="config.json of deepseek-ai/DeepSeek-V3 (layers 3 to 60)",
        ),
        MoEShape(
            "deepseek-r1", experts=256, active=8, model_dim=7168, inner_dim=2048,
            shared_inner=2048,
            source="config.json of deepseek-ai/DeepSeek-R1 (layers 3 to 60)",
        ),
        MoEShape(
            "gpt-oss-120b", experts=128, active=4, model_dim=2880, inner_dim=2880,
            source="config.json of openai/gpt-oss-120b",
        ),
        MoEShape(
            "llama-4-scout", experts=16, active=1, model_dim=5120, inner_dim=8192,
            shared_inner=8192,
            source="config.json (text_config) of meta-llama/Llama-4-Scout-17B-16E",
        ),
        MoEShape(
            "glm-4.5", experts=160, active=8, model_dim=5120, inner_dim=1536, shared_inner=1536,
            source="config.json of zai-org/GLM-4.5 (layers 3 to 91)",
        ),
    )
}  # fmt: skip

ATTENTION_SHAPES: dict[str, AttentionShape] = {
    s.name: s
    for s in (
        AttentionShape(
            "mixtral-8x7b", model_dim=4096, heads=32, kv_heads=8, head_dim=128,
            source="config.json of mistralai/Mixtral-8x7B-v0.1",
        ),
        AttentionShape(
            "qwen3-30b-a3b", model_dim=2048, heads=32, kv_heads=4, head_dim=128,
            source="config.json of Qwen/Qwen3-30B-A3B",
        ),
        AttentionShape(
            "qwen3-30b-a3b-step", model_dim=2048, heads=32, kv_heads=4, head_dim=64,
            source="STeP paper, section 5.5: heads half as wide as those of the model",
        ),
        AttentionShape(
            "qwen3-235b-a22b", model_dim=4096, heads=64, kv_heads=4, head_dim=128,
            source="config.json of Qwen/Qwen3-235B-A22B",
        ),
        AttentionShape(
            "deepseek-v3", model_dim=7168, heads=128, kv_heads=1, head_dim=576, value_dim=512,
            source="config.json of deepseek-ai/DeepSeek-V3: kv_lora_rank 512, qk_rope_head_dim 64",
        ),
        AttentionShape(
            "deepseek-r1", model_dim=7168, heads=128, kv_heads=1, head_dim=576, value_dim=512,
            source="config.json of deepseek-ai/DeepSeek-R1: kv_lora_rank 512, qk_rope_head_dim 64",
        ),
        AttentionShape(
            "gpt-oss-120b", model_dim=2880, heads=64, kv_heads=8, head_dim=64,
            source="config.json of openai/gpt-oss-120b (its full-attention layers)",
        ),
        AttentionShape(
            "llama-4-scout", model_dim=5120, heads=40, kv_heads=8, head_dim=128,
            source="config.json (text_config) of meta-llama/Llama-4-Scout-17B-16E",
        ),
        AttentionShape(
            "glm-4.5", model_dim=5120, heads=96, kv_heads=8, head_dim=128,
            source="config.json of zai-org/GLM-4.5",
        ),
    )
}  # fmt: skip


def moe_shape(name: str) -> MoEShape:
    """A registered shape by name."""
    if name not in MOE_SHAPES:
        raise ArgError(f"unknown MoE model {name!r}; known: {', '.join(sorted(MOE_SHAPES))}")
    return MOE_SHAPES[name]


def attention_shape(name: str) -> AttentionShape:
    """A registered shape by name."""
    if name not in ATTENTION_SHAPES:
        known = ", ".join(sorted(ATTENTION_SHAPES))
        raise ArgError(f"unknown attention model {name!r}; known: {known}")
    return ATTENTION_SHAPES[name]


@dataclass(frozen=True)
class Model:
    name: str
    moe_: MoEShape | None = None
    attention_: AttentionShape | None = None
    metavar = "MODEL"

    @classmethod
    def parse(cls, value: object) -> Model:
        if isinstance(value, Model):
            return value
        if isinstance(value, MoEShape):
            return cls(value.name, value)
        if isinstance(value, AttentionShape):
            return cls(value.name, None, value)
        return cls(value, MOE_SHAPES.get(value), ATTENTION_SHAPES.get(value))

    @property
    def moe(self):
        return self.moe_

    @property
    def attention(self):
        return self.attention_

    def __str__(self):
        return self.name
