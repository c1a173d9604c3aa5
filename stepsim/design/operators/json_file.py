"""Operator graphs as JSON files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stepsim.design.operators.types import Dim, Index, Op, Operand, Tensor, Tiling
from stepsim.documents import parse_json
from stepsim.errors import CompileError

if TYPE_CHECKING:
    from stepsim.design.operators.graph import OperatorGraph

_FORMAT = "stepsim operator graph 1"
_MOST_VALUES = 1_000_000


def written(graph: OperatorGraph) -> str:
    """The graph as JSON, an operator or tensor on each line."""
    parts = {
        "format": json.dumps(_FORMAT),
        "name": json.dumps(graph.name),
        "attributes": json.dumps(dict(graph.attributes)),
        "tensors": _lines(
            [[t.name, t.role, t.dtype, list(t.shape)] for t in graph.tensors.values()]
        ),
        "ops": _lines([_op(op) for op in graph.ops]),
    }
    inside = ",\n".join(f"{json.dumps(name)}: {text}" for name, text in parts.items())
    return f"{{\n{inside}\n}}\n"


def _lines(rows: list[Any]) -> str:
    return "[\n" + ",\n".join(" " + json.dumps(row, allow_nan=True) for row in rows) + "\n]"


def _op(op: Op) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": op.name,
        "kind": op.kind,
        "dims": [[dim.name, dim.size, dim.kind] for dim in op.dims],
        "inputs": [_operand(operand) for operand in op.inputs],
        "output": _operand(op.output),
    }
    optional = {
        "body": _expression(op.body),
        "combine": op.combine,
        "attributes": dict(op.attributes),
        "where": op.where,
        "tiling": op.tiling and [dict(op.tiling.tile), list(op.tiling.order), op.tiling.unroll],
    }
    return made | {name: value for name, value in optional.items() if value}


def _operand(operand: Operand) -> list[Any]:
    return [operand.tensor, [[list(map(list, i.terms)), i.offset] for i in operand.access]]


def _expression(body: Any) -> Any:
    if isinstance(body, tuple):
        return [_expression(part) for part in body]
    return str(body) if isinstance(body, float) and abs(body) == float("inf") else body


def read(text: str, where: str, make: type[OperatorGraph]) -> OperatorGraph:
    """The graph of a text that :func:`written` made.

    Raises
    ------
    CompileError : there is no such file, it is not JSON, or the graph is not well formed.
    """
    data = parse_json(text, where, CompileError, most_values=_MOST_VALUES).data
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        found = data.get("format") if isinstance(data, dict) else data
        raise CompileError(f"{where}: expected format '{_FORMAT}', found {found!r}")
    place = "the head"
    try:
        unknown = set(data) - {"format", "name", "attributes", "tensors", "ops"}
        if unknown:
            raise CompileError(f"{where}: unknown key '{min(unknown)}'; remove it")
        tensors = {}
        for i, (name, role, dtype, shape) in enumerate(data["tensors"]):
            place = f"tensor {i}"
            tensors[name] = Tensor(name, tuple(shape), dtype, role)
        ops = []
        for i, row in enumerate(data["ops"]):
            place = f"operator {i}"
            ops.append(_op_of(row))
        place = "the graph"
        return make(data["name"], tensors, tuple(ops), data["attributes"])
    except CompileError as error:
        raise CompileError(f"{where}: {error}" if where not in str(error) else str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CompileError(
            f"{where}: {place} is not written as OperatorGraph.to_json does "
            f"({type(error).__name__}: {error}); write the file again"
        ) from None


def _op_of(row: dict[str, Any]) -> Op:
    known = {"name", "kind", "dims", "inputs", "output", "body", "combine", "attributes", "where",
             "tiling"}  # fmt: skip
    if set(row) - known:
        raise CompileError(f"an operator has an unknown key '{min(set(row) - known)}'; remove it")
    tiling = row.get("tiling")
    return Op(
        row["name"],
        row["kind"],
        tuple(Dim(name, size, kind) for name, size, kind in row["dims"]),
        tuple(_operand_of(one) for one in row["inputs"]),
        _operand_of(row["output"]),
        _expression_of(row["body"]) if "body" in row else None,
        row.get("combine"),
        row.get("attributes", {}),
        row.get("where", ""),
        None if tiling is None else Tiling(tiling[0], tuple(tiling[1]), tiling[2]),
    )


def _operand_of(row: Any) -> Operand:
    tensor, access = row
    return Operand(
        tensor, tuple(Index(tuple((dim, n) for dim, n in terms), at) for terms, at in access)
    )


def _expression_of(body: Any) -> Any:
    if isinstance(body, list):
        if len(body) == 2 and body[0] == "const":
            return ("const", float(body[1]))
        return tuple(_expression_of(part) for part in body)
    return body
