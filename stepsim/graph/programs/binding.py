"""Values of a program's symbols from the user's bindings: routings, dims, selectors, lengths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.graph.handle import Counts, RepeatedCounts
from stepsim.graph.ops.routing.routing_table import Routing
from stepsim.graph.programs.constants import constant_values
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.formula import light
from stepsim.graph.stream import Stream
from stepsim.graph.types import IndexSelector, MultiHot

if TYPE_CHECKING:
    from stepsim.graph.programs.program import Program


def number_of(expr: Any, table: Mapping[Any, int]) -> int:
    """An expression as a number; ArgError for symbols that ``table`` does not hold."""
    size = light(expr)
    if isinstance(size, int):
        return size
    if not size.symbols() <= table.keys():
        missing = sorted(str(s) for s in size.symbols() if s not in table)
        raise ArgError(f"{', '.join(missing)} have no value; bind the objects that own them")
    return int(size.value(table))


def substitution(program: Program, values: Mapping[Any, Any]) -> dict[Any, int]:
    """Symbol -> number for everything that ``values`` determines; ArgError for values that cannot
    occur in a run."""
    table: dict[Any, int] = {}
    given = dict(values)
    for routing in program.routings:
        if routing not in given and routing.indices is not None:
            given[routing] = routing.indices
    for key, value in given.items():
        if isinstance(key, Routing):
            _bind_routing(program, key, value, table)
        elif isinstance(key, Stream):
            _bind_stream(program, key, value, table)
        elif isinstance(key, Dim) and key.is_ragged:
            _bind_ragged(program, key, value, table)
        else:
            symbol = key.size if isinstance(key, Dim) else light(key)
            if symbol not in program.namer.provenance:
                known = ", ".join(str(s) for s in program.namer.provenance) or "none"
                raise ArgError(
                    f"program '{program.name}': cannot bind {key!r}, it owns no symbol. "
                    f"Symbols: {known}"
                )
            table[symbol] = _whole(value, f"dim {symbol}")
    for routing in program.routings:
        _check_counts(routing, table)
    _bind_constants(program, given, table)
    return _closure(program, table)


def _bind_constants(program: Program, given: Mapping[Any, Any], table: dict[Any, int]) -> None:
    """Bind the sizes that follow from constants and bound routings; given values stay.

    Programs of thousands of operators are walked only where a symbol of them is still unknown.
    """
    lengths, counts = program.lengths(), program.counts()
    owned = [size for dim in lengths.values() for size in (dim.sum, dim.most)]
    owned += [dim.size for one in counts.values() for dim in one.known().values()]
    if all(isinstance(size, int) or not size.is_symbol or size in table for size in owned):
        return
    indices = {
        key: np.asarray(value)
        for key, value in given.items()
        if isinstance(key, Routing) and len(np.shape(value)) == 2
    }
    found: dict[Any, int] = {}
    for stream, values in constant_values(program, indices):
        if stream.key in lengths:
            _bind_ragged(program, lengths[stream.key], values.ravel(), found)
        if stream.key in counts:
            for index, size in counts[stream.key].known().items():
                if not isinstance(size.size, int) and size.size.is_symbol:
                    found[size.size] = int(values[:, index].sum())
    for symbol, number in found.items():
        table.setdefault(symbol, number)


def _closure(program: Program, table: dict[Any, int]) -> dict[Any, int]:
    """Values of symbols that the user assumed equal to bound ones; ArgError if these differ."""
    pairs = list(program.equalities().items())
    grown = True
    while grown:
        before = len(table)
        for left, right in pairs:
            for a, b in ((left, right), (right, left)):
                if not isinstance(a, int) and a.is_symbol and a not in table and _known(b, table):
                    table[a] = _value(b, table)
        grown = len(table) > before
    for left, right in pairs:
        if _known(left, table) and _known(right, table):
            values = _value(left, table), _value(right, table)
            if values[0] != values[1]:
                raise ArgError(
                    f"program '{program.name}': {left} and {right} were assumed equal, but "
                    f"{values[0]} and {values[1]} are bound; bind one number"
                )
    return table


def _known(expr: Any, table: Mapping[Any, int]) -> bool:
    return isinstance(expr, int) or expr.symbols() <= table.keys()


def _value(expr: Any, table: Mapping[Any, int]) -> int:
    return expr if isinstance(expr, int) else number_of(expr, table)


def _whole(value: Any, owner: str, position: int | None = None) -> int:
    """``value`` as an int if it is a whole number from 0."""
    if isinstance(value, np.generic):
        value = value.item()
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < 0:
        at = "" if position is None else f" at position {position}"
        raise ArgError(
            f"{owner}: found {shown(value)}{at}; bind non-negative ints, a fraction or a negative "
            "number of elements cannot occur in a run"
        )
    return int(value)


def _wholes(value: Any, owner: str, expected: int | None, what: str) -> list[int]:
    """All entries of an array or nested list; ``expected`` is their number, if known."""
    entries = list(_flat(value))
    if expected is not None and len(entries) != expected:
        raise ArgError(f"{owner}: found {len(entries)} values, expected {expected}: {what}")
    return [_whole(v, owner, position) for position, v in enumerate(entries)]


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, np.ndarray):
        yield from value.ravel().tolist()
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            yield from _flat(inner)
    else:
        yield value


def _bind_routing(program: Program, routing: Any, value: Any, table: dict[Any, int]) -> None:
    if not any(routing is known for known in program.routings):
        raise ArgError(
            f"{routing!r} belongs to program '{routing.program.name}', not '{program.name}'"
        )
    try:
        # Not np.shape, which takes any attribute of that name.
        array = np.asarray(value)
    except ValueError:
        raise ArgError(f"{routing!r}: the rows of the index array differ in length") from None
    if array.ndim == 2:
        counts = routing.counts_of(array)
    elif array.shape == (routing.experts,):
        counts = _wholes(value, repr(routing), routing.experts, "one count for each expert")
        for expert, count in enumerate(counts):
            _check_count(routing, expert, count)
        _check_sum(routing, sum(counts))
    else:
        raise ArgError(
            f"{routing!r}: bind counts of shape ({routing.experts},) or indices of shape "
            f"({routing.rows}, {routing.k}), found shape {array.shape}"
        )
    for index, size in routing.count.known().items():
        table[size.size] = counts[index]


def _check_count(routing: Any, expert: int, count: int) -> None:
    if count > routing.rows:
        raise ArgError(
            f"{routing!r}: count {count} at position {expert} is more than its {routing.rows} rows"
        )


def _check_sum(routing: Any, total: int) -> None:
    if total != routing.rows * routing.k:
        raise ArgError(
            f"{routing!r}: counts sum to {total}, expected {routing.rows * routing.k} "
            f"({routing.rows} rows times {routing.k})"
        )


def _check_counts(routing: Any, table: Mapping[Any, int]) -> None:
    """Counts may also be bound one by one."""
    bound = {i: table[d.size] for i, d in routing.count.known().items() if d.size in table}
    for expert, count in bound.items():
        _check_count(routing, expert, count)
    if len(bound) == routing.experts:
        _check_sum(routing, sum(bound.values()))


def _bind_stream(program: Program, stream: Stream, value: Any, table: dict[Any, int]) -> None:
    if stream.program is not program:
        raise ArgError(
            f"{stream!r} belongs to program '{stream.program.name}', not '{program.name}'"
        )
    lengths = program.lengths().get(stream.key)
    if lengths is not None:
        _bind_ragged(program, lengths, value, table)
        return
    if not isinstance(stream.type, MultiHot | IndexSelector):
        raise ArgError(f"cannot bind {stream!r}: it owns no symbols")
    given = _wholes(value, repr(stream), stream.type.width, "one count for each output")
    elements = stream.cardinality()
    for index, count in enumerate(given):
        if isinstance(elements, int) and count > elements:
            raise ArgError(
                f"{stream!r}: count {count} at position {index} is more than its {elements} "
                "selectors"
            )
    counts = program.counts_of(stream)
    if isinstance(counts, RepeatedCounts):
        counts, given = _once(stream, counts, given)
    for index, size in counts.known().items():
        if size.is_static and int(size) != given[index]:
            raise ArgError(
                f"{stream!r}: count {given[index]} at position {index} contradicts {size}, which "
                "follows from the selector's values"
            )
        if not isinstance(size.size, int) and size.size.is_symbol:
            table[size.size] = given[index]


def _once(stream: Stream, counts: Counts, given: list[int]) -> tuple[Counts, list[int]]:
    """Counts of the selectors that ``stream`` copies."""
    while isinstance(counts, RepeatedCounts):
        for index, count in enumerate(given):
            if count % counts.times:
                raise ArgError(
                    f"{stream!r}: count {count} at position {index} is not a multiple of "
                    f"{counts.times}, the copies of each selector"
                )
        given = [count // counts.times for count in given]
        counts = counts.once
    return counts, given


def _bind_ragged(program: Program, size: Dim, value: Any, table: dict[Any, int]) -> None:
    sizes = _wholes(
        value, f"ragged dim {size}", _positions(program, size), "one size for each outer position"
    )
    for expr, number in ((size.sum, sum(sizes)), (size.most, max(sizes, default=0))):
        if not isinstance(expr, int) and expr.is_symbol:
            table[expr] = number


def _positions(program: Program, size: Dim) -> int | None:
    """The number of sizes of a ragged dim, if they are in a stream of constant length."""
    for (operator, output), lengths in program.lengths().items():
        if lengths.size == size.size:
            elements = program.operators[operator].outputs[output].cardinality()
            return elements if isinstance(elements, int) else None
    return None
