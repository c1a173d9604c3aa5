"""The parameters of a mixture-of-experts layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from stepsim.deferred import deferred
from stepsim.typed import typed
from stepsim.workloads.built import Built
from stepsim.workloads.checks import built_in_name, divides, unlike
from stepsim.workloads.common import (
    ActivationType,
    Collective,
    ComputeBandwidth,
    DataParallel,
    ExpertParallel,
    FifoDepth,
    TensorParallel,
    Tile,
    TileInter,
    WeightType,
    why_no_sums,
)
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.inputs import ROUTING, Data, Input
from stepsim.workloads.models import LayerModel, Model, MoEShape
from stepsim.workloads.parallel.machines import build_on_machine
from stepsim.workloads.parallel.split import Split, on_several_chips
from stepsim.workloads.parameters import DYNAMIC, Param, ParameterError
from stepsim.workloads.workload import Workload

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.workloads.moe import build, on_chips
else:
    build = deferred("stepsim.workloads.moe.build")
    on_chips = deferred("stepsim.workloads.moe.on_chips")

_PUBLISHED = ("mixtral-8x7b", "qwen3-30b-a3b")
_PUBLISHED_SHARED = ("qwen3-30b-a3b",)


@dataclass(frozen=True, kw_only=True)
class Moe(Workload):
    """A mixture-of-experts layer with static or dynamic row tiles.

    A dynamic tile holds all rows of an expert. Without ``regions`` each expert has its
    own hardware (STeP paper, sections 5.2 and 5.3); with them the experts share regions in time
    (section 5.4).
    """

    name: ClassVar = "moe"
    inputs: ClassVar = (ROUTING,)

    model: LayerModel
    tile: Tile
    regions: Annotated[
        int | None,
        Param("regions that work in parallel", "regions", otherwise="one for each expert"),
    ] = None
    tile_inter: TileInter = 64
    compute_bw: ComputeBandwidth = 4096
    pack_bw: Annotated[
        int | None,
        Param("compute bandwidth of operators that pack rows", "FLOPs/cycle", like="compute_bw"),
    ] = None
    fifo_depth: FifoDepth = 2
    weight_dtype: WeightType = None
    activation_dtype: ActivationType = None
    tp: TensorParallel = 1
    ep: ExpertParallel = 1
    dp: DataParallel = 1
    collective: Annotated[Collective, Param(unused=why_no_sums)] = "ring"

    @property
    def split(self) -> Split:
        """How the layer is divided among chips."""
        return Split(tp=self.tp, ep=self.ep, dp=self.dp)

    @property
    def types(self) -> ElementTypes:
        """Element types of the tensors."""
        return ElementTypes.of(self.model, self.weight_dtype, self.activation_dtype)

    @classmethod
    def routing_shape(cls, given: Mapping[str, Any]) -> tuple[int, int] | None:
        if "model" not in given:
            return None
        shape = Model.parse(given["model"]).moe
        return shape.experts, shape.active

    @classmethod
    def presets(cls, given: Mapping[str, Any], data: Data, config: str | None) -> Mapping[str, Any]:
        """Settings of the published tiling figures, or, with ``regions``, of the figures on
        sharing.

        Static points use 4096 FLOPs/cycle everywhere; dynamic ones 6400, and 1024 for packing rows.
        The large-batch Qwen points were run with FIFOs of 1024 tokens.
        """
        if config is None or "model" not in given:
            return {}
        own, tile, shared = given["model"], given.get("tile"), given.get("regions")
        models = _PUBLISHED if shared is None else _PUBLISHED_SHARED
        model = built_in_name(own, models)
        if model is None:
            how = "" if shared is None else " with shared regions"
            many = "are those" if len(models) > 1 else "is that"
            text = f"there is no published experiment of {own.name}{how}; there {many} of "
            raise ParameterError([("config", text + " and ".join(models) + unlike(own, models))])
        if shared is not None:
            return {"tile_inter": 48, "compute_bw": 1024, "fifo_depth": 2}
        deep = model == "qwen3-30b-a3b" and data.rows == 1024
        return {
            "tile_inter": 64,
            "compute_bw": 6400 if tile == DYNAMIC else 4096,
            "pack_bw": 1024 if tile == DYNAMIC else 4096,
            "fifo_depth": 1024 if deep else 2,
        }

    def check(self, data: Data) -> Iterator[tuple[str, str]]:
        wrong = [*self.split.check(self.model, data, self.collective, heads=False)]
        yield from wrong
        if not wrong:
            shape = self.split.model(self.model).moe
            yield from check_experts(shape, self.tile_inter, self.regions, "regions")
        yield from self.types.check()
        if self.regions is not None and self.pack_bw != self.compute_bw:
            yield (
                "pack_bw",
                f"expected compute_bw {self.compute_bw}, since shared regions have one "
                f"bandwidth for all operators, found {self.pack_bw}; leave it out",
            )

    @classmethod
    def shaping(cls) -> tuple[Input, ...]:
        return ()

    @classmethod
    @typed
    def shaping_of(cls, given: Mapping[str, Any]) -> tuple[Input, ...]:
        return cls.inputs if on_several_chips(given) else cls.shaping()

    def build(self, data: Data) -> Built:
        self.checked(data)
        if self.split.chips > 1:
            return on_chips.build_on_chips(self, data)
        return build.build_moe(self, data.rows)

    def build_for(self, data: Data, machine: Machine) -> Built:
        return build_on_machine(self, self.split, data, machine)


def check_experts(
    shape: MoEShape, tile_inter: int, regions: int | None, regions_name: str
) -> Iterator[tuple[str, str]]:
    """Problems in parameters common to layers with experts."""
    inner = math.gcd(shape.inner_dim, shape.shared_inner)
    what = f"the inner dimension {inner} of {shape.name}"
    yield from divides("tile_inter", tile_inter, inner, what)
    if regions is not None:
        experts = f"the {shape.experts} experts of {shape.name}"
        yield from divides(regions_name, regions, shape.experts, experts)
