"""Records values that were read from a model, operator by operator, in a builder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from stepsim.arguments import is_number, shown
from stepsim.design.operators.building.builder import GraphBuilder
from stepsim.design.operators.building.recorder import Ref
from stepsim.design.operators.building.selecting import POSITION
from stepsim.design.operators.importers.imported import ImportedGraph
from stepsim.design.operators.importers.norm_folding import folded
from stepsim.design.operators.importers.patterns import rewritten
from stepsim.design.operators.importers.values import (
    MOST_POSITIONS,
    WHOLE_TYPES,
    Value,
    values_before,
)
from stepsim.errors import CompileError, did_you_mean
from stepsim.graph import without_source_lines

Costs: TypeAlias = Mapping[str, float]
"""FLOPs for each element of the result of an operator that is not known, by its name."""

_VIEWS = ("reshape", "permute", "slice", "expand")
_MOST_PLACES = 6


def recorded(
    builder: GraphBuilder,
    arguments: Sequence[Value],
    outputs: Mapping[str, Value],
    mutated: Mapping[str, Value],
    *,
    reader: str,
    keep_going: bool,
    costs: Costs | None,
) -> ImportedGraph:
    """The graph of some outputs.

    Parameters
    ----------
    arguments : of the model, with ``attributes["name"]``; those that an output needs are declared
        in this order.
    mutated : what becomes of each state that the model keeps; its new rows are outputs.
    reader : how messages begin.
    keep_going : operators that are not known become opaque ones.

    Raises
    ------
    CompileError : operators are not known, all of them in one message; or costs are of no use.
    """
    values = rewritten(folded([*outputs.values(), *mutated.values()]))
    states = _read_states(values_before(values))
    named = list(zip(outputs, values, strict=False))
    for name, value in zip(mutated, values[len(outputs) :], strict=True):
        named += _new_rows(name, value)
    # What a run leaves of a state as it was need not be joined with what it writes.
    reachable = list(values_before([value for _, value in named]))
    _check_unknown(reachable, reader, keep_going, costs)
    record = _Record(builder, states, dict(costs or {}), named, reader)
    used = {id(value) for value in reachable}
    order = tuple(str(x.attributes["name"]) if id(x) in used else None for x in arguments)
    with without_source_lines():
        for x in arguments:
            if id(x) in used:
                record.ref(x)
        for value in reachable:
            if value.op not in ("constant", "weight", "state") or id(value) in record.outputs:
                record.ref(value)
    if record.assumed:
        builder.attributes["assumed_costs"] = sorted(record.assumed)
    graph = builder.graph()
    return ImportedGraph(
        graph.name, graph.tensors, graph.ops, graph.attributes, record.arrays, order
    )


def _check_unknown(
    values: Sequence[Value], reader: str, keep_going: bool, costs: Costs | None
) -> None:
    """Report unknown operators, or check that their given costs can be used."""
    places: dict[str, list[str]] = {}
    for value in values:
        if value.op == "unknown":
            why = value.attributes["why"]
            text = f"{value.place}{f': {why}' if why else ''}"
            places.setdefault(value.attributes["target"], []).append(text)
    if places and not keep_going:
        rows = []
        for target, found in places.items():
            more = len(found) - _MOST_PLACES
            rest = f", and at {more} more places" if more > 0 else ""
            rows.append(f"  {target} in " + ", ".join(found[:_MOST_PLACES]) + rest)
        several = len(places) > 1
        raise CompileError(
            f"{reader}: {len(places)} operator{'s are' if several else ' is'} not known\n"
            + "\n".join(rows)
            + "\nWrite the model without them (docs/pytorch.md lists what is known), or go on with "
            "keep_going=True (--keep-going): each becomes an opaque kernel, which costs what "
            f"costs={{'{next(iter(places))}': FLOPs for each element of the result}} declares"
        )
    for name, cost in (costs or {}).items():
        if name not in places:
            raise CompileError(
                f"{reader}: costs are given for '{name}', which is not an unknown operator of the "
                f"model{did_you_mean(name, places)}"
            )
        if not is_number(cost) or cost < 0:
            raise CompileError(
                f"{reader}: the cost of '{name}' is {shown(cost)}; give FLOPs from 0 for each "
                "element of the result"
            )


def _base(value: Value) -> Value:
    """The value that another is a view of."""
    while value.op in _VIEWS:
        value = value.inputs[0]
    return value


def _read_states(values: Iterable[Value]) -> set[int]:
    """Inputs that are caches: rows that are computed without them come behind their first ones."""
    found = set()
    for value in values:
        if value.op != "concat":
            continue
        first, *rest = value.inputs
        cache = _base(first)
        if cache.op != "input" or (first.op == "slice" and first.attributes["start"] != 0):
            continue
        bases = [_base(part) for part in rest]
        computed = any(base.op not in ("input", "constant", "weight") for base in bases)
        if value.attributes.get("cache") or (
            computed and not any(x is cache for base in bases if base is not cache
                                 for x in values_before([base]))
        ):  # fmt: skip
            found.add(id(cache))
    return found


def _new_rows(name: str, value: Value) -> list[tuple[str, Value]]:
    """The part of a state that a run writes, without the unchanged part."""
    parts = value.inputs if value.op == "concat" else (value,)
    new = [part for part in parts if _base(part).op != "state"]
    names = [f"{name}_new" if i == 0 else f"{name}_new_{i + 1}" for i in range(len(new))]
    return list(zip(names, new, strict=True))


class _Record:
    """Values that were recorded, as the builder has them."""

    def __init__(
        self, builder: GraphBuilder, states: set[int], costs: dict[str, float],
        outputs: Sequence[tuple[str, Value]], reader: str,
    ) -> None:  # fmt: skip
        self.builder = builder
        self.reader = reader
        self.outputs: dict[int, list[str]] = {}
        for name, value in outputs:
            self.outputs.setdefault(id(value), []).append(name)
        self.states = states
        self.costs = costs
        self.arrays: dict[str, Any] = {}
        self.assumed: set[str] = set()
        self._refs: dict[int, Ref] = {}
        self._names: set[str] = set()
        self._positions: dict[int, Ref] = {}

    def ref(self, value: Value) -> Ref:
        """The value, which is recorded when it is first asked for."""
        found = self._refs.get(id(value))
        if found is None:
            found = self._recorded(value)
            # What is stored off chip is so before it is read, and is stored as the model says.
            for name in self.outputs.get(id(value), ()):
                found = self.builder.output(found, name)
            self._refs[id(value)] = found
        return found

    def _recorded(self, value: Value) -> Ref:
        if value.op in ("input", "weight", "state", "constant"):
            return self._declared(value)
        module, line = value.place
        with self.builder.at(module, line):
            made = _RECORDERS[value.op](self, value)
        if made.shape != value.shape:
            raise CompileError(
                f"{value.place}: {value.op} has shape {made.shape} but the model states "
                f"{value.shape}; please report this model"
            )
        return made

    def positions(self, count: int) -> Ref:
        """The numbers 0, 1, 2, ... as an input, which a run is given with the weights."""
        if count > MOST_POSITIONS:
            raise CompileError(
                f"a run counts the positions of an axis of {count:,}; known are axes up to 2**24, "
                "whose positions f32 holds exactly"
            )
        if count not in self._positions:
            name = self._named(f"positions_{count}")
            self.arrays[name] = np.arange(count, dtype=np.float32)
            self._positions[count] = self.builder.input(name, (count,), POSITION)
        return self._positions[count]

    def _named(self, name: str) -> str:
        """The name, or with a number behind it where a tensor has it already."""
        unique, number = name, 1
        while unique in self._names:
            number += 1
            unique = f"{name}_{number}"
        self._names.add(unique)
        return unique

    def _declared(self, value: Value) -> Ref:
        name = value.attributes.get("name")
        if name is None:
            name = f"{value.place.module}.constant" if value.place.module else "constant"
        unique = self._named(str(name))
        role = "state" if id(value) in self.states else value.op
        scalar = value.attributes.get("dtype")
        if value.array is not None:
            array = np.asarray(value.array)
            if array.dtype == bool:  # Loads have no flags; 0 is false in numbers.
                array, scalar = array.astype(np.float32), None
            self.arrays[unique] = array
        if scalar is not None and scalar not in WHOLE_TYPES.values():
            known = ", ".join(WHOLE_TYPES)
            raise CompileError(
                f"{self.reader}: {role} '{unique}' is of {scalar}, for which operator graphs have "
                f"no scalar type; use {known} or floating point"
            )
        declare = {
            "weight": self.builder.weight, "state": self.builder.state,
        }.get(role, self.builder.input)  # fmt: skip
        return declare(unique, value.shape, scalar)

    def refs(self, value: Value) -> list[Ref]:
        return [self.ref(x) for x in value.inputs]

    def elementwise(self, value: Value) -> Ref:
        operands: list[Ref | float] = []
        for x in value.inputs:
            number = x.number
            operands.append(self.ref(x) if number is None else number)
        if not any(isinstance(x, Ref) for x in operands):
            operands[0] = self.ref(value.inputs[0])
        made = self.builder.apply(value.attributes["function"], *operands)
        return made if made.shape == value.shape else self.builder.expand(made, value.shape)

    def reduction(self, value: Value) -> Ref:
        x = self.ref(value.inputs[0])
        method = getattr(self.builder, value.op)
        for axis in reversed(value.attributes["axes"]):
            x = method(x, axis, keepdim=value.attributes["keepdim"])
        return x

    def slice(self, value: Value) -> Ref:
        at = value.attributes
        x = self.ref(value.inputs[0])
        return self.builder.slice(x, at["axis"], at["start"], at["stop"], at["step"])

    def concat(self, value: Value) -> Ref:
        parts, axis = self.refs(value), value.attributes["axis"]
        base = _base(value.inputs[0])
        if len(parts) == 2 and (base.op == "state" or id(base) in self.states):
            return self.builder.cache_append(parts[0], parts[1], axis)
        return self.builder.concat(parts, axis)

    def conv(self, value: Value) -> Ref:
        x, w, *bias = value.inputs
        spatial = len(w.shape) - 2
        if id(w) not in self._refs and w.array is not None:
            # Stored so that tiles of it have two axes of channels.
            order = (*range(2, spatial + 2), 1, 0)
            array = np.transpose(w.array, order)
            stored = Value(w.op, (), array.shape, w.attributes, w.place, array)
            turned = self.builder.permute(
                self._declared(stored), (spatial + 1, spatial, *range(spatial))
            )
            self._refs[id(w)] = turned
        return self.builder.conv(
            self.ref(x), self.ref(w), self.ref(bias[0]) if bias else None, **value.attributes
        )

    def pool(self, value: Value) -> Ref:
        return self.builder.pool(self.ref(value.inputs[0]), **value.attributes)

    def unfold(self, value: Value) -> Ref:
        x = self.builder.unfold(self.ref(value.inputs[0]), **value.attributes)
        axes = [axis for axis in range(x.rank) if axis != value.attributes["axis"] + 1]
        return self.builder.permute(x, [*axes, value.attributes["axis"] + 1])

    def chosen(self, value: Value) -> Ref:
        x, indices = self.refs(value)
        axis = value.attributes["axis"]
        if value.op in ("scatter", "add_rows"):
            size = value.shape[axis]
            method = getattr(self.builder, value.op)
            made: Ref = method(x, indices, self.positions(size), size, axis)
            return made
        if value.op == "take":
            return self.builder.take(x, indices, self.positions(x.shape[axis]), axis)
        return self.builder.gather(x, indices, self.positions(x.shape[axis]), axis)

    def rank(self, value: Value) -> Ref:
        x, at = self.ref(value.inputs[0]), value.attributes
        return self.builder.rank(x, self.positions(x.shape[at["axis"]]), at["axis"], at["least"])

    def ranked(self, value: Value) -> Ref:
        *x, rank = self.refs(value)
        axis, count = value.attributes["axis"], value.attributes["count"]
        positions = self.positions(rank.shape[axis])
        return self.builder.ranked(rank, positions, count, x[0] if x else None, axis)

    def layer_norm(self, value: Value) -> Ref:
        at = value.attributes
        x, *rest = self.refs(value)
        w = rest[0] if at["weight"] else None
        return self.builder.layer_norm(x, w, rest[-1] if at["bias"] else None, at["eps"])

    def rms_norm(self, value: Value) -> Ref:
        x, *rest = self.refs(value)
        return self.builder.rms_norm(x, rest[0] if rest else None, **value.attributes)

    def rotary(self, value: Value) -> Ref:
        x, cos, sin = self.refs(value)
        return self.builder.rotary(x, cos, sin, value.attributes["pairs"])

    def sdpa(self, value: Value) -> Ref:
        q, k, v, *mask = self.refs(value)
        return self.builder.sdpa(q, k, v, **value.attributes, mask=mask[0] if mask else None)

    def opaque(self, value: Value) -> Ref:
        target = value.attributes["target"]
        if target not in self.costs:
            self.assumed.add(target)
        elements = int(np.prod(value.shape, dtype=np.int64))
        flops = round(self.costs.get(target, 1.0) * elements)
        # Whole numbers that are known say what it does, as an axis does: they are no data of it.
        data = [x for x in value.inputs if not x.is_constant or x.array.dtype.kind == "f"]
        return self.builder.opaque(target, [self.ref(x) for x in data], value.shape, flops)


_RECORDERS: Mapping[str, Callable[[_Record, Value], Ref]] = {
    "elementwise": _Record.elementwise,
    "sum": _Record.reduction,
    "mean": _Record.reduction,
    "max": _Record.reduction,
    "slice": _Record.slice,
    "concat": _Record.concat,
    "layer_norm": _Record.layer_norm,
    "rms_norm": _Record.rms_norm,
    "sdpa": _Record.sdpa,
    "unknown": _Record.opaque,
    "conv": _Record.conv,
    "pool": _Record.pool,
    "unfold": _Record.unfold,
    "pad": lambda r, v: r.builder.pad(r.ref(v.inputs[0]), **v.attributes),
    **dict.fromkeys(("take", "gather", "scatter", "add_rows"), _Record.chosen),
    "einsum": lambda r, v: r.builder.einsum(
        v.attributes["operands"], v.attributes["output"], *r.refs(v)
    ),
    "rank": _Record.rank,
    "ranked": _Record.ranked,
    "cumsum": lambda r, v: r.builder.cumsum(r.ref(v.inputs[0]), v.attributes["axis"]),
    "matmul": lambda r, v: r.builder.matmul(*r.refs(v)),
    "linear": lambda r, v: r.builder.linear(*r.refs(v)),
    "embedding": lambda r, v: r.builder.embedding(*r.refs(v)),
    "softmax": lambda r, v: r.builder.softmax(r.ref(v.inputs[0]), v.attributes["axis"]),
    "causal_mask": lambda r, v: r.builder.causal_mask(r.ref(v.inputs[0]), **v.attributes),
    "rotary": _Record.rotary,
    "reshape": lambda r, v: r.builder.reshape(r.ref(v.inputs[0]), v.shape),
    "permute": lambda r, v: r.builder.permute(r.ref(v.inputs[0]), v.attributes["order"]),
    "expand": lambda r, v: r.builder.expand(r.ref(v.inputs[0]), v.shape),
}
"""How the builder records each kind of value."""
