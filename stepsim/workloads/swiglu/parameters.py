"""The parameters of the gated feed-forward layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from stepsim.deferred import deferred
from stepsim.dtypes import DType
from stepsim.workloads.checks import divides
from stepsim.workloads.common import ComputeBandwidth, FifoDepth, TileInter
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.inputs import Data
from stepsim.workloads.parameters import Param
from stepsim.workloads.workload import Workload

if TYPE_CHECKING:
    from stepsim.workloads.swiglu import build
    from stepsim.workloads.swiglu.build import BuiltSwiglu
else:
    build = deferred("stepsim.workloads.swiglu.build")

_REQUIRED = "required without published settings"


@dataclass(frozen=True, kw_only=True)
class Swiglu(Workload):
    """The gated feed-forward layer of the hardware validation (STeP paper, figure 8).

    The published experiment ran on machine sda-hdl.
    """

    name: ClassVar = "swiglu"
    published_machine: ClassVar = "sda-hdl"

    tile: Annotated[int, Param("rows per tile", "rows", text=True)]
    tile_inter: TileInter
    batch: Annotated[int, Param("rows of the activations", "tokens", otherwise=_REQUIRED)]
    hidden: Annotated[
        int, Param("width of the activations; it is not tiled", "columns", otherwise=_REQUIRED)
    ]
    intermediate: Annotated[int, Param("inner dimension", "columns", otherwise=_REQUIRED)]
    compute_bw: ComputeBandwidth = 4096
    par_dispatch: Annotated[
        int, Param("requests that a memory operator issues", "requests/cycle")
    ] = 4
    fifo_depth: FifoDepth = 1
    weight_dtype: Annotated[DType, Param("element type of the weights")] = DType.f32
    activation_dtype: Annotated[DType, Param("element type of the activations")] = DType.f32

    @property
    def types(self) -> ElementTypes:
        """Element types of the tensors; there is no cache."""
        return ElementTypes(self.weight_dtype, self.activation_dtype, self.activation_dtype)

    @classmethod
    def presets(cls, given: Mapping[str, Any], data: Data, config: str | None) -> Mapping[str, Any]:
        """Sizes of the hardware validation."""
        if config is None:
            return {}
        return {
            "batch": 64,
            "hidden": 256,
            "intermediate": 512,
            "compute_bw": 4096,
            "par_dispatch": 4,
            "fifo_depth": 1,
            "weight_dtype": DType.f32,
            "activation_dtype": DType.f32,
        }

    def check(self, data: Data) -> Iterator[tuple[str, str]]:
        yield from divides("tile", self.tile, self.batch, f"the batch of {self.batch}")
        what = f"the inner dimension {self.intermediate}"
        yield from divides("tile_inter", self.tile_inter, self.intermediate, what)
        yield from self.types.check()

    def build(self, data: Data) -> BuiltSwiglu:
        self.checked(data)
        return build.build_swiglu(self)
