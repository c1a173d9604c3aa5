"""Plans as YAML: decisions to read, and the operator graph that they are about as JSON.

Consequences of the decisions (loops, typed ports, converters) are not in the text; the same passes
derive them again, so a plan cannot contradict itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stepsim.deferred import deferred
from stepsim.design.dataflow.graph import DataflowGraph, Dma, Edge, Kernel
from stepsim.design.dataflow.kernels import kernels_of
from stepsim.design.dataflow.untyped import Untyped
from stepsim.design.operators.graph import OperatorGraph, Tiling
from stepsim.design.passes.pipeline import without_tiles
from stepsim.design.plan.parts import GroupPlan, Measured, PlanParts, operators_digest
from stepsim.design.plan.reading import CURE, Reader
from stepsim.documents import load_yaml, parse_yaml
from stepsim.errors import CompileError, did_you_mean
from stepsim.itensor import AffineMap, Converter, ITensor, converter
from stepsim.machine import Machine
from stepsim.shown import shown
from stepsim.typed import check_fields

if TYPE_CHECKING:
    import yaml

    from stepsim.documents import Document
else:
    yaml = deferred("yaml")

FORMAT = "stepsim plan 1"

_HEAD = """\
# A compiled model: what was decided, and the operator graph that it was decided for. `stepsim run`,
# why, size and inspect take the folder of this file; st.design.Plan.load reads it.
"""

_KEYS = (
    "format", "provenance", "choices", "machine", "groups", "kernels", "edges", "dmas",
    "notes", "attributes", "digest", "operators",
)  # fmt: skip
_EDGE = ("shared", "depth", "depth_before", "vector", "folded", "memory")
"""What passes decide of an edge; the rest follows from the kernels."""

_KERNEL = ("name", "tile", "order", "unroll", "group", "die", "measured")
_WALK = ("element", "trips", "steps", "map", "dtype", "depth", "routing", "expert")

_MOST_BYTES, _MOST_VALUES = 8 << 20, 400_000
"""A block with 128 experts takes 0.8 MB."""

_P = TypeVar("_P", bound=PlanParts)


class _Literal(str):
    """A text that is written as it stands, line by line."""

    __slots__ = ()


def plan_text(plan: PlanParts) -> str:
    """The plan as YAML.

    Raises
    ------
    CompileError : the dataflow graph is not what its decisions give, so that the text would be
        another plan.
    """

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    Dumper.add_representer(
        _Literal, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, "|")
    )
    document = _document(plan)
    if _graph_of(Reader(document, {}, "plan"), plan.graph.operators.to_json()) != plan.graph:
        raise CompileError(
            f"plan of {plan.graph.name}: its dataflow graph is not what the passes make of its "
            "decisions, so its file would describe another plan; report this as a bug"
        )
    text: str = yaml.dump(
        document, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100,
        default_flow_style=None,
    )  # fmt: skip
    return _HEAD + text


def _document(plan: PlanParts) -> dict[str, Any]:
    graph = plan.graph
    return {
        "format": FORMAT,
        "provenance": dict(plan.provenance),
        "choices": _plain(plan.choices),
        "machine": plan.machine.to_dict(),
        "groups": [_plain(_fields(one)) for one in plan.groups],
        "kernels": [
            {
                "name": kernel.name,
                "tile": dict(kernel.op.tiling.tile) if kernel.op.tiling else {},
                "order": list(kernel.op.tiling.order) if kernel.op.tiling else [],
                "unroll": kernel.unroll,
                "group": kernel.group,
                "die": kernel.die,
                **(
                    {"measured": _fields(plan.measured[kernel.name])}
                    if kernel.name in plan.measured
                    else {}
                ),
            }
            for kernel in graph.kernels
        ],
        "edges": {
            edge.name: _plain({name: getattr(edge, name) for name in _EDGE}) | _buffers(edge)
            for edge in graph.edges
        },
        "dmas": [_dma(dma) for dma in graph.dmas],
        "notes": list(graph.notes),
        "attributes": _plain(graph.attributes),
        "digest": operators_digest(graph.operators),
        "operators": _Literal(without_tiles(graph.operators).to_json()),
    }


def _fields(made: Any) -> dict[str, Any]:
    return {one.name: getattr(made, one.name) for one in fields(made)}


def _plain(value: Any) -> Any:
    """Mappings and sequences as YAML has them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _buffers(owner: Edge | Dma) -> dict[str, int]:
    """How many buffers its converter has, where the pass `single_buffers` made it one."""
    found = owner.converter
    return {} if found is None or found.buffers == 2 else {"buffers": found.buffers}


def _with_buffers(found: Converter | None, given: Any) -> Converter:
    if found is None or found.kind == "fifo":
        raise CompileError("it has buffers, but no converter; drop the line")
    return replace(found, buffers=given)


