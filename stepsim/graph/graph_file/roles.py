"""References in the fields of an operator: producers of its inputs, types of its streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from stepsim.graph.graph_file.fields import fields_of

MANY: Final = (
    "Broadcast", "FlatPartition", "Parallelize", "EagerMerge", "Shuffle", "ReshapePadStream",
)  # fmt: skip
"""Operators whose readers state the number of the output, even if there is only one."""

_SINKS: Final = ("OffChipStore", "DynOffChipStore", "PrinterContext", "ConsumerContext")
_OWN_OUTPUT: Final = (
    "LinearOffChipLoad", "LinearOffChipLoadRef", "DynLinearOffChipLoad", "RandomOffChipLoad",
    "MetadataGen", "SelectGen", "Counter", "Counter2D",
)  # fmt: skip
_FIRST: Final = ("dtype", "dtype_a", "input_dtype")
_RESULT: Final = ("dtype_out", "output_dtype")
READ_BUFFERS: Final = ("Streamify", "StaticStreamify", "DynStreamify")
"""Operators that read tiles from buffers, and state the type of the tiles."""


@dataclass(frozen=True, slots=True)
class InputField:
    """Fields that name the producer of an input and its output; lists are for several inputs."""

    id: str
    output: str
    is_list: bool
    optional: bool


@cache
def inputs_of(generation: str, operator: str) -> tuple[InputField, ...]:
    """The inputs of an operator, in order."""
    fields = {f.name: f for f in fields_of(generation, operator)}
    found = []
    for name, field in fields.items():
        if name == "input_id_list":
            found.append(InputField(name, "input_stream_idx_list", True, False))
        elif name.startswith("input_id"):
            end = name.removeprefix("input_id")
            both = (f"input_stream_idx{end}", f"stream_idx{end}")
            output = next(n for n in both if n in fields)
            found.append(InputField(name, output, False, field.optional))
        elif name.endswith("_id"):
            found.append(InputField(name, f"{name[:-3]}_stream_idx", False, field.optional))
    return tuple(found)


def count_outputs(operator: str, message: Any) -> int:
    """Number of output streams of an operator."""
    if operator in ("Broadcast", "FlatPartition", "Parallelize"):
        return int(message.num_consumers)
    if operator in _SINKS:
        return 0
    if operator == "ReshapePadStream":
        return 2 if message.have_pad_stream else 1
    return 2 if operator in ("EagerMerge", "Shuffle") else 1


def type_roles(generation: str, operator: str) -> Iterator[tuple[str, str, int]]:
    """Fields that state a type: name, ``in`` or ``out``, and number of the input or output."""
    for field in fields_of(generation, operator):
        if field.type != "DataType":
            continue
        name = field.name
        result = name in _RESULT or (name == "dtype" and operator in _OWN_OUTPUT)
        state = name == "dtype_b" and operator == "Accum"
        if operator in READ_BUFFERS and name in _FIRST:
            result = True
        reference = name == "ref_dtype" and operator in _OWN_OUTPUT
        if result or state:
            yield name, "out", 0
        else:
            yield name, "in", 0 if name in _FIRST or reference else -1
