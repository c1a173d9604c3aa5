"""Parameters shared by several workloads, each declared once; workloads set their defaults."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Literal

from stepsim.dtypes import DType
from stepsim.workloads.parameters import Param

ROWS_PER_TILE = Param("rows per tile", "rows")
Tile = Annotated[int | Literal["dynamic"], ROWS_PER_TILE]
TileInter = Annotated[int, Param("columns per tile of the inner dimension", "columns")]
KvTile = Annotated[int, Param("cached tokens per tile", "tokens")]
MaxLength = Annotated[
    int | None,
    Param(
        "tokens reserved in the cache of each request", "tokens",
        otherwise="what the longest request needs",
    ),
]  # fmt: skip


def bandwidth_of(operators: str) -> Param:
    """The compute bandwidth of each of some operators; some machines state that of all."""
    return Param(
        f"compute bandwidth of each {operators}", "FLOPs/cycle",
        machine="compute.unit_flops_per_cycle", replaced=True,
    )  # fmt: skip


AttentionLayer = Annotated[
    int | None,
    Param(
        "layer whose attention is built, from 0", "", least=0,
        otherwise="one that attends to all tokens, if layers differ",
    ),
]  # fmt: skip
ComputeBandwidth = Annotated[int, bandwidth_of("operator")]
FifoDepth = Annotated[int, Param("tokens each FIFO holds", "tokens", machine="fifo.depth")]


def _element_type(tensors: str, path: str) -> Param:
    return Param(
        f"element type of {tensors}", of_model=attrgetter(path), otherwise="that of the model"
    )


WeightType = Annotated[DType | None, _element_type("the weights", "types.weights")]
ActivationType = Annotated[DType | None, _element_type("the activations", "types.activations")]
CacheType = Annotated[DType | None, _element_type("the KV cache", "types.cache")]
