"""The parameters of a decoder layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from stepsim.deferred import deferred
from stepsim.typed import typed
from stepsim.workloads.built import Built
from stepsim.workloads.checks import (
    attended,
    built_in_name,
    reserved_tokens,
    unlike,
    windowed_layer,
)
from stepsim.workloads.common import (
    ROWS_PER_TILE,
    ActivationType,
    AttentionLayer,
    CacheType,
    Collective,
    DataParallel,
    ExpertParallel,
    FifoDepth,
    KvTile,
    MaxLength,
    MicroBatches,
    PipelineParallel,
    TensorParallel,
    TileInter,
    WeightType,
    bandwidth_of,
    why_no_sums,
)
from stepsim.workloads.decoder.parts import (
    ATTENTION,
    EXPERTS,
    NORMS,
    OF_HEADS,
    OUTPUT,
    QKV,
    RESIDUALS,
    ROTARY,
    ROUTER,
    Parts,
)
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.inputs import KV_LENGTHS, ROUTING, Data, Input
from stepsim.workloads.models import LatentHeads, LayerModel, Model
from stepsim.workloads.moe.parameters import check_experts
from stepsim.workloads.parallel.machines import build_on_machine
from stepsim.workloads.parallel.split import Split, on_several_chips
from stepsim.workloads.parameters import DYNAMIC, Param, ParameterError
from stepsim.workloads.workload import Workload

if TYPE_CHECKING:
    import numpy as np

    from stepsim.machine import Machine
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
_PUBLISHED_PARTS = Parts((QKV, ATTENTION, EXPERTS))
"""What the text names, and what the published compute adds up from."""

_READERS: Mapping[Input, str] = {ROUTING: EXPERTS, KV_LENGTHS: ATTENTION}
"""The part that reads each trace."""


def _used_by(*users: str, needed: bool = False) -> Param:
    """A parameter of some parts alone."""
    return Param(unused=partial(_why_unused, users), needed=needed)


def _why_unused(users: tuple[str, ...], values: Mapping[str, Any]) -> str:
    parts = values.get("parts")
    return "" if parts is None else Parts.parse(parts).without(users)


@dataclass(frozen=True, kw_only=True)
class Decoder(Workload):
    """A decoder layer (figure 17), in all or in parts.

    Norm, QKV generation, rotary embedding, decode attention of all heads, output projection and
    residual sum; norm, router, experts and residual sum. The variants of the figure have the parts
    that its text names: ``qkv+attention+experts``.

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
    tile: Annotated[
        int | Literal["dynamic"] | None,
        ROWS_PER_TILE,
        Param(otherwise=_REQUIRED),
        _used_by(EXPERTS, needed=True),
    ] = None
    strategy: Annotated[
        Literal["interleaved", "dynamic"] | None,
        Param("how requests are assigned to regions", otherwise=_REQUIRED),
        _used_by(ATTENTION, needed=True),
    ] = None
    tile_inter: Annotated[TileInter, _used_by(EXPERTS)] = 64
    expert_regions: Annotated[
        int | None,
        Param("regions that experts share", "regions", otherwise="one for each expert"),
        _used_by(EXPERTS),
    ] = None
    attention_regions: Annotated[
        int,
        Param("regions of QKV generation, attention and output projection", "regions"),
        _used_by(*OF_HEADS),
    ] = 4
    weight_loads: Annotated[
        int,
        Param("loads that read each matrix but those of the experts", "loads"),
        _used_by(QKV, OUTPUT),
    ] = 16
    kv_tile: Annotated[KvTile, _used_by(ATTENTION)] = 32
    max_length: Annotated[MaxLength, _used_by(ATTENTION)] = None
    moe_bw: Annotated[
        int,
        bandwidth_of("operator of norms, rotary embedding, sums and experts"),
        _used_by(NORMS, ROTARY, RESIDUALS, EXPERTS),
    ] = 1024
    attention_bw: Annotated[int, bandwidth_of("operator of attention"), _used_by(ATTENTION)] = 2048
    qkv_bw: Annotated[
        int,
        bandwidth_of("matrix product of QKV generation, output projection and router"),
        _used_by(QKV, OUTPUT, ROUTER),
    ] = 20480
    fifo_depth: FifoDepth = 2
    attention_fifo_depth: Annotated[
        int,
        Param("tokens each FIFO of attention holds", "tokens", machine="fifo.depth"),
        _used_by(ATTENTION),
    ] = 1
    weight_dtype: Annotated[WeightType, _used_by(QKV, OUTPUT, EXPERTS)] = None
    activation_dtype: ActivationType = None
    kv_dtype: Annotated[CacheType, _used_by(ATTENTION)] = None
    attention: Annotated[
        Model | None,
        Param("model whose heads are used", like="model"),
        _used_by(*OF_HEADS),
    ] = None
    attention_layer: Annotated[AttentionLayer, _used_by(ATTENTION)] = None
    tp: TensorParallel = 1
    ep: Annotated[ExpertParallel, _used_by(EXPERTS)] = 1
    pp: PipelineParallel = 1
    pp_micro_batches: MicroBatches = 1
    dp: DataParallel = 1
    collective: Annotated[Collective, Param(unused=why_no_sums)] = "ring"
    parts: Annotated[
        Parts | None,
        Param(
            "parts of the layer that are built",
            of_model=attrgetter("built_parts"),
            otherwise="the whole layer",
        ),
    ] = None

    @classmethod
    @typed
    def routing_shape(cls, given: Mapping[str, Any]) -> tuple[int, int] | None:
        if "model" not in given or ROUTING not in cls.needed(given):
            return None
        shape = Model.parse(given["model"]).feed_forward
        return shape.experts, shape.active

    @classmethod
    def unneeded(cls, given: Mapping[str, Any]) -> Mapping[Input, str]:
        found = {one: _why_unused((reader,), given) for one, reader in _READERS.items()}
        return {one: why for one, why in found.items() if why}

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
            "parts": _PUBLISHED_PARTS,
        }

    @property
    def built_parts(self) -> Parts:
        """The parts that are built."""
        return Parts.whole(self.model) if self.parts is None else self.parts

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

    def attended(self, data: Data) -> np.ndarray[Any, Any]:
        """The cached tokens that each request attends to: at most the window of the layer."""
        return attended(self.heads, self.attention_layer, data.lengths)

    @property
    def latent(self) -> LatentHeads | None:
        """Dimensions of latent attention; None for grouped heads."""
        heads = self.heads.heads
        return heads if isinstance(heads, LatentHeads) else None

    @property
    def split(self) -> Split:
        """How the layer is divided among chips."""
        return Split(self.tp, self.ep, self.pp, self.dp, self.pp_micro_batches)

    @property
    def on_one_chip(self) -> Decoder:
        """The part of the layer that each chip has."""
        other = None if self.attention is None else self.split.model(self.attention)
        return replace(
            self, model=self.split.model(self.model), attention=other, tp=1, ep=1, pp=1, dp=1,
            pp_micro_batches=1, collective="ring",
        )  # fmt: skip

    def check(self, data: Data) -> Iterator[tuple[str, str]]:
        parts = self.built_parts
        yield from (("parts", text) for text in parts.check(self.model))
        whole = replace(self.model, heads=self.heads.heads)
        has = {"heads": parts.any(OF_HEADS), "experts": EXPERTS in parts}
        wrong = [*self.split.check(whole, data, self.collective, **has)]
        yield from wrong
        if self.pp > 1 and parts != Parts.whole(self.model):
            yield "pp", f"expected 1, since layers follow each other as a whole, found {self.pp}"
        if wrong:
            return
        if EXPERTS in parts:
            shape = self.split.model(self.model).feed_forward
            yield from check_experts(shape, self.tile_inter, self.expert_regions, "expert_regions")
        if parts.any(OF_HEADS):
            yield from self._check_heads()
        yield from self.types.check()
        wrong = [*windowed_layer(self.heads, self.attention_layer)]
        yield from wrong or reserved_tokens(self.max_length, self.attended(data), self.kv_tile)

    def _check_heads(self) -> Iterator[tuple[str, str]]:
        heads = self.heads.attention
        if heads.model_dim != self.model.model_dim:
            yield (
                "attention",
                f"expected heads of rows as wide as those of {self.model.name}, "
                f"{self.model.model_dim}, found {heads.name} with {heads.model_dim}",
            )
        turned = ROTARY in self.built_parts
        rotary = ("parts", "leave rotary out") if turned else None
        yield from check_heads(self.heads, "attention", rotary)

    @classmethod
    def shaping(cls) -> tuple[Input, ...]:
        return (KV_LENGTHS,)

    @classmethod
    @typed
    def shaping_of(cls, given: Mapping[str, Any]) -> tuple[Input, ...]:
        return cls.inputs if on_several_chips(given) else cls.shaping()

    def build(self, data: Data) -> BuiltDecoder:
        self.checked(data)
        return build.build_decoder(self, data)

    def build_for(self, data: Data, machine: Machine) -> Built:
        return build_on_machine(self, self.split, data, machine)


def check_heads(
    model: Model, name: str, rotary: tuple[str, str] | None
) -> Iterator[tuple[str, str]]:
    """Problems of the heads of a model in QKV generation, which parameter ``name`` chooses.

    ``rotary`` is the parameter that asks for the rotary embedding, and what to do without one.
    """
    heads = model.attention
    latent = model.heads if isinstance(model.heads, LatentHeads) else None
    if latent is None and heads.value_width != heads.head_dim:
        yield (
            name,
            f"expected keys and values of one width, found {heads.head_dim} and "
            f"{heads.value_width} of {heads.name}; of latent attention give the dimensions "
            "kv_lora_rank, qk_nope_head_dim and qk_rope_head_dim, others run as workload "
            "attention only",
        )
    width = heads.head_dim if latent is None else latent.qk_rope_head_dim
    if rotary is not None and width % 2:
        which, instead = rotary
        yield (
            which,
            f"expected an even number of columns to rotate, found {width} of {heads.name}; "
            f"{instead}",
        )
