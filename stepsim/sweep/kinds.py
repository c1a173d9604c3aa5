"""The workloads that a sweep knows: their parameters, checks, programs and symbolic totals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepsim.errors import ArgError, SweepError
from stepsim.graph import Program
from stepsim.machine import Machine
from stepsim.sweep.decoder_kind import (
    DecoderShape,
    check_decoder_point,
    custom_shape,
    decoder_parameters,
    decoder_work,
    find_decoder_shape,
    named_shape,
)
from stepsim.sweep.problems import SeveralProblems, describe
from stepsim.workloads import (
    ATTENTION_SHAPES,
    MOE_DEFAULTS,
    MOE_SHAPES,
    AttentionShape,
    MoEShape,
    attention,
    moe_layer,
    published_moe_config,
    swiglu_layer,
    time_multiplexed_moe,
)
from stepsim.workloads.attention import check_arguments, reserved_tokens
from stepsim.workloads.moe import check_layer
from stepsim.workloads.time_multiplexing import check_regions

__all__ = [
    "Built",
    "Shape",
    "build",
    "check_point",
    "find_shape",
    "parameter_problems",
    "program_size",
    "resolve_parameters",
]

_USUAL_BATCH = 64

Shape = MoEShape | AttentionShape | DecoderShape | None
_Count = Annotated[int, Field(strict=True, ge=1, le=1 << 40)]


class _Common(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    fifo_depth: _Count | None = Field(default=None, description="tokens each FIFO holds")


class _Parameters(_Common):
    compute_bw: _Count | None = Field(default=None, description="FLOPs per cycle of one operator")


class _Moe(_Parameters):
    tile: _Count | Literal["dynamic"] = Field(description="rows per tile, or 'dynamic'")
    tile_inter: _Count | None = Field(default=None, description="columns per inner tile")
    regions: _Count | None = Field(default=None, description="regions that experts share")
    pack_bw: _Count | None = Field(default=None, description="FLOPs per cycle of packing")
    config: Literal["published"] | None = Field(
        default=None, description="'published' sets the rest as the published experiments did"
    )


class _Attention(_Parameters):
    strategy: Literal["coarse", "interleaved", "dynamic"] = Field(
        default="dynamic", description="how requests are shared among regions"
    )
    regions: _Count = Field(default=4, description="parallel regions")
    kv_tile: _Count = Field(default=32, description="tokens per tile of the cache")
    max_length: _Count | None = Field(default=None, description="tokens reserved per request")


class _Swiglu(_Parameters):
    batch: _Count = Field(description="rows of the activations")
    hidden: _Count = Field(description="width of the activations")
    intermediate: _Count = Field(description="width of the inner layer")
    tile: _Count = Field(description="rows per tile")
    tile_inter: _Count = Field(description="columns per inner tile")
    par_dispatch: _Count = Field(default=4, description="off-chip requests per cycle")


class _Decoder(_Common):
    variant: Literal["memory-matched", "performance-matched", "dynamic"] | None = Field(
        default=None, description="of the published figure; sets what is not given"
    )
    tile: _Count | Literal["dynamic"] | None = Field(
        default=None, description="rows per tile of the experts, or 'dynamic'"
    )
    tile_inter: _Count | None = Field(default=None, description="columns per inner tile")
    strategy: Literal["interleaved", "dynamic"] | None = Field(
        default=None, description="how requests are shared among regions"
    )
    attention: str | None = Field(default=None, description="model whose attention it has")
    expert_regions: _Count | None = Field(default=None, description="regions that experts share")
    attention_regions: _Count | None = Field(default=None, description="regions of attention")
    kv_tile: _Count | None = Field(default=None, description="tokens per tile of the cache")
    max_length: _Count | None = Field(default=None, description="tokens reserved per request")
    moe_bw: _Count | None = Field(default=None, description="FLOPs per cycle, experts")
    attention_bw: _Count | None = Field(default=None, description="FLOPs per cycle, attention")
    qkv_bw: _Count | None = Field(default=None, description="FLOPs per cycle, QKV generation")


_MODELS: Mapping[str, type[_Common]] = {
    "moe": _Moe,
    "attention": _Attention,
    "swiglu": _Swiglu,
    "decoder": _Decoder,
}


@dataclass(frozen=True, slots=True)
class Built:
    """A program ready to be prepared.

    Attributes
    ----------
    bindings : of the program, made from a trace's inputs.
    symbols : what binds the symbolic metrics, made from a trace's inputs.
    on_demand : whether the symbolic metrics count only what the trace uses.
    published_compute : allocated compute in the published convention, from that of all operators;
        None where they are the same.
    """

    program: Program
    bindings: Callable[[Any], dict[Any, Any]]
    symbols: Callable[[Any], Mapping[Any, Any]]
    on_demand: bool = False
    published_compute: Callable[[int], int] | None = None


def find_shape(workload: str, model: str | Mapping[str, Any] | None) -> Shape:
    """The model of a specification.

    Raises
    ------
    SweepError
        It is missing, unknown, or an invalid shape.
    """
    if workload == "swiglu":
        if model is not None:
            raise SweepError("model: workload swiglu has none, its sizes are parameters; remove it")
        return None
    if workload == "decoder":
        return find_decoder_shape(model)
    if isinstance(model, Mapping):
        kind = MoEShape if workload == "moe" else AttentionShape
        return custom_shape(kind, model, "model")  # type: ignore[no-any-return]
    shapes: Mapping[str, Any] = MOE_SHAPES if workload == "moe" else ATTENTION_SHAPES
    return named_shape(workload, model, shapes)  # type: ignore[no-any-return]


def parameter_problems(workload: str, given: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with single parameters of a design point: unknown, missing, mistyped."""
    try:
        _MODELS[workload].model_validate(dict(given))
    except ValidationError as error:
        found = (text.partition(": ") for text in describe(error, _MODELS[workload]))
        return {name: text for name, _, text in found}
    return {}


