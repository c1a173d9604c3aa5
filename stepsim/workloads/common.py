"""Parameters shared by several workloads, each declared once; workloads set their defaults."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Literal

from stepsim.dtypes import DType
from stepsim.workloads.models import Model
from stepsim.workloads.parameters import Param

LayerModel = Annotated[Model, Param("model whose layer is built")]
Tile = Annotated[int | Literal["dynamic"], Param("rows per tile", "rows")]
TileInter = Annotated[int, Param("columns per tile of the inner dimension", "columns")]
KvTile = Annotated[int, Param("cached tokens per tile", "tokens")]
MaxLength = Annotated[
    int | None,
    Param(
        "tokens reserved in the cache of each request", "tokens",
        otherwise="what the longest request needs",
    ),
]  # fmt: skip
ComputeBandwidth = Annotated[int, Param("compute bandwidth of each operator", "FLOPs/cycle")]
FifoDepth = Annotated[int, Param("tokens each FIFO holds", "tokens", machine="fifo.depth")]
WeightType = Annotated[
    DType | None,
    Param(
        "element type of the weights",
        of_model=attrgetter("types.weights"), otherwise="that of the model",
    ),
]  # fmt: skip
ActivationType = Annotated[
    DType | None,
    Param(
        "element type of the activations",
        of_model=attrgetter("types.activations"), otherwise="that of the model",
    ),
]  # fmt: skip
CacheType = Annotated[
    DType | None,
    Param(
        "element type of the KV cache",
        of_model=attrgetter("types.cache"), otherwise="that of the model",
    ),
]  # fmt: skip