_DMA = tuple(one.name for one in fields(Dma) if one.name not in ("walk", "converter"))


def _dma(dma: Dma) -> dict[str, Any]:
    walk = dma.walk
    return {
        **_plain({name: getattr(dma, name) for name in _DMA}),
        "walk": {
            "element": list(walk.element),
            "trips": list(walk.trips),
            "steps": list(walk.steps),
            "map": [[list(coefficients), at] for coefficients, at in walk.map.results],
            "dtype": walk.dtype,
            "depth": walk.depth,
            **(
                {"routing": walk.routing, "expert": walk.expert}
                if isinstance(walk, Untyped)
                else {}
            ),
        },
        "converter": dma.converter is not None,
        **_buffers(dma),
    }


def read_plan(path: Path, make: type[_P]) -> _P:
    """The plan of a file.

    Raises
    ------
    CompileError : it cannot be read, or as of :func:`plan_of`.
    """
    document = load_yaml(
        path, "plan", CompileError, CURE, most_bytes=_MOST_BYTES, most_values=_MOST_VALUES
    )
    return _made(document, f"plan {path}", make)


def plan_of(text: str, where: str, make: type[_P]) -> _P:
    """The plan of a text.

    Raises
    ------
    CompileError : it is damaged; the message has the line.
    """
    document = parse_yaml(text, where, CompileError, CURE, most_values=_MOST_VALUES)
    return _made(document, where, make)


def _made(document: Document, where: str, make: type[_P]) -> _P:
    reader = Reader(document.data, document.lines, where)
    reader.head(FORMAT, _KEYS)
    text = reader.get("operators", str)
    graph = _graph_of(reader, text)
    digest = operators_digest(graph.operators)
    if reader.get("digest", str) != digest:
        reader.refuse(
            "digest",
            f"expected the digest of the operators, {digest[:12]}..., found "
            f"{str(reader.data['digest'])[:12]}...: the operators were changed",
        )
    machine = reader.attempt("machine", lambda: Machine(**reader.get("machine", dict)))
    for i, row in enumerate(reader.get("kernels", list)):
        reader.known(f"kernels[{i}]", row, _KERNEL)
    measured = {
        row["name"]: reader.build(f"kernels[{i}].measured", Measured, row["measured"])
        for i, row in enumerate(reader.get("kernels", list))
        if "measured" in row
    }
    groups = tuple(
        reader.build(f"groups[{i}]", GroupPlan, row)
        for i, row in enumerate(reader.get("groups", list))
    )
    return make(
        graph, machine, reader.get("choices", dict), groups, measured,
        reader.get("provenance", dict),
    )  # fmt: skip


def _graph_of(reader: Reader, text: str) -> DataflowGraph:
    """The dataflow graph: kernels of the operators with their tiles, and what was decided."""
    graph = OperatorGraph.from_json(text, f"{reader.where}, operators")
    rows = reader.get("kernels", list)
    tilings: dict[str, Tiling] = {}
    for i, row in enumerate(rows):
        tilings[_named(reader, i, row)] = reader.attempt(
            f"kernels[{i}]",
            lambda row=row: Tiling(  # type: ignore[misc]
                dict(row["tile"]), tuple(row["order"]), row["unroll"]
            ),
        )
    names = {op.name for op in graph.ops}
    for i, name in enumerate(tilings):
        if name not in names:
            reader.refuse(
                f"kernels[{i}]",
                f"kernels: there is no operator '{name}'{did_you_mean(name, names)}",
            )
    for op in graph.ops:
        if op.name not in tilings:
            reader.refuse("kernels", f"kernels: operator '{op.name}' has no entry")
    tiled = reader.attempt(
        "kernels",
        lambda: kernels_of(
            graph.replaced(ops=tuple(replace(op, tiling=tilings[op.name]) for op in graph.ops))
        ),
    )
    decided = {row["name"]: row for row in rows}
    for i, row in enumerate(rows):
        places = {key: row[key] for key in ("group", "die") if key in row}
        reader.attempt(f"kernels[{i}]", lambda row=places: check_fields(Kernel, row))  # type: ignore[misc]
    kernels = tuple(
        replace(
            kernel, group=decided[kernel.name].get("group"), die=decided[kernel.name].get("die")
        )
        for kernel in tiled.kernels
    )
    made = tiled.replaced(kernels=kernels, edges=_edges(reader, tiled))
    for i, row in enumerate(reader.get("dmas", list)):
        reader.known(f"dmas[{i}]", row, (*_DMA, "walk", "converter", "buffers"))
        reader.known(f"dmas[{i}].walk", row.get("walk"), _WALK)
    dmas = tuple(
        reader.attempt(f"dmas[{i}]", lambda row=row: _dma_of(made, row))  # type: ignore[misc]
        for i, row in enumerate(reader.get("dmas", list))
    )
    return made.replaced(
        dmas=dmas,
        notes=tuple(reader.get("notes", list)),
        attributes=reader.get("attributes", dict),
    )


