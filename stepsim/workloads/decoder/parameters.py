"""The parameters of a decoder layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from stepsim.deferred import deferred
from stepsim.workloads.checks import built_in_name, reserved_tokens, unlike
from stepsim.workloads.common import (
    ActivationType,
    CacheType,
    FifoDepth,
    KvTile,
    LayerModel,
    MaxLength,
    Tile,
    TileInter,
    WeightType,
)
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.models import LatentHeads, Model
from stepsim.workloads.moe.parameters import check_experts
from stepsim.workloads.parameters import (
    DYNAMIC,
    KV_LENGTHS,
    ROUTING,
    Data,
    Input,
    Param,
    ParameterError,
)
from stepsim.workloads.workload import Workload

if TYPE_CHECKING:
    from stepsim.workloads.decoder import build
    from stepsim.workloads.decoder.build import BuiltDecoder
else:
    build = deferred("stepsim.workloads.decoder.build")

_REQUIRED = "required without a variant"

VARIANTS = ("memory-matched", "performance-matched", "dynamic")

_PUBLISHED_TILES: Mapping[str, Mapping[str, int | str]] = {
    "mixtral-8x7b": dict(zip(VARIANTS, (16, 32, DYNAMIC), strict=True)),
    "qwen3-30b-a3b": dict(zip(VARIANTS, (8, 64, DYNAMIC), strict=True)),
}


@dataclass(frozen=True, kw_only=True)
class Decoder(Workload):
    """A decoder layer: QKV generation, decode attention of all heads, experts (figure 17).

    A dynamic tile holds all rows of an expert. The dense network of a model without experts is an
    expert that every token visits; it needs no routing. The number of requests is arbitrary;
    regions of QKV generation and attention without requests are not built.
    """

    name: ClassVar = "decoder"
    inputs: ClassVar = (ROUTING, KV_LENGTHS)

    model: LayerModel
    variant: Annotated[
        Literal["memory-matched", "performance-matched", "dynamic"] | None,
        Param(
            "variant of the published figure; it sets all values that are not given",
            otherwise="none",
        ),
    ] = None
    tile: Annotated[Tile, Param(otherwise=_REQUIRED)]
    strategy: Annotated[
        Literal["interleaved", "dynamic"],
        Param("how requests are assigned to regions", otherwise=_REQUIRED),
    ]
    tile_inter: TileInter = 64
    expert_regions: Annotated[
        int | None,
        Param("regions that experts share", "regions", otherwise="one for each expert"),
    ] = None
    attention_regions: Annotated[
        int, Param("regions of QKV generation and attention", "regions")
    ] = 4
    kv_tile: KvTile = 32
    max_length: MaxLength = None
    moe_bw: Annotated[
        int, Param("compute bandwidth of each operator of the experts", "FLOPs/cycle")
    ] = 1024
    attention_bw: Annotated[
        int, Param("compute bandwidth of each operator of attention", "FLOPs/cycle")
    ] = 2048
    qkv_bw: Annotated[
        int, Param("compute bandwidth of each matrix product of QKV generation", "FLOPs/cycle")
    ] = 20480
    fifo_depth: FifoDepth = 2
    weight_dtype: WeightType = None
    activation_dtype: ActivationType = None
    kv_dtype: CacheType = None
    attention: Annotated[Model | None, Param("model whose heads are used", like="model")] = None

    @classmethod
    def routing_shape(cls, given: Mapping[str, Any]) -> tuple[int, int] | None:
        if "model" not in given:
            return None
        shape = Model.parse(given["model"]).feed_forward
        return shape.experts, shape.active

    @classmethod
    def presets(cls, given: Mapping[str, Any], data: Data, config: str | None) -> Mapping[str, Any]:
        """Settings of figure 17, as far as the paper states them.

        memory-matched and performance-matched use static tiles and interleaved attention, dynamic
        uses dynamic tiles, dynamic attention and, for Qwen, 32 shared expert regions.
        """
        variant = given.get("variant")
        if variant is None:
            if config is None:
                return {}
            text = "the published figure has three variants; choose a variant: "
            raise ParameterError([("config", text + ", ".join(VARIANTS))])
        if "model" not in given:
            return {}
        own = given["model"]
        model = built_in_name(own, _PUBLISHED_TILES)
        if model is None:
            text = f"the published figure has no {own.name}, only {' and '.join(_PUBLISHED_TILES)}"
            text += unlike(own, _PUBLISHED_TILES)
            raise ParameterError([("variant", f"{text}; give tile and strategy instead")])
        qwen, dynamic = model == "qwen3-30b-a3b", variant == "dynamic"
        return {
            "attention": Model.parse("qwen3-30b-a3b-step" if qwen else model),
            "tile": _PUBLISHED_TILES[model][variant],
            "tile_inter": 48 if qwen else 64,
            "strategy": "dynamic" if dynamic else "interleaved",
            "expert_regions": 32 if qwen and dynamic else None,
        }

    @property
    def types(self) -> ElementTypes:
        """Element types of the tensors."""
        return ElementTypes.of(
            self.model, self.weight_dtype, self.activation_dtype, self.kv_dtype, heads=self.heads
        )

    @property
    def heads(self) -> Model:
        """The model whose heads are used."""
        return self.attention or self.model

    @property
    def latent(self) -> LatentHeads | None:
        """Dimensions of latent attention; None for grouped heads."""
        heads = self.heads.heads
        return heads if isinstance(heads, LatentHeads) else None

    def check(self, data: Data) -> Iterator[tuple[str, str]]:
        shape = self.model.feed_forward
        yield from check_experts(shape, self.tile_inter, self.expert_regions, "expert_regions")
        heads = self.heads.attention
        if heads.model_dim != self.model.model_dim:
            yield (
                "attention",
                f"expected heads of rows as wide as those of {self.model.name}, "
                f"{self.model.model_dim}, found {heads.name} with {heads.model_dim}",
            )
        if self.latent is None and heads.value_width != heads.head_dim:
            yield (
                "attention",
                f"expected keys and values of one width, found {heads.head_dim} and "
                f"{heads.value_width} of {heads.name}; of latent attention give the dimensions "
                "kv_lora_rank, qk_nope_head_dim and qk_rope_head_dim, others run as workload "
                "attention only",
            )
        yield from self.types.check()
        yield from reserved_tokens(self.max_length, data.lengths, self.kv_tile)

    @classmethod
    def shaping(cls) -> tuple[Input, ...]:
        return (KV_LENGTHS,)

    def build(self, data: Data) -> BuiltDecoder:
        self.checked(data)
        return build.build_decoder(self, data)
