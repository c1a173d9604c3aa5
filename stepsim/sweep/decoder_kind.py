"""The decoder layer as a sweep knows it: experts on a routing, attention on cache lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepsim.errors import ArgError, SweepError
from stepsim.machine.problems import did_you_mean
from stepsim.workloads import (
    ATTENTION_SHAPES,
    MOE_SHAPES,
    AttentionShape,
    DecoderWorkload,
    MoEShape,
    decoder_layer,
)
from stepsim.workloads.attention import checked_lengths
from stepsim.workloads.decoder import check_decoder, decoder_arguments

__all__ = [
    "DecoderShape",
    "check_decoder_point",
    "custom_shape",
    "decoder_parameters",
    "decoder_work",
    "find_decoder_shape",
    "named_shape",
]

Inputs = tuple[Any, Any]
"""Expert ids ``[requests, k]`` and cache lengths ``[requests]``."""


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """The two halves of a model; ``attention`` None is what each design point names."""

    moe: MoEShape
    attention: AttentionShape | None = None

    @property
    def name(self) -> str:
        return self.moe.name


def decoder_parameters(values: Mapping[str, Any], shape: DecoderShape) -> dict[str, Any]:
    """Parameters of one design point with what the variant and the defaults set.

    Raises
    ------
    SweepError
        One is missing, or there is no such variant or attention.
    """
    given = dict(values)
    variant = given.pop("variant")
    if shape.attention is not None:
        for name in ("variant", "attention"):
            if values[name] is not None:
                raise SweepError(f"{name}: is for models that are known by name; remove it")
    try:
        found = decoder_arguments(shape.name, given, variant)
    except ArgError as error:
        raise SweepError(f"variant: {error}") from error
    for name in ("tile", "strategy"):
        if name not in found:
            raise SweepError(
                f"{name}: missing; give tile and strategy, or a variant of the published figure"
            )
    if shape.attention is not None:
        found["attention"] = None
    elif found["attention"] not in ATTENTION_SHAPES:
        known = sorted(ATTENTION_SHAPES)
        raise SweepError(
            f"attention: unknown model '{found['attention']}'"
            f"{did_you_mean(found['attention'], known)} Known: {', '.join(known)}"
        )
    del found["moe"]
    return {"variant": variant, **found}


def check_decoder_point(shape: DecoderShape, parameters: Mapping[str, Any], inputs: Inputs) -> None:
    """Check parameters against a batch, without building the program.

    Raises
    ------
    ArgError
        A size does not divide, or the like.
    """
    names = (
        "tile", "tile_inter", "strategy", "expert_regions", "attention_regions", "kv_tile",
        "max_length",
    )  # fmt: skip
    check_decoder(
        shape.moe,
        _heads(shape, parameters),
        checked_lengths("decoder", inputs[1]),
        **{name: parameters[name] for name in names},
    )


def decoder_work(
    shape: DecoderShape, parameters: Mapping[str, Any], inputs: Inputs
) -> DecoderWorkload:
    """The layer for the lengths of a batch; its routing stays to be bound."""
    arguments = {k: v for k, v in parameters.items() if k not in ("variant", "attention")}
    heads = _heads(shape, parameters)
    return decoder_layer(shape.moe, heads, np.asarray(inputs[1]), **arguments)


def find_decoder_shape(model: str | Mapping[str, Any] | None) -> DecoderShape:
    """The model of a specification: a name, or a mapping with the shapes of both halves.

    Raises
    ------
    SweepError
        It is missing, unknown, or an invalid shape.
    """
    if not isinstance(model, Mapping):
        return DecoderShape(named_shape("decoder", model, MOE_SHAPES))
    if set(model) != {"moe", "attention"}:
        raise SweepError(
            f"model: found keys {', '.join(map(str, model)) or 'none'}; the shape of a decoder has "
            "the keys moe and attention"
        )
    return DecoderShape(
        custom_shape(MoEShape, model["moe"], "model.moe"),
        custom_shape(AttentionShape, model["attention"], "model.attention"),
    )


def named_shape(workload: str, model: str | None, shapes: Mapping[str, Any]) -> Any:
    """A shape that is known by name.

    Raises
    ------
    SweepError
        The name is missing or unknown.
    """
    known = ", ".join(sorted(shapes))
    if model is None:
        raise SweepError(f"model: missing; workload {workload} knows {known}")
    if model not in shapes:
        raise SweepError(
            f"model: unknown model '{model}'{did_you_mean(model, sorted(shapes))} Known: {known}"
        )
    return shapes[model]


def custom_shape(kind: Any, sizes: Any, where: str) -> Any:
    """A shape from a mapping of its sizes.

    Raises
    ------
    SweepError
        A size is missing, unknown or out of range.
    """
    keys = ", ".join(kind.__dataclass_fields__)
    if not isinstance(sizes, Mapping):
        raise SweepError(
            f"{where}: expected a mapping, found {sizes!r}; a shape has the keys {keys}"
        )
    try:
        return kind(**{"name": "custom", **sizes})
    except (TypeError, ArgError) as error:
        text = str(error).replace(f"{kind.__name__}.__init__() ", "")
        raise SweepError(f"{where}: {text}; a shape has the keys {keys}") from error


def _heads(shape: DecoderShape, parameters: Mapping[str, Any]) -> AttentionShape:
    found: AttentionShape = shape.attention or ATTENTION_SHAPES[parameters["attention"]]
    return found
