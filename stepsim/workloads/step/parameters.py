"""The parameters of a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from stepsim.deferred import deferred
from stepsim.typed import typed
from stepsim.workloads.attention.parameters import COARSE_BLOCK
from stepsim.workloads.built import Built
from stepsim.workloads.checks import divides, windowed_layer
from stepsim.workloads.common import (
    ActivationType,
    AttentionLayer,
    CacheType,
    Collective,
    DataParallel,
    ExpertParallel,
    FifoDepth,
    KvTile,
    MicroBatches,
    PipelineParallel,
    TensorParallel,
    Tile,
    TileInter,
    WeightType,
    bandwidth_of,
    why_no_stages,
    why_no_sums,
)
from stepsim.workloads.decoder.parameters import check_heads
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.inputs import KV_LENGTHS, NEW_TOKENS, ROUTING, Data, Input
from stepsim.workloads.models import LatentHeads, LayerModel, Model
from stepsim.workloads.moe.parameters import check_experts
from stepsim.workloads.parallel.machines import build_on_machine
from stepsim.workloads.parallel.split import Split, on_several_chips
from stepsim.workloads.parameters import Param
from stepsim.workloads.workload import Workload

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.workloads.step import build
    from stepsim.workloads.step.build import BuiltStep
else:
    build = deferred("stepsim.workloads.step.build")

_EXPERT_BW, _PRODUCT_BW = 1024, 20480
"""FLOPs per cycle of an operator of an expert, and of one of a matrix that all tokens visit."""

LAYER, HEAD, BOTH = "layer", "head", "layer+head"


def _of_layer(**more: Any) -> Param:
    """A parameter without effect on the head."""
    return Param(unused=partial(_why_unused, LAYER), **more)


def _why_unused(user: str, values: Mapping[str, Any]) -> str:
    part = values.get("part", LAYER)
    if part in (user, BOTH):
        return ""
    return f"has no effect on the {part} alone; leave it out, or choose part {user} or {BOTH}"


def _why_no_sums(values: Mapping[str, Any]) -> str:
    return _why_unused(LAYER, values) or why_no_sums(values)


def _why_no_stages(values: Mapping[str, Any]) -> str:
    return _why_unused(LAYER, values) or why_no_stages(values)


@dataclass(frozen=True, kw_only=True)
class Step(Workload):
    """One layer of a step of a service: new tokens of each request on top of cached ones.

    A request that decodes has one new token, a chunk of a prompt has many; a batch may mix both.
    Norm, QKV generation, rotary embedding, causal attention of each request over its own tokens,
    output projection and residual sum; norm, router, experts or dense network, and residual sum.
    The head can follow, for the last new token of each request, or be built alone.

    New keys and values are written to the cache first, and attention reads them from there.
    """

    name: ClassVar = "step"
    inputs: ClassVar = (ROUTING, KV_LENGTHS, NEW_TOKENS)

    model: LayerModel
    part: Annotated[
        Literal["layer", "head", "layer+head"], Param("parts of the step that are built")
    ] = "layer"
    network: Annotated[
        Literal["experts", "dense"] | None,
        Param(
            "feed-forward network, of models that have layers of both kinds",
            otherwise="experts, if the model has any",
        ),
        _of_layer(),
    ] = None
    tile: Annotated[Tile, _of_layer()] = "dynamic"
    strategy: Annotated[
        Literal["coarse", "interleaved", "dynamic"],
        Param("how requests are assigned to regions"),
        _of_layer(),
    ] = "dynamic"
    block: Annotated[
        int | None,
        Param("requests per block of the coarse strategy", "requests", otherwise=str(COARSE_BLOCK)),
        _of_layer(),
    ] = None
    query_tile: Annotated[
        int, Param("new tokens of a request whose queries share a tile", "tokens"), _of_layer()
    ] = 128
    tile_inter: Annotated[TileInter, _of_layer()] = 64
    expert_regions: Annotated[
        int | None,
        Param("regions that experts share", "regions", otherwise="one for each expert"),
        _of_layer(),
    ] = None
    attention_regions: Annotated[
        int,
        Param("regions of QKV generation, attention and output projection", "regions"),
    ] = 4
    weight_loads: Annotated[
        int, Param("loads that read each matrix but those of the experts", "loads")
    ] = 16
    kv_tile: Annotated[KvTile, _of_layer()] = 32
    moe_bw: Annotated[
        int | None,
        bandwidth_of("operator of norms, rotary embedding, sums and experts"),
        Param(otherwise=f"{_EXPERT_BW}, with a dense network {_PRODUCT_BW}"),
    ] = None
    attention_bw: Annotated[int, bandwidth_of("operator of attention"), _of_layer()] = 2048
    qkv_bw: Annotated[
        int,
        bandwidth_of("matrix product of QKV generation, output projection and router"),
    ] = _PRODUCT_BW
    fifo_depth: FifoDepth = 2
    attention_fifo_depth: Annotated[
        int,
        Param("tokens each FIFO of attention holds", "tokens", machine="fifo.depth"),
        _of_layer(),
    ] = 2
    weight_dtype: WeightType = None
    activation_dtype: ActivationType = None
    kv_dtype: Annotated[CacheType, _of_layer()] = None
    attention_layer: Annotated[AttentionLayer, _of_layer()] = None
    tp: TensorParallel = 1
    ep: Annotated[ExpertParallel, _of_layer()] = 1
    pp: Annotated[PipelineParallel, _of_layer()] = 1
    pp_micro_batches: Annotated[MicroBatches, Param(unused=_why_no_stages)] = 1
    dp: DataParallel = 1
    collective: Annotated[Collective, Param(unused=_why_no_sums)] = "ring"

    @classmethod
    @typed
    def routing_shape(cls, given: Mapping[str, Any]) -> tuple[int, int] | None:
        if "model" not in given or ROUTING not in cls.needed(given):
            return None
        shape = _layer_model(Model.parse(given["model"]), given.get("network")).feed_forward
        return shape.experts, shape.active

    @classmethod
    def unneeded(cls, given: Mapping[str, Any]) -> Mapping[Input, str]:
        why = _why_unused(LAYER, given)
        return dict.fromkeys((ROUTING, KV_LENGTHS, NEW_TOKENS), why) if why else {}

    @property
    def has_layer(self) -> bool:
        """Whether the layer is built."""
        return self.part != HEAD

    @property
    def has_head(self) -> bool:
        """Whether the head is built."""
        return self.part != LAYER

    @property
    def layer_model(self) -> Model:
        """The model of the layer: without experts, if its network is dense."""
        return _layer_model(self.model, self.network)

    @property
    def network_bw(self) -> int:
        """FLOPs per cycle of each operator of norms, sums and experts or dense network."""
        usual = _EXPERT_BW if self.layer_model.experts is not None else _PRODUCT_BW
        return self.moe_bw or usual

    @property
    def types(self) -> ElementTypes:
        """Element types of the tensors."""
        return ElementTypes.of(self.model, self.weight_dtype, self.activation_dtype, self.kv_dtype)

    @property
    def latent(self) -> LatentHeads | None:
        """Dimensions of latent attention; None for grouped heads."""
        heads = self.model.heads
        return heads if isinstance(heads, LatentHeads) else None

    @property
    def window(self) -> int | None:
        """Tokens that a query attends to at most, itself among them; None for all."""
        return self.model.window(self.attention_layer)

    @property
    def tasks_per_block(self) -> int:
        """Tasks of a contiguous block of the coarse strategy."""
        return self.block or COARSE_BLOCK

    @property
    def split(self) -> Split:
        """How the step is divided among chips."""
        return Split(self.tp, self.ep, self.pp, self.dp, self.pp_micro_batches)

    def check(self, data: Data) -> Iterator[tuple[str, str]]:
        yield from self.types.check()
        if self.has_layer:
            yield from self._check_layer(data)
        else:
            yield from self.split.check_requests(data)
        if self.has_head and self.model.vocabulary is None:
            yield "part", f"expected no head, since the vocabulary of {self.model.name} is unknown"
        elif self.has_head and self.model.vocabulary is not None:
            words = self.model.vocabulary
            yield from divides("tp", self.tp, words, f"the {words} words of {self.model.name}")

    def _check_layer(self, data: Data) -> Iterator[tuple[str, str]]:
        if self.network == "experts" and self.model.experts is None:
            yield "network", f"expected dense, since {self.model.name} has no experts"
            return
        if self.network == "dense" and self.model.dense is None:
            yield "network", f"expected experts, since {self.model.name} has no dense layers"
            return
        wrong = [*self.split.check(self.layer_model, data, self.collective)]
        yield from wrong
        if wrong:
            return
        shape = self.split.model(self.layer_model).feed_forward
        yield from check_experts(shape, self.tile_inter, self.expert_regions, "expert_regions")
        yield from check_heads(self.model, "model", ("model", "choose another model"))
        yield from windowed_layer(self.model, self.attention_layer)
        if self.strategy != "coarse" and self.block is not None:
            text = f"{self.strategy} distributes single tasks, only coarse has blocks"
            yield "block", f"{text}; leave it out"

    @classmethod
    def shaping(cls) -> tuple[Input, ...]:
        return (KV_LENGTHS, NEW_TOKENS)

    @classmethod
    @typed
    def shaping_of(cls, given: Mapping[str, Any]) -> tuple[Input, ...]:
        return cls.inputs if on_several_chips(given) else cls.shaping()

    def build(self, data: Data) -> BuiltStep:
        self.checked(data)
        return build.build_step(self, data)

    def build_for(self, data: Data, machine: Machine) -> Built:
        return build_on_machine(self, self.split, data, machine)


def _layer_model(model: Model, network: str | None) -> Model:
    dense = network == "dense" and model.dense is not None
    return replace(model, experts=None) if dense else model
