"""``Program.to_graph``: a program in the public graph format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from stepsim.arguments import flag
from stepsim.atomic import replacing
from stepsim.errors import GraphFileError
from stepsim.graph.graph_file.closing import check_ends
from stepsim.graph.graph_file.element_types import put_type
from stepsim.graph.graph_file.messages import schema_of
from stepsim.graph.graph_file.numbers import Numbers, numbers_of
from stepsim.graph.graph_file.public_types import check_read, type_name
from stepsim.graph.graph_file.roles import MANY, inputs_of, type_roles
from stepsim.graph.graph_file.rows import ROWS, UNITS
from stepsim.graph.ops.shape.levels import Zip
from stepsim.graph.programs.chips import check_one_chip
from stepsim.graph.programs.program import Program
from stepsim.graph.rewrites.wiring import WiredUnit, Wiring, wire
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.types import MultiHot, TupleType

_NAMES_A = {
    "LinearOffChipLoad": "OffChipLoad",
    "LinearOffChipLoadRef": "DynOffChipLoad",
}
"""Names in generation A of operators that were renamed later."""


class Writing:
    """The operator being written.

    Attributes
    ----------
    unit, operator, params : the unit, the operator that it implements, and its parameters.
    arrays : selectors and integers of the graph so far, by file name.
    """

    def __init__(
        self, unit: WiredUnit, number: int, generation: str, stem: str, arrays: dict[str, Any]
    ) -> None:
        self.unit = unit
        self.operator: Any = unit.operator
        self.params = unit.params
        self.where = f"to_graph: {unit.name} ({unit.source})"
        self.arrays = arrays
        self._number = number
        self._generation = generation
        self._stem = stem

    def fail(self, what: str) -> NoReturn:
        raise GraphFileError(f"{self.where}: {what}")

    def require(self, ok: bool, what: str) -> None:
        if not ok:
            self.fail(what)

    def selectors(self) -> np.ndarray[Any, Any]:
        """Selectors of a source as flags ``[..., width]``."""
        width, chosen = self.params["width"], self.params["selectors"]
        flags = np.zeros((len(chosen), width), np.int64)
        for row, picked in zip(flags, chosen, strict=True):
            row[list(picked)] = 1
        shape = [int(d) for d in self.operator.outputs[0].shape]
        return flags.reshape(*shape, width)

    def is_multihot(self) -> bool:
        return isinstance(self.operator.outputs[0].type, MultiHot)

    def keep_array(self, array: np.ndarray[Any, Any], message: Any) -> None:
        """Keep an array to be written next to the graph, and name it in the message."""
        dims = self.operator.outputs[0].shape
        leads = dims[0] == 1 and len(dims) > 1
        self.state_shape(leads=leads)
        if hasattr(message, "tensor_shape_tiled"):
            message.tensor_shape_tiled.extend(int(d) for d in (dims[1:] if leads else dims))
        message.npy_path = f"{self._stem}_{self._number}.npy"
        self.arrays[message.npy_path] = array[0] if leads else array

    def state_shape(self, *, leads: bool) -> None:
        """Record the shape of a source whose stream has no outer dim of 1."""
        self.require(
            leads or self._generation != "A",
            "generation A of the format puts an outer dim of 1 before the dims of a source, which "
            "this one does not have; give it a shape that starts with 1, or write generation B",
        )


def to_graph(
    program: Program,
    path: str | Path | None = None,
    *,
    generation: str = "B",
    bindings: Mapping[Any, Any] | None = None,
    numbers: Mapping[str, Any] | str | Path | None = None,
    depths: bool = True,
    mock_bf16: bool = False,
) -> bytes:
    """See :meth:`Program.to_graph`."""
    mock_bf16 = flag("to_graph: mock_bf16", mock_bf16) or program.mock_bf16
    table = numbers_of(generation, numbers)
    schema = schema_of(table)
    _check_expressible(program, table)
    if depths and program.depths:
        op = program.operators[next(iter(program.depths))[0]]
        raise GraphFileError(
            f"to_graph: {op.title()} ({op.source}): the depth of its FIFO cannot be stored in "
            "the format; pass depths=False, and depths={id: depth} to load_graph"
        )
    wiring = wire(program, bindings)
    made_by = {fifo: (i, j) for i, u in enumerate(wiring.units) for j, fifo in enumerate(u.outputs)}
    graph = schema.new("ProgramGraph")
    graph.name = program.name
    arrays: dict[str, Any] = {}
    stem = "graph" if path is None else Path(path).stem
    for number in range(len(wiring.units)):
        put = graph.operators.add()
        _put_unit(put, number, wiring, made_by, table, stem, arrays, mock_bf16)
    check_ends(wiring)
    data: bytes = graph.SerializeToString(deterministic=True)
    if path is not None:
        _save(Path(path), data, arrays)
    return data


def _save(path: Path, data: bytes, arrays: Mapping[str, Any]) -> None:
    targets = [path, *(path.parent / name for name in arrays)]
    with replacing(*targets) as parts:
        for part, array in zip(parts[1:], arrays.values(), strict=True):
            with part.open("wb") as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
        parts[0].write_bytes(data)


def _check_expressible(program: Program, numbers: Numbers) -> None:
    """Report what the format does not have, before anything is written: chips, operators."""
    check_one_chip(program, f"to_graph: program '{program.name}'", GraphFileError)
    odd = []
    for op in program.operators:
        kind = UNITS.get(op.unit_kind)
        if op.loops_back() is None and (kind is None or kind not in numbers["operators"]):
            odd.append(op)
    if odd:
        names = ", ".join(op.called() for op in odd[:5])
        hint = (
            "; apply the function to both streams in place of zip()"
            if any(isinstance(op, Zip) for op in odd)
            else ""
        )
        place = f" ({odd[0].source})" if odd[0].source else ""
        raise GraphFileError(
            f"to_graph: generation {numbers.generation} of the format has no operator for {names}"
            f"{', ...' if len(odd) > 5 else ''}{hint}{place}"
        )


def _put_unit(
    put: Any,
    number: int,
    wiring: Wiring,
    made_by: Mapping[int, tuple[int, int]],
    numbers: Numbers,
    stem: str,
    arrays: dict[str, Any],
    mock_bf16: bool,
) -> None:
    unit = wiring.units[number]
    kind = UNITS[unit.kind]
    name = _NAMES_A.get(kind, kind) if numbers.generation == "A" else kind
    put.name, put.id = f"{name}_{number}", number
    message = getattr(put, kind)
    message.SetInParent()
    w = Writing(unit, number, numbers.generation, stem, arrays)
    _put_inputs(w, message, kind, wiring, made_by, numbers.generation)
    ROWS[kind].write(w, message)
    _put_types(w, message, kind, wiring, numbers, mock_bf16)
    if numbers.generation != "A":
        _put_shape(put, unit, wiring)


def _put_types(
    w: Writing, message: Any, kind: str, wiring: Wiring, numbers: Numbers, mock_bf16: bool
) -> None:
    """The types of the streams that the operator states."""
    elements = {}
    for field, side, index in type_roles(numbers.generation, kind):
        fifos = w.unit.inputs if side == "in" else w.unit.outputs
        if fifos:
            elements[field] = wiring.fifos[fifos[index]].stream.type
            if isinstance(elements[field], TupleType):
                w.fail("the format has no streams of tuples")
    names = [type_name(one, kind == "MetadataGen", mock_bf16, w.where) for one in elements.values()]
    check_read(kind, list(elements), names, w.where)
    for (field, element), name in zip(elements.items(), names, strict=True):
        put_type(getattr(message, field), name, element, numbers, w.where)


def _put_inputs(
    w: Writing,
    message: Any,
    kind: str,
    wiring: Wiring,
    made_by: Mapping[int, tuple[int, int]],
    generation: str,
) -> None:
    fields = inputs_of(generation, kind)
    left = list(w.unit.inputs)
    single = sum(not f.is_list and not f.optional for f in fields)
    for one in fields:
        if one.optional and not left:
            continue
        taken = left[: len(left) - single] if one.is_list else left[:1]
        del left[: len(taken)]
        for fifo in taken:
            source, output = made_by[fifo]
            many = UNITS[wiring.units[source].kind] in MANY
            if one.is_list:
                getattr(message, one.id).append(source)
                getattr(message, one.output).append(output if many else -1)
            else:
                setattr(message, one.id, source)
                if many:
                    setattr(message, one.output, output)
    assert not left


def _put_shape(put: Any, unit: WiredUnit, wiring: Wiring) -> None:
    """The shape of the output streams of a unit; dims in which they differ are dynamic."""
    shapes = [wiring.fifos[fifo].stream.shape for fifo in unit.outputs]
    if not shapes or len({len(shape) for shape in shapes}) > 1:
        return
    for dims in zip(*shapes, strict=True):
        dim: Dim = dims[0]
        one = put.stream_shape.add()
        if dim.is_static and all(d == dim for d in dims):
            one.static = int(dim)
        else:
            one.dynamic = str(dim.size)
