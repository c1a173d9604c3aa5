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
    """A mixture-of-experts layer: ``E`` experts, ``K`` active, model dim ``D``, inner ``F``."""

    name: str
    experts: int
    active: int
    model_dim: int
    inner_dim: int

    def __post_init__(self) -> None:
        sizes = (self.experts, self.active, self.model_dim, self.inner_dim)
        if min(sizes) < 1 or self.active > self.experts:
            raise ArgError(
                f"MoE shape '{self.name}': sizes must be >= 1 and active <= experts: {sizes}"
            )


MOE_SHAPES: dict[str, MoEShape] = {
    s.name: s
    for s in (
        # mistralai/Mixtral-8x7B config.json: num_local_experts, num_experts_per_tok, hidden_size,
        # intermediate_size
        MoEShape("mixtral-8x7b", experts=8, active=2, model_dim=4096, inner_dim=14336),
        # Qwen/Qwen3-30B-A3B config.json: num_experts, num_experts_per_tok, hidden_size,
        # moe_intermediate_size
        MoEShape("qwen3-30b-a3b", experts=128, active=8, model_dim=2048, inner_dim=768),
    )
}


def moe_shape(name: str) -> MoEShape:
    """A registered shape by name."""
    if name not in MOE_SHAPES:
        raise ArgError(f"unknown MoE model {name!r}; known: {', '.join(sorted(MOE_SHAPES))}")
    return MOE_SHAPES[name]


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Grouped-query attention: ``heads`` query heads share ``kv_heads`` key and value heads."""

    name: str
    model_dim: int
    heads: int
    kv_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        sizes = (self.model_dim, self.heads, self.kv_heads, self.head_dim)
        if min(sizes) < 1 or self.heads % self.kv_heads:
            raise ArgError(
                f"attention shape '{self.name}': sizes must be >= 1 and kv_heads divide heads, "
                f"found {sizes}"
            )

    @property
    def queries_per_kv_head(self) -> int:
        return self.heads // self.kv_heads


ATTENTION_SHAPES: dict[str, AttentionShape] = {
    s.name: s
    for s in (
        # The configuration of the STeP paper's attention figures: head_dim 64, unlike the model's.
        AttentionShape("qwen3-30b-a3b-step", model_dim=2048, heads=32, kv_heads=4, head_dim=64),
    )
}


def attention_shape(name: str) -> AttentionShape:
    """A registered shape by name."""
    if name not in ATTENTION_SHAPES:
        known = ", ".join(sorted(ATTENTION_SHAPES))
        raise ArgError(f"unknown attention model {name!r}; known: {known}")
    return ATTENTION_SHAPES[name]
