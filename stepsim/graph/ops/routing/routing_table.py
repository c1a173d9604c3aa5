"""Routing tables: the experts of each row, and the indices that a run binds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stepsim.arguments import is_whole, shown
from stepsim.deferred import deferred
from stepsim.errors import ArgError, GraphError
from stepsim.frozen import keyword_record
from stepsim.graph.handle import Counts
from stepsim.graph.operator import Bindings, Operator, Output, Site
from stepsim.graph.ops.arrays import IntArray
from stepsim.graph.programs.current import current_program
from stepsim.graph.programs.source_line import source_line
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.levels import stop_levels
from stepsim.graph.sizes.limits import STREAMS
from stepsim.graph.types import MultiHot, TensorSpec

if TYPE_CHECKING:
    import hashlib

    from stepsim.graph.programs.program import Program
    from stepsim.graph.stream import Stream
else:
    hashlib = deferred("hashlib")

_MOST_ENTRIES = 2**28


class Routing:
    """A top-k routing table: ``k`` of ``experts`` for each of ``rows``.

    It owns the symbols ``count[i]`` (rows routed to expert i), shared by every partition driven by
    a selector of this routing. Made by :func:`routing`.
    """

    def __init__(
        self,
        program: Program,
        rows: int,
        k: int,
        experts: int,
        indices: IntArray | None,
        where: str,
        max_rows: int | None = None,
    ) -> None:
        self.program = program
        self.rows = rows
        self.k = k
        self.experts = experts
        self.max_rows = max_rows
        self.indices = indices
        number = len(program.routings)
        self.name = "routing" if number == 0 else f"routing{number}"
        self.count = _RoutingCounts(
            program,
            "n" if number == 0 else f"n{number}_",
            f"rows of {self.name} to one expert ({where})",
        )
        program.routings.append(self)

    def multihot(self, *, label: str | None = None) -> Stream:
        """``[rows]`` selectors with k bits set."""
        return self._source("multihot", (self.rows,), self.k, label)

    def onehot(self, *, label: str | None = None) -> Stream:
        """``[rows, k]`` selectors with one bit set, in the order of the table."""
        return self._source("onehot", (self.rows, self.k), 1, label)

    def counts_of(self, indices: Any) -> list[int]:
        """Rows per expert of an index array ``[rows, k]``."""
        table = check_indices(self, indices)
        return [int(c) for c in np.bincount(table.ravel(), minlength=self.experts)]

    def balanced(self) -> IntArray:
        """Indices that distribute the rows over the experts round-robin, as evenly as possible."""
        indices = np.arange(self.rows * self.k, dtype=np.int64) % self.experts
        return indices.reshape(self.rows, self.k)

    def _source(self, encoding: str, shape: tuple[int, ...], hot: int, label: str | None) -> Stream:
        site = Site(f"{self.name}.{encoding}", (), label)
        if site.owner is not self.program:
            site.fail(
                GraphError, f"{self!r} belongs to program '{self.program.name}'",
                "make a routing inside the program that uses it",
            )  # fmt: skip
        op = RoutingSource(routing=self, encoding=encoding)
        dims = tuple(Dim(d) for d in shape)
        return site.add(op, [Output(dims, MultiHot(self.experts, hot), self.count)])[0]

    def __repr__(self) -> str:
        state = "unbound" if self.indices is None else "bound"
        return f"<Routing '{self.name}': {self.rows} rows, top {self.k} of {self.experts}, {state}>"


class _RoutingCounts(Counts):
    """``routing.count[i]``."""

    def __getitem__(self, index: int) -> Dim:
        return self.of(index)


def as_index_array(indices: Any, owner: str) -> np.ndarray[Any, Any]:
    """The given indices as an array; ArgError names the ``owner``."""
    try:
        return np.asarray(indices)
    except ValueError:
        raise ArgError(f"{owner}: the rows of the index array differ in length") from None


def check_indices(table: Routing, indices: Any) -> IntArray:
    """An index array checked against the shape and range of a routing; int64 ``[rows, k]``."""
    array = as_index_array(indices, repr(table))
    if array.shape != (table.rows, table.k):
        raise ArgError(
            f"{table!r}: the index array has shape {array.shape}, expected ({table.rows}, "
            f"{table.k})"
        )
    if array.dtype.kind not in "iu":
        raise ArgError(f"{table!r}: indices must be integers, found {array.dtype}")
    array = np.array(array, order="C")  # a copy, so that the checked array is the one that runs
    bad = np.argwhere((array < 0) | (array >= table.experts))
    if bad.size:
        row, slot = (int(v) for v in bad[0])
        raise ArgError(
            f"{table!r}: row {row}, slot {slot} names expert {int(array[row, slot])}; experts are "
            f"0..{table.experts - 1}"
        )
    ordered = np.sort(array, axis=1)
    twice = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if twice.size:
        raise ArgError(
            f"{table!r}: row {int(twice[0][0])} names an expert twice: "
            f"{array[twice[0][0]].tolist()}"
        )
    if table.max_rows is not None:
        counts = np.bincount(array.ravel(), minlength=table.experts)
        expert = int(counts.argmax())
        if counts[expert] > table.max_rows:
            raise ArgError(
                f"{table!r}: expert {expert} gets {int(counts[expert])} rows, but at most "
                f"{table.max_rows} are declared (max_rows); declare more, or send it fewer"
            )
    return array.astype(np.int64, copy=False)


def check_bindings(program: Program, bindings: Mapping[Any, Any] | None) -> dict[Routing, IntArray]:
    """The indices of every routing of a run: those bound, otherwise those the program was built
    with.

    This is the only check of bindings; every way to run or evaluate a program goes through it.

    Raises
    ------
    ArgError
        A key is not a routing of the program, a routing that the program reads has no indices, or
        indices have the wrong shape or type or are out of range.
    """
    if bindings is not None and not isinstance(bindings, Mapping):
        raise ArgError(
            f"program '{program.name}': bindings must be a mapping "
            f"{{routing: array [rows, k]}}, found {shown(bindings)}"
        )
    given = dict(bindings or {})
    for key in given:
        if not any(key is table for table in program.routings):
            known = ", ".join(table.name for table in program.routings) or "none"
            if not isinstance(key, Routing):
                text = f"the text {key!r}" if isinstance(key, str) else shown(key)
                raise ArgError(
                    f"program '{program.name}': keys of bindings are Routing objects, found "
                    f"{text}; pass what st.routing returned (it has {known})"
                )
            raise ArgError(
                f"program '{program.name}' has no {key!r}; bindings are keyed by its routings "
                f"(it has {known})"
            )
    found = {
        table: check_indices(table, given[table]) if table in given else table.indices
        for table in program.routings
    }
    # A program of thousands of operators is run again in milliseconds.
    lacking = any(indices is None for indices in found.values())
    for op in program.operators if lacking else ():
        if isinstance(op, RoutingSource) and found[op.routing] is None:
            table = op.routing
            raise ArgError(
                f"{op.title()}: {table!r} has no indices. Pass bindings={{routing: array of shape "
                f"({table.rows}, {table.k})}} ({op.source})"
            )
    return {table: indices for table, indices in found.items() if indices is not None}


@keyword_record
class RoutingSource(Operator):
    """Selectors of a routing table."""

    name: ClassVar[str] = "routing"
    unit_kind: ClassVar[str] = "SelectGen"
    routing: Routing
    encoding: str

    def attributes(self) -> dict[str, Any]:
        r = self.routing
        known = None if r.indices is None else hashlib.sha256(r.indices.tobytes()).hexdigest()
        return {
            "routing": r.name,
            "encoding": self.encoding,
            "rows": r.rows,
            "k": r.k,
            "of": r.experts,
            "indices": known,
            **({} if r.max_rows is None else {"max_rows": r.max_rows}),
        }

    def chosen(self, indices: IntArray) -> IntArray:
        """The set flags in ascending order, ``[..., selectors, flags]`` of ``[..., rows, k]``."""
        if self.encoding == "multihot":
            return np.sort(indices, axis=-1) if indices.shape[-1] > 1 else indices
        return indices.reshape(*indices.shape[:-2], -1, 1)

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        table = bindings[self.routing]
        hot = self.chosen(table).tolist()
        nested = self.encoding == "onehot"
        levels = stop_levels(table.shape, most=1) if nested else [0] * len(hot)
        return {"selectors": hot, "width": self.routing.experts, "levels": levels}


def routing(
    indices: TensorSpec | np.ndarray[Any, Any] | Sequence[Sequence[int]],
    experts: int,
    *,
    max_rows: int | None = None,
) -> Routing:
    """Make a routing table, which assigns experts to each row.

    A helper for the selectors that the STeP paper's :func:`partition` and :func:`reassemble`
    take. ``multihot()`` of the table is a stream of selectors; call it once for each end.

    Shape
    -----
    No stream itself. ``multihot()`` is ``[rows]``, ``onehot()`` is ``[rows, k]``; partitions by
    them have the outer dims ``count[i]``, one symbol for each expert.

    Parameters
    ----------
    indices : array ``[rows, k]`` of expert numbers; or ``spec(rows, k)`` for a program of any
        routing, given later by ``bindings={routing: array}`` of a run and ``bind`` of its metrics.
    experts : number of experts.
    max_rows : declared maximum of rows per expert, which indices must respect; None: all rows.

    Fires
    -----
    One selector a cycle, from cycle 1.

    Raises
    ------
    ArgError : the array is not ``[rows, k]`` with k up to ``experts``, names an expert that does
        not exist, or names one twice in a row.
    GraphError : no program is open.

    Example
    -------
    >>> with st.Program("counts") as program:
    ...     table = st.routing(st.spec(4, 1), experts=2)
    ...     x = st.linear_load(st.spec(4, 8), tile=(1, 8)).flatten(0, 1)
    ...     parts = st.partition(x, table.multihot())
    ...     for part in parts:
    ...         part.map(st.fn.silu, compute_bw=8).consume()
    >>> parts
    [Stream[n0] of Tile[1x8 bf16] <- partition#3.0, Stream[n1] of Tile[1x8 bf16] <- partition#3.1]
    >>> program.metrics().flops, program.metrics().bind({table: [3, 1]}).flops
    (64*n0 + 64*n1, 256)
    >>> st.simulate(program, bindings={table: [[0], [0], [1], [0]]}).status
    'ok'
    """
    where = source_line()
    program = current_program()
    if program is None:
        raise GraphError(
            f"routing: no program is active. Build inside `with st.Program(...)` ({where})"
        )
    experts = STREAMS.checked("routing: experts", experts)
    unbound = isinstance(indices, TensorSpec)
    array = np.empty(0) if unbound else as_index_array(indices, f"routing ({where})")
    shape = indices.shape if isinstance(indices, TensorSpec) else array.shape
    if len(shape) != 2 or shape[0] < 1 or not 1 <= shape[1] <= experts:
        raise ArgError(
            f"routing: indices have shape {tuple(shape)}, expected [rows, k] with 1 <= k <= "
            f"{experts} experts ({where})"
        )
    if shape[0] * shape[1] > _MOST_ENTRIES:
        raise ArgError(
            f"routing: {shape[0]} rows of {shape[1]} experts are more than 2**28 entries ({where})"
        )
    if max_rows is not None and not (is_whole(max_rows) and max_rows >= 1):
        raise ArgError(f"routing: max_rows is {shown(max_rows)}, expected an int from 1 ({where})")
    if max_rows is not None and experts * max_rows < shape[0] * shape[1]:
        raise ArgError(
            f"routing: {experts} experts of at most {max_rows} rows cannot take {shape[0]} rows of "
            f"{shape[1]} experts each; raise max_rows ({where})"
        )
    table = Routing(program, int(shape[0]), int(shape[1]), int(experts), None, where, max_rows)
    if not unbound:
        table.indices = check_indices(table, array)
    return table
