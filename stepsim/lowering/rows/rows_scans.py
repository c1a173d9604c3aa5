"""Rows of the registry: additional scans and reductions, and maps that produce or consume
selectors."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Final

from stepsim.graph import ACCUMULATIONS
from stepsim.kernels import kept_words
from stepsim.kernels.units import scans, selectors
from stepsim.lowering.rows.functions import reduction
from stepsim.lowering.rows.row import Parameters, Row, refused

if TYPE_CHECKING:
    from stepsim.lowering.builder import ImageBuilder
    from stepsim.lowering.network import UnitSpec

_states = reduction(ACCUMULATIONS)


def _of_states(builder: ImageBuilder, spec: UnitSpec) -> dict[str, Any]:
    """The parameters of every unit with states; only its first input carries elements."""
    return dict(_states(builder, spec._replace(inputs=spec.inputs[:1])))


def _second(
    builder: ImageBuilder,
    spec: UnitSpec,
    first: Mapping[str, Any],
    record: Mapping[str, Any] | None,
) -> dict[str, int]:
    """The second function of a unit, placed after the memory of the first."""
    if record is None:
        return dict.fromkeys(
            ("second", "second_operands", "second_results", "second_tiles", "second_scratch"), 0
        )
    at, function = builder.function(spec, record)
    if function.states:
        raise refused(spec, f"its second function has {function.states} states, expected none")
    if function.has_flops and first["compute_bandwidth"] < 1:
        raise refused(
            spec, "compute bandwidth is 0 FLOPs per cycle; its second function needs 1 or more"
        )
    builder.private_words(kept_words(function.operands, function.results))
    return {
        "second": at,
        "second_operands": function.operands,
        "second_results": function.results,
        "second_tiles": builder.add_slots(function.results),
        "second_scratch": kept_words(first["operands"], first["states"]),
    }


def _scan(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    params = spec.params
    record = params["second"]
    exclusive, counted = bool(params["exclusive"]), bool(params["counted"])
    inputs = 1 + (record is not None) + counted
    if len(spec.inputs) != inputs:
        raise refused(spec, f"{len(spec.inputs)} inputs, expected {inputs}")
    if len(spec.outputs) > 2:
        raise refused(spec, f"{len(spec.outputs)} outputs, expected 1 or 2")
    if len(spec.outputs) == 2 and (exclusive or record is not None):
        raise refused(spec, "two outputs cannot be combined with exclusive or a second function")
    found = _of_states(builder, spec)
    second = _second(builder, spec, found, record)
    least = 1 + found["states"]
    if record is not None and second["second_operands"] < least:
        raise refused(
            spec,
            f"its second function takes {second['second_operands']} operands, expected {least} or "
            "more: an element and the states",
        )
    return {**found, **second, "exclusive": int(exclusive), "counted": int(counted)}


def _row_stat(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    found = _of_states(builder, spec)
    second = _second(builder, spec, found, spec.params["finish"])
    if second["second_operands"] != found["states"]:
        raise refused(
            spec,
            f"its last step takes {second['second_operands']} operands, expected the "
            f"{found['states']} states",
        )
    return {**found, **second}


def _accum_buffer(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    dims = [int(dim) for dim in spec.params["dims"]]
    if not dims or min(dims) < 1:
        raise refused(spec, f"buffer dims {dims}, expected at least one, each from 1")
    found = _of_states(builder, spec)
    if found["states"] != 1:
        raise refused(
            spec, f"its function has {found['states']} states, a buffer holds one per place"
        )
    return {**found, "places": prod(dims), "dim_count": len(dims), "dims": dims}


_MOST_SETS: Final = 12
"""Most flags of selectors of which an image lists all sets."""

_OPERATIONS: Final = {
    "IndexToMultiHot": selectors.FROM_NUMBER,
    "IntegerToMultiHot": selectors.FROM_NUMBER,
    "MultiHotToInteger": selectors.TO_NUMBER,
    "SelectToScalar": selectors.TO_INDEX,
    "Not": selectors.NOT,
    "And": selectors.AND,
    "Or": selectors.OR,
    "Xor": selectors.XOR,
}
_PAIRS: Final = ("And", "Or", "Xor")


def _selector_map(builder: ImageBuilder, spec: UnitSpec) -> Parameters:
    name, width = spec.params["fn"], int(spec.params["width"])
    if name not in _OPERATIONS:
        raise refused(
            spec, f"unknown function {name!r}; known are {', '.join(sorted(_OPERATIONS))}"
        )
    expected = 2 if name in _PAIRS else 1
    if len(spec.inputs) != expected:
        raise refused(spec, f"{len(spec.inputs)} inputs, expected {expected}")
    listed: list[tuple[int, ...]] = []
    most = selectors.MOST_FLAGS if name == "MultiHotToInteger" else 1 << 15
    if name == "IndexToMultiHot":
        listed = [(i,) for i in range(width)]
    elif name not in ("MultiHotToInteger", "SelectToScalar"):
        most = _MOST_SETS
        if width <= most:
            sets = range(1 << width)
            listed = [tuple(i for i in range(width) if flags >> i & 1) for flags in sets]
    if not 1 <= width <= most:
        raise refused(spec, f"selectors of {width} flags, expected 1..{most}")
    return {
        "operation": _OPERATIONS[name],
        "width": len(listed) if "ToMultiHot" in name else width,
        "cycles": int(spec.params["cycles"]),
        "write_back": int(spec.params["wb"]),
        "flags": width,
        "entries": len(listed),
        "ids": [builder.selector_id(width, chosen) for chosen in listed],
    }


SCAN_UNITS: Final[Mapping[str, Row]] = {
    "GeneralScan": Row(scans.SCAN_FORMS, _scan),
    "AccumRowStat": Row(scans.ROW_STAT, _row_stat),
    "AccumBuffer": Row(scans.ACCUM_BUFFER, _accum_buffer),
    "SelectorMap": Row(selectors.SELECTOR_MAP, _selector_map),
}
"""Units of the public simulator of 2026."""