def _named(reader: Reader, i: int, row: Any) -> str:
    if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
        reader.refuse(f"kernels[{i}]", f"kernels[{i}]: expected an entry with a name")
    return str(row["name"])


def _edges(reader: Reader, graph: DataflowGraph) -> tuple[Edge, ...]:
    rows = reader.get("edges", dict)
    known = {edge.name: edge for edge in graph.edges}
    for name in rows:
        if name not in known:
            near = did_you_mean(name, known)
            reader.refuse(f"edges.{name}", f"edges: there is no edge '{name}'{near}")
    made = []
    for name, edge in known.items():
        if name not in rows:
            reader.refuse("edges", f"edges: edge '{name}' has no entry")
        row = rows[name]
        keys = (*_EDGE, "buffers")
        unknown = [key for key in row if key not in keys] if isinstance(row, Mapping) else [row]
        if unknown:
            reader.refuse(
                f"edges.{name}",
                f"edges: '{name}' has {shown(unknown[0])}{did_you_mean(unknown[0], keys)}",
            )
        changes = {key: row[key] for key in row if key != "buffers"}
        if "buffers" in row:
            changes["converter"] = reader.attempt(
                f"edges.{name}",
                lambda e=edge, n=row["buffers"]: _with_buffers(e.converter, n),  # type: ignore[misc]
            )
        made.append(reader.attempt(f"edges.{name}", lambda e=edge, c=changes: _changed(e, c)))  # type: ignore[misc]
    return tuple(made)


def _changed(edge: Edge, changes: Mapping[str, Any]) -> Edge:
    check_fields(Edge, changes)
    vector = changes.get("vector")
    return replace(edge, **{**changes, "vector": None if vector is None else tuple(vector)})


def _dma_of(graph: DataflowGraph, row: Mapping[str, Any]) -> Dma:
    walk = row["walk"]
    parts = (
        tuple(walk["element"]),
        tuple(walk["trips"]),
        tuple(walk["steps"]),
        AffineMap(
            tuple((tuple(coefficients), at) for coefficients, at in walk["map"]),
            len(walk["trips"]),
        ),
        walk["dtype"],
        walk["depth"],
    )
    stream: ITensor
    if "routing" in walk:
        stream = Untyped(*parts, walk["routing"], walk["expert"])
    else:
        stream = ITensor(*parts)
    ports = tuple((kernel, slot) for kernel, slot in row["ports"])
    by = None
    if row["converter"]:
        kernel, slot = ports[0]
        by = converter(stream, graph.kernel(kernel).inputs[slot].itensor)
    if "buffers" in row:
        by = _with_buffers(by, row["buffers"])
    own = {key: value for key, value in row.items() if key not in ("walk", "converter", "buffers")}
    given = {
        **own,
        "window": tuple((start, extent) for start, extent in row["window"]),
        "ports": ports,
        "walk": stream,
        "converter": by,
    }
    check_fields(Dma, given)
    made = Dma(**given)
    _check_dma(graph, made)
    return made


def _check_dma(graph: DataflowGraph, dma: Dma) -> None:
    """Refuse what no design has, which files that were edited may state."""
    if dma.direction not in ("load", "store"):
        raise CompileError(f"direction: expected load or store, found {shown(dma.direction)}")
    if dma.tensor not in graph.operators.tensors:
        near = did_you_mean(dma.tensor, graph.operators.tensors)
        raise CompileError(f"tensor: there is no tensor '{dma.tensor}'{near}")
    groups = sorted({kernel.group for kernel in graph.kernels})
    if dma.group not in groups:
        known = ", ".join(map(str, groups))
        raise CompileError(f"group: expected one of the groups {known}, found {dma.group}")
    shape = graph.operators.tensors[dma.tensor].shape
    if len(dma.window) != len(shape):
        raise CompileError(
            f"window: expected a start and an extent for each of {len(shape)} dims of "
            f"'{dma.tensor}', found {len(dma.window)}"
        )
    for start, extent in dma.window:
        if not (isinstance(start, int) and isinstance(extent, int) and start >= 0 and extent >= 1):
            raise CompileError(
                "window: expected starts from 0 and extents from 1, found "
                f"{shown(start)} and {shown(extent)}"
            )
    for name, least in (("burst", 1), ("word_bits", 0), ("depth", 1)):
        value = getattr(dma, name)
        if value is not None and value < least:
            raise CompileError(f"{name}: expected a whole number from {least}, found {value}")