def resolve_parameters(
    workload: str,
    given: Mapping[str, Any],
    shape: Shape,
    machine: Machine,
    batches: Collection[int] = (),
) -> dict[str, Any]:
    """Parameters of one design point; what is not given is as in ``stepsim run``.

    ``batches`` are the sizes of those that are run, which published experiments depend on.

    Raises
    ------
    SweepError
        They do not go together, or there is no such experiment; see also `parameter_problems`.
    """
    problems = parameter_problems(workload, given)
    if problems:
        raise SeveralProblems([f"{name}: {text}" for name, text in problems.items()])
    found = _MODELS[workload].model_validate(dict(given))
    values = found.model_dump()
    # Presets leave the depth open, so one in the machine was put there for these runs.
    if values["fifo_depth"] is None:
        values["fifo_depth"] = machine.fifo.depth
    if workload == "moe":
        return _moe_defaults(values, shape, batches)
    if isinstance(shape, DecoderShape):
        return decoder_parameters(values, shape)
    fallback = {"attention": (2048, 1), "swiglu": (4096, 1)}[workload]
    for name, default in zip(("compute_bw", "fifo_depth"), fallback, strict=True):
        values[name] = default if values[name] is None else values[name]
    return values


def _moe_defaults(values: dict[str, Any], shape: Shape, batches: Collection[int]) -> dict[str, Any]:
    assert isinstance(shape, MoEShape)
    published = values.pop("config") == "published"
    if values["regions"] is not None and values["pack_bw"] is not None:
        raise SweepError("pack_bw: regions pack with compute_bw; remove it")
    known = _published(values, shape, batches) if published else {}
    merged = {k: known.get(k, MOE_DEFAULTS.get(k)) if v is None else v for k, v in values.items()}
    if merged["pack_bw"] is None:
        merged["pack_bw"] = merged["compute_bw"]
    return merged


def _published(
    values: Mapping[str, Any], shape: MoEShape, batches: Collection[int]
) -> Mapping[str, Any]:
    tile, regions = values["tile"], values["regions"]
    sizes = batches or (_USUAL_BATCH,)
    try:
        known = [published_moe_config(shape, batch, tile, regions) for batch in sizes]
    except ArgError as error:
        raise SweepError(f"config: {error}") from None
    depths = sorted({one["fifo_depth"] for one in known})
    if values["fifo_depth"] is None and len(depths) > 1:
        raise SweepError(
            "config: the published experiments with these numbers of tokens have "
            f"different fifo_depth, {' and '.join(map(str, depths))}; give fifo_depth, or select "
            "batches of one size"
        )
    return known[0]


def check_point(workload: str, shape: Shape, parameters: Mapping[str, Any], data: Any) -> None:
    """Check a design point against the batch of a trace, without building its program.

    Raises
    ------
    ArgError
        A size does not divide, or the like.
    """
    p = parameters
    if isinstance(shape, MoEShape):
        check_layer(workload, shape, len(data), p["tile"], p["tile_inter"])
        if p["regions"] is not None:
            check_regions(workload, shape, p["regions"])
    elif isinstance(shape, AttentionShape):
        check_arguments(workload, len(data), p["strategy"], p["regions"], p["kv_tile"])
        reserved_tokens(workload, data, p["kv_tile"], p["max_length"])
    elif isinstance(shape, DecoderShape):
        check_decoder_point(shape, p, data)
    else:
        swiglu_layer(**p)


def build(workload: str, shape: Shape, parameters: Mapping[str, Any], data: Any) -> Built:
    """The program of a design point; it serves every trace of which `program_size` is the same."""
    p = dict(parameters)
    if isinstance(shape, DecoderShape):
        layer = decoder_work(shape, p, data)
        return Built(
            layer.program,
            lambda inputs: {layer.routing: inputs[0]},
            lambda inputs: {layer.routing: inputs[0], **layer.symbols},
            published_compute=layer.published_compute,
        )
    if isinstance(shape, MoEShape):
        return _moe(shape, p, len(data))
    if isinstance(shape, AttentionShape):
        work = attention(shape, np.asarray(data), **p)
        return Built(work.program, lambda _: {}, lambda _: work.symbols)
    return Built(swiglu_layer(**p).program, lambda _: {}, lambda _: {})


def program_size(shape: Shape, data: Any) -> bytes | int | None:
    """What of a trace decides the program: the lengths for attention, else the number of tokens."""
    if isinstance(shape, DecoderShape):
        return np.asarray(data[1]).tobytes()
    if isinstance(shape, AttentionShape):
        return np.asarray(data).tobytes()
    return None if data is None else len(data)


def _moe(shape: MoEShape, p: dict[str, Any], batch: int) -> Built:
    regions = p.pop("regions")
    if regions is None:
        work = moe_layer(shape, batch, **p)
        on_demand = work.is_dynamic
    else:
        p.pop("pack_bw")
        work = time_multiplexed_moe(shape, batch, regions=regions, **p)
        on_demand = True

    def bind(data: Any) -> dict[Any, Any]:
        return {work.routing: data}

    return Built(work.program, bind, bind, on_demand)
