"""Rows of units that the public simulator has had since 2026, and of those whose rules changed
then.

Where the rules differ in time, the model of the machine chooses between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Final

from stepsim.kernels import INFINITY
from stepsim.kernels.units import (
    fixed_order,
    flatmaps,
    references,
    routing,
    row_filter,
    shape,
    shuffle,
)
from stepsim.lowering.rows.row import (
    Encoder,
    Parameters,
    Row,
    at_least,
    no_parameters,
    refused,
    switch_costs,
)

if TYPE_CHECKING:
    from stepsim.lowering.builder import ImageBuilder
    from stepsim.lowering.network import UnitSpec


def _ports(spec: UnitSpec, side: str, *wanted: int) -> None:
    """Check that the unit has one of these numbers of inputs or outputs."""
    found = len(getattr(spec, side))
    if found not in wanted:
        raise refused(spec, f"{found} {side}, expected {' or '.join(map(str, wanted))}")


def _static_reassemble(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    costs = switch_costs(spec, len(spec.inputs))
    return {"rank": at_least(spec, "rank", 0), "switch_cycles": costs}


def _partition(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    rank = at_least(spec, "rank", 0)
    return {
        "rank": rank,
        "write_back": int(spec.params["wb"]),
        "drops_stops": int(rank == 0 and builder.timing.model == "step-2026"),
        "switch_cycles": switch_costs(spec, len(spec.outputs)),
    }


def _repeat(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    given = spec.params["f"]
    factors = [int(f) for f in given] if isinstance(given, list | tuple) else [int(given)]
    odd = next((f for f in factors if f < 1), None)
    if odd is not None:
        raise refused(spec, f"factor is {odd}, expected at least 1")
    if prod(factors) >= INFINITY:
        raise refused(spec, f"{prod(factors)} copies per token; fewer than 2**62 can be counted")
    return {
        "copies": prod(factors),
        "paced": int(builder.timing.model == "step-2026"),
        "factor_count": len(factors),
        "factors": factors,
    }


def _expand_ref(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {"inner_dims": int(spec.params["e"]), "whole": int(spec.params.get("whole", False))}


def _repeat_ref(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    return {"rank": at_least(spec, "rank", 0), "new_dims": at_least(spec, "e", 1)}


def _retile(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    by_row = int(spec.params["split_row"])
    chunk = spec.params.get("chunk")
    if chunk is not None and int(chunk) < 1:
        raise refused(spec, f"chunk is {chunk}, expected at least 1")
    return {
        "split_row": by_row,
        "drop_padding": int(spec.params["filter"]),
        "chunk": 1 if chunk is None else int(chunk),
        "upright": int(chunk is not None and not by_row),
    }


def _filter_rows(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    _ports(spec, "inputs", 1, 2)
    return {}


def _shuffle(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    width = at_least(spec, "width", 1)
    return {
        "rank": at_least(spec, "rank", 1),
        "write_back": int(spec.params["wb"]),
        "buckets": width,
        "markers": [builder.selector_id(width, (i,)) for i in range(width)],
    }


def _reshape(masks: bool) -> Encoder:
    def encode(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
        _ports(spec, "outputs", 2 if masks else 1)
        params = spec.params
        pad = params.get("pad")
        if pad is not None:
            tile = [pad[0], pad[1], params["bpe"], int(params.get("wb", False)), 0]
            builder.set_private(spec, "pad", {"tile": tile})
        if int(params["q"]) < 1:
            raise refused(spec, f"chunk is {params['q']}, expected at least 1")
        return {
            "dim": int(params["s"]),
            "chunk": int(params["q"]),
            "has_pad": int(pad is not None),
            "input_rank": int(params.get("ri", 0)),
            "outer": int(params.get("outer", False)),
        }

    return encode


ROWS_2026: Final[Mapping[str, Row]] = {
    "RepeatStatic": Row(shape.REPEAT, _repeat),
    "ExpandRef": Row(shape.EXPAND_REF, _expand_ref),
    "Reshape": Row(shape.RESHAPE, _reshape(masks=False)),
    "ReshapePadStream": Row(shape.RESHAPE, _reshape(masks=True)),
    "RetileStreamify": Row(flatmaps.RETILE, _retile),
    "Partition": Row(routing.PARTITION, _partition),
    "StaticReassemble": Row(fixed_order.STATIC_REASSEMBLE, _static_reassemble),
    "ContextDeinterleave": Row(fixed_order.DEINTERLEAVE, no_parameters),
    "ContextInterleave": Row(fixed_order.INTERLEAVE, no_parameters),
    "PromoteOuter": Row(references.PROMOTE_OUTER, no_parameters),
    "RepeatRef": Row(references.REPEAT_REF, _repeat_ref),
    "TakeLast": Row(references.TAKE_LAST, no_parameters),
    "Shuffle": Row(shuffle.SHUFFLE, _shuffle),
    "FlatmapFilterRowStreamify": Row(row_filter.FILTER_ROWS, _filter_rows),
}
