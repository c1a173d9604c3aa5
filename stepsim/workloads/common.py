"""Parameters shared by several workloads, each declared once; workloads set their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal

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
TensorParallel = Annotated[
    int,
    Param("chips that divide the heads and the inner dimensions of a layer", "chips", added=True),
]
ExpertParallel = Annotated[
    int, Param("chips that divide the experts of a layer", "chips", added=True)
]
PipelineParallel = Annotated[
    int, Param("stages: consecutive layers, each on chips of its own", "layers", added=True)
]


def why_no_stages(values: Mapping[str, Any]) -> str:
    """Why a number of micro-batches has no effect; empty if it has one."""
    one = "has no effect on a single stage; leave it out, or choose pp above 1"
    return "" if values.get("pp", 1) != 1 else one


MicroBatches = Annotated[
    int,
    Param(
        "micro-batches of a batch, which pass through the stages of pp one after the other",
        "batches", unused=why_no_stages, added=True,
    ),
]  # fmt: skip
DataParallel = Annotated[
    int, Param("groups of chips that divide the requests", "groups", added=True)
]


def why_no_sums(values: Mapping[str, Any]) -> str:
    """Why an algorithm of all-reduces has no effect; empty if it has one."""
    return (
        ""
        if values.get("tp", 1) != 1
        else (
            "has no effect, since chips have no sums to add up; leave it out, or choose tp above 1"
        )
    )


Collective = Annotated[
    Literal["ring", "direct", "halving-doubling"],
    Param("algorithm of the all-reduces of tp", unused=why_no_sums, added=True),
]
ComputeBandwidth = Annotated[int, bandwidth_of("operator")]
FifoDepth = Annotated[int, Param("tokens each FIFO holds", "tokens", machine="fifo.depth")]


def _element_type(tensors: str, path: str) -> Param:
    return Param(
        f"element type of {tensors}", of_model=attrgetter(path), otherwise="that of the model"
    )


WeightType = Annotated[DType | None, _element_type("the weights", "types.weights")]
ActivationType = Annotated[DType | None, _element_type("the activations", "types.activations")]
CacheType = Annotated[DType | None, _element_type("the KV cache", "types.cache")]
