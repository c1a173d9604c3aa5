"""Map, and the members of its tuples (STeP paper, table 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from stepsim.arguments import counted
from stepsim.errors import ArgError
from stepsim.frozen import keyword_record
from stepsim.graph.functions.function import Function, on_whole_numbers
from stepsim.graph.functions.inference import operand_tiles, result_types
from stepsim.graph.functions.matrices import part
from stepsim.graph.functions.selectors import SelectorFunction
from stepsim.graph.operator import Bindings, Output, Site
from stepsim.graph.ops.higher_order.compute import (
    Compute,
    check_function,
    fifo_bytes,
    infer,
    matmul_buffers,
    setting_of,
)
from stepsim.graph.ops.higher_order.operands import element_of, no_buffers, padding_of, spread
from stepsim.graph.ops.higher_order.selector_maps import map_selectors
from stepsim.graph.sizes.sizes import Size
from stepsim.graph.types import Tile, TupleType

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


@keyword_record
class Map(Compute):
    """Applies a function to the elements of some streams."""

    name: ClassVar[str] = "map"
    charges_compute: ClassVar[bool] = True
    fn: Function
    compute_bw: int | None
    write_back: bool

    @property
    def unit_kind(self) -> str:  # type: ignore[override]
        return {1: "UnaryMap", 2: "BinaryMap"}.get(len(self.inputs), "NaryMap")

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        return {"fn": self.record(), "bw": self.stated_bw(), "wb": self.write_back}

    def memory(self, accounting: Accounting) -> Size:
        matmul = self.fn.transposes is not None and len(self.inputs) == 2
        out = accounting.type_bytes(self.outputs[0].type)
        if accounting.by_paper:
            total = matmul_buffers(self, accounting, in_bytes=True) if matmul else 0
            return total + (
                fifo_bytes(accounting, *self.inputs) + out if accounting.count_fifos else 0
            )
        if not accounting.count_fifos:
            return 0
        if accounting.counting == "published2":
            return matmul_buffers(self, accounting, in_bytes=False) + out if matmul else 0
        return fifo_bytes(accounting, *self.inputs) + out


def map_(
    fn: Function | SelectorFunction,
    *xs: Stream,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream:
    """Apply a function to every element of one stream, or elementwise to several.

    Map of the STeP paper (table 6), with any number of streams. The operands are tiles of streams
    of one shape; tuples, of :func:`zip` or a function with several results, are spread into their
    members. A function with several results makes a stream of tuples, which :func:`unzip`
    separates.

    Shape
    -----
    That of the inputs, which must be equal; the tile is the result of the function.

    Parameters
    ----------
    fn : a function of ``st.fn``, or one made by :func:`function`. Functions of selectors
        take no compute_bw.
    *xs : streams, together as many operands as ``fn`` takes.
    compute_bw : FLOPs per cycle; by default that of the program.
    write_back : whether results are written to on-chip memory: the operator pays for the store, and
        every reader for the load.
    label : name in reports and messages.

    Fires
    -----
    Once for each element, when all operands are there and the output has room: ``max(load, compute,
    store)`` cycles, where load is the bytes of the operands that are on chip over the on-chip
    bandwidth, compute is ``ceil(FLOPs / compute_bw)`` plus the cycles of ``fn``, and store (with
    ``write_back``) is the bytes of the result over the on-chip bandwidth. The slots of the operands
    are freed when the result is sent.

    FLOPs
    -----
    Those of the function, padding rows included, for each element.

    Memory
    ------
    For a product of matrices ``16 * columns`` scalars of the first operand and the tile of the
    second; otherwise nothing.

    Raises
    ------
    ArgError : ``fn`` is not a function for maps, or takes another number of operands.
    DTypeError : an operand has the wrong type, or is a buffer.
    DimError : the shapes, or the sides of the tiles, are not known to fit.

    Example
    -------
    >>> with st.Program("linear", compute_bw=64) as program:
    ...     x = st.linear_load(np.ones((4, 2), "f4"), tile=(2, 2))  # [2, 1]
    ...     w = st.linear_load(np.full((2, 3), 5, "f4"), tile=(2, 3), ref=x.flatten(0, 1))
    ...     y = st.map(st.fn.matmul, x, w.flatten(0, 1))
    ...     out = st.linear_store(y, "out")
    >>> y
    Stream[2, 1] of Tile[2x3 f32] <- matmul#4
    >>> print(run_functional(program).stored["out"][0], program.metrics().flops)
    [10. 10. 10.] 48
    """
    if isinstance(fn, SelectorFunction):
        return map_selectors(fn, xs, compute_bw, write_back, label)
    site = Site("map", xs, label, fn=fn)
    site.require(len(xs) > 0, ArgError, "map takes one stream or more, found 0")
    no_buffers(site, *xs)
    types, owners = spread(site, xs)
    if isinstance(fn, Function):
        fn = on_whole_numbers(fn, types)
    applied = fn if isinstance(fn, Function) and not fn.shape.states else None
    compute_bw = check_function(site, fn, compute_bw, applied, "a map")
    write_back = site.flag("write_back", write_back)
    if len(types) != fn.arity:
        site.fail(ArgError, f"'{fn}' takes {counted(fn.arity, 'operand')}, found {len(types)}")
    for position, x in enumerate(xs[1:], 2):
        if x.shape != xs[0].shape:
            site.same_dims(
                xs[0].shape, x.shape, "in1", f"in{position}", hint=_count_hint(site, xs[0], x)
            )
    tiles: list[Tile] = infer(site, lambda: operand_tiles(fn, types))
    outs = infer(site, lambda: result_types(fn, tiles, setting_of(site, xs[0])))
    op = Map(fn=fn, compute_bw=compute_bw, write_back=write_back)
    padding = padding_of(fn, owners, tiles, outs)
    return site.add(op, [Output(xs[0].shape, element_of(outs), None, padding)])[0]


def unzip(x: Stream, *, label: str | None = None) -> tuple[Stream, ...]:
    """Split a stream of tuples of tiles into one stream for each member.

    A helper, the inverse of Zip of the STeP paper (table 7). Each member is a map of ``fn.part``.

    Shape
    -----
    A tuple of streams of the shape of ``x``, one for each member, of its type.

    Parameters
    ----------
    x : stream of tuples of tiles.
    label : name in reports and messages.

    Fires
    -----
    Once for each element in each of the maps, in no cycles except for reading tuples whose tiles
    are in on-chip memory (the results of a map with ``write_back=True``).

    Raises
    ------
    DTypeError : ``x`` carries no tuples of tiles.

    Example
    -------
    >>> both = st.function("both", "m n -> m n, m 1", values=lambda x: (x, x[:, :1]))
    >>> with st.Program("whole and first") as program:
    ...     x = st.linear_load(np.arange(4, dtype="f4").reshape(2, 2), tile=(2, 2))
    ...     whole, first = st.unzip(st.map(both, x))
    ...     whole.consume()
    ...     out = st.linear_store(first, "first")
    >>> first
    Stream[1, 1] of Tile[2x1 f32] <- unzip#2/part2
    >>> print(run_functional(program).stored["first"].ravel())
    [0. 2.]
    """
    site = Site("unzip", (x,), label, ("in",))
    site.require_type(isinstance(x.type, TupleType), "in", x, "tuples")
    count = len(spread(site, [x])[0])
    with site.parts():
        return tuple(map_(part(i, count), x, label=label) for i in range(count))


def _count_hint(site: Site, a: Stream, b: Stream) -> str:
    """A specific hint if both sides count elements received by one selector output."""
    names = [f"{s.shape[0]}" for s in (a, b)]
    where = [site.owner.provenance(s.shape[0].size) for s in (a, b)]
    if a.shape[0] != b.shape[0] and all("output" in w or "to one expert" in w for w in where):
        return (
            f"do both count rows of the same selector output? Use program.assume_equal"
            f"({names[0]}, {names[1]}) or build both selectors from one routing()"
        )
    return ""


map = map_
"""``st.map``; modules that also need the builtin import `map_`."""
