"""The parameters of decode attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from stepsim.deferred import deferred
from stepsim.workloads.built import Built
from stepsim.workloads.checks import (
    attended,
    built_in_name,
    divides,
    reserved_tokens,
    unlike,
    windowed_layer,
)
from stepsim.workloads.common import (
    ActivationType,
    AttentionLayer,
    CacheType,
    ComputeBandwidth,
    DataParallel,
    FifoDepth,
    KvTile,
    MaxLength,
    TensorParallel,
)
from stepsim.workloads.element_types import ElementTypes
from stepsim.workloads.inputs import KV_LENGTHS, Data
from stepsim.workloads.models import LayerModel, Model
from stepsim.workloads.parallel.machines import build_on_machine
from stepsim.workloads.parallel.split import Split
from stepsim.workloads.parameters import Param, ParameterError
from stepsim.workloads.workload import Workload

if TYPE_CHECKING:
    import numpy as np

    from stepsim.machine import Machine
    from stepsim.workloads.attention import build
    from stepsim.workloads.attention.build import BuiltAttention
else:
    build = deferred("stepsim.workloads.attention.build")

COARSE_BLOCK = 16
"""Requests of a block of the coarse strategy, by default."""

_PUBLISHED = "qwen3-30b-a3b"
_PUBLISHED_HEADS = "qwen3-30b-a3b-step"
_RESERVED = {16: (4672, 6528, 8000), 80: (6528,)}
"""Cache tokens of a request by batch, for traces of increasing length; other batches: 6464."""


@dataclass(frozen=True, kw_only=True)
class Attention(Workload):
    """Decode attention of one KV head over several regions (STeP paper, section 5.5).

    Requests go to regions in contiguous blocks (coarse), in turn (interleaved), or to the first
    region that has read its last key tile (dynamic). The number of requests is arbitrary. Regions
    without requests are not built.

    On several chips, ``dp`` groups divide the requests, and ``tp`` members of a group the query
    heads that share the KV head, of whose cache each member has a copy.
    """

    name: ClassVar = "attention"
    inputs: ClassVar = (KV_LENGTHS,)

    model: LayerModel
    strategy: Annotated[
        Literal["coarse", "interleaved", "dynamic"], Param("how requests are assigned to regions")
    ] = "dynamic"
    regions: Annotated[int, Param("regions that work in parallel", "regions")] = 4
    kv_tile: KvTile = 32
    block: Annotated[
        int | None,
        Param("requests per block of the coarse strategy", "requests", otherwise=str(COARSE_BLOCK)),
    ] = None
    micro_batches: Annotated[
        tuple[int, ...] | None,
        Param(
            "sizes of joined micro-batches; coarse blocks restart in each", "requests",
            otherwise="one",
        ),
    ] = None  # fmt: skip
    max_length: MaxLength = None
    compute_bw: ComputeBandwidth = 2048
    fifo_depth: FifoDepth = 1
    activation_dtype: ActivationType = None
    kv_dtype: CacheType = None
    shape: Annotated[Model | None, Param("model whose heads are used", like="model")] = None
    attention_layer: AttentionLayer = None
    tp: TensorParallel = 1
    dp: DataParallel = 1

    @classmethod
    def presets(cls, given: Mapping[str, Any], data: Data, config: str | None) -> Mapping[str, Any]:
        """Settings of the published figures.

        A batch of 80 is two micro-batches of 64 and 16 requests. Published runs on part of a
        trace reserved caches as for the entire trace.
        """
        if config is None or "model" not in given:
            return {}
        model = given["model"]
        names = _PUBLISHED, _PUBLISHED_HEADS
        if built_in_name(model, names) is None:
            text = f"there is no published experiment of {model.name}; there is one of {_PUBLISHED}"
            raise ParameterError([("config", text + unlike(model, names))])
        batch = data.whole or data.rows
        found: dict[str, Any] = {
            "shape": Model.parse(_PUBLISHED_HEADS),
            "strategy": "dynamic",
            "regions": 4,
            "kv_tile": 32,
            "compute_bw": 2048,
            "fifo_depth": 1,
        }
        if "max_length" not in given:
            found["max_length"] = _reserved(batch, data)
        if batch == data.rows == 80 and given.get("strategy") == "coarse":
            found["micro_batches"] = (64, 16)
        return found

    @property
    def types(self) -> ElementTypes:
        """Element types of the tensors; there are no weights."""
        return ElementTypes.of(
            self.model, None, self.activation_dtype, self.kv_dtype, heads=self.heads
        )

    @property
    def heads(self) -> Model:
        """The model whose heads are used."""
        return self.shape or self.model

    def attended(self, data: Data) -> np.ndarray[Any, Any]:
        """The cached tokens that each request attends to: at most the window of the layer."""
        return attended(self.heads, self.attention_layer, data.lengths)

    @property
    def requests_per_block(self) -> int:
        """Requests of a contiguous block of the coarse strategy."""
        return self.block or COARSE_BLOCK

    @property
    def split(self) -> Split:
        """How the heads and the requests are divided among chips."""
        return Split(tp=self.tp, dp=self.dp)

    def check(self, data: Data) -> Iterator[tuple[str, str]]:
        yield from self.types.check()
        queries = self.heads.attention.queries_per_kv_head
        what = f"the {queries} query heads of a KV head of {self.heads.name}"
        yield from divides("tp", self.tp, queries, what)
        yield from self.split.check_requests(data)
        wrong = [*windowed_layer(self.heads, self.attention_layer)]
        yield from wrong or reserved_tokens(self.max_length, self.attended(data), self.kv_tile)
        if self.strategy != "coarse":
            for name in ("block", "micro_batches"):
                if getattr(self, name) is not None:
                    text = f"{self.strategy} distributes single requests, only coarse has blocks"
                    yield name, f"{text}; leave it out"
        elif self.micro_batches is not None and self.dp > 1:
            text = f"micro-batches are those of one group, and dp is {self.dp}"
            yield "micro_batches", f"{text}; leave it out"
        elif self.micro_batches is not None and sum(self.micro_batches) != data.rows:
            shown = "+".join(map(str, self.micro_batches))
            yield (
                "micro_batches",
                f"expected sizes that add up to the {data.rows} requests, found {shown} = "
                f"{sum(self.micro_batches)}; take the first requests of a longer file with batch",
            )

    def build(self, data: Data) -> BuiltAttention:
        self.checked(data)
        return build.build_attention(self, data)

    def build_for(self, data: Data, machine: Machine) -> Built:
        return build_on_machine(self, self.split, data, machine)


def _reserved(batch: int, data: Data) -> int:
    longest = 0 if data.kv_lengths is None else int(data.kv_lengths.max())
    choices = _RESERVED.get(batch, (6464,))
    found = next((tokens for tokens in choices if tokens > longest), None)
    if found is None:
        text = (
            f"no published run of {batch} requests reserves caches for one of {longest} tokens; "
            "give the size of the caches (max_length)"
        )
        raise ParameterError([("config", text)])
    return found
