"""Scan in all its forms: a reduction that emits its state at every element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from stepsim.arguments import counted
from stepsim.errors import ArgError, DTypeError
from stepsim.frozen import keyword_record
from stepsim.graph.accumulation import Inits
from stepsim.graph.functions.function import Function, on_whole_numbers
from stepsim.graph.functions.inference import operand_tiles, result_types
from stepsim.graph.handle import blurred
from stepsim.graph.operator import Bindings, Output, Site
from stepsim.graph.ops.higher_order.compute import (
    check_function,
    flops_over,
    infer,
    members,
    setting_of,
)
from stepsim.graph.ops.higher_order.operands import element_of, spread
from stepsim.graph.ops.higher_order.reductions import Accum, Made, reduced
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import TAPS
from stepsim.graph.sizes.sizes import Size
from stepsim.graph.types import Tile

if TYPE_CHECKING:
    from stepsim.graph.accounting import Accounting
    from stepsim.graph.stream import Stream


@keyword_record
class Scan(Accum):
    """Like accum, but emits the state after every element."""

    name: ClassVar[str] = "scan"
    unit_kind: ClassVar[str] = "Scan"


@keyword_record
class GeneralScan(Scan):
    """A scan that emits the state before an element, both states, or a function of the state.

    Its inputs are the elements, those of the second function, and the lengths of groups.
    """

    unit_kind: ClassVar[str] = "GeneralScan"
    states: tuple[Tile, ...]
    exclusive: bool
    then: Function | None
    counted: bool

    @property
    def charges_compute(self) -> bool:  # type: ignore[override]
        return self.has_flops()

    @property
    def later(self) -> Function | None:
        """The second function, with the FLOP weight of the program."""
        return None if self.then is None else self.program.weighed(self.then)

    def has_flops(self) -> bool:
        return super().has_flops() or (self.later is not None and bool(self.later.flops))

    def operands(self) -> list[Tile]:
        return _tiles(self.inputs[0])

    def results(self) -> list[Tile]:
        return list(self.states)

    def _later_operands(self) -> list[Tile]:
        return [*_tiles(self.inputs[1]), *self.states]

    def shown(self) -> list[Tile]:
        """Tiles of the first output."""
        return _tiles(self.outputs[0])

    def flops(self) -> Size:
        count = self.inputs[0].cardinality()
        parts = [flops_over(self.function, [*self.states, *self.operands()], self.states, count)]
        if self.later is not None:
            parts.append(flops_over(self.later, self._later_operands(), self.shown(), count))
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else self.program.flops_of(self)

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        second = None
        if self.later is not None:
            second = self.later.record(
                tuple(t.dtype for t in self._later_operands()),
                tuple(t.dtype for t in self.shown()),
            )
        more = {"exclusive": self.exclusive, "second": second, "counted": self.counted}
        return super().unit_params(bindings) | more

    def memory(self, accounting: Accounting) -> Size:
        held = sum(accounting.type_bytes(tile) for tile in self.states) * len(self.outputs)
        if accounting.count_fifos and accounting.counting != "published2":
            held += sum(accounting.type_bytes(s.type) for s in self.inputs)
        return held


def _tiles(x: Stream) -> list[Tile]:
    return [t for t in members(x.type) if isinstance(t, Tile)]


@overload
def scan(
    x: Stream,
    fn: Function,
    rank: int,
    init: Inits | None = None,
    *,
    taps: Literal[2],
    exclusive: bool = False,
    second: Stream | None = None,
    then: Function | None = None,
    counts: Stream | None = None,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> tuple[Stream, Stream]: ...


@overload
def scan(
    x: Stream,
    fn: Function,
    rank: int,
    init: Inits | None = None,
    *,
    taps: Literal[1] = 1,
    exclusive: bool = False,
    second: Stream | None = None,
    then: Function | None = None,
    counts: Stream | None = None,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream: ...


def scan(
    x: Stream,
    fn: Function,
    rank: int,
    init: Inits | None = None,
    *,
    taps: int = 1,
    exclusive: bool = False,
    second: Stream | None = None,
    then: Function | None = None,
    counts: Stream | None = None,
    compute_bw: int | None = None,
    write_back: bool = False,
    label: str | None = None,
) -> Stream | tuple[Stream, Stream]:
    """Running state of ``fn``, restarted after every ``rank`` inner dims.

    Scan of the STeP paper (table 6): like :func:`accum`, but each element produces a result. The
    other forms are those of the public simulator of 2026: exclusive scans emit the state before an
    element, two taps emit both states, and a second function combines the emitted state with a
    second stream.

    Shape
    -----
    The shape of ``x``; a pair of streams with ``taps=2``.

    Parameters
    ----------
    x : stream of tiles, or of tuples of tiles.
    fn : a function that accumulates.
    rank : inner dims that make a group.
    init : the state before the first element of a group, or a tuple of states, as in ``accum``.
    taps : 2 for two outputs: the state after each element, and the state before it.
    exclusive : whether to emit the state before each element instead of the one after it.
    second, then : a stream of the shape of ``x`` and a function of its element and the states,
        ``then(y, state)``, whose results are emitted. They must be given together, with one tap.
    counts : a stream of whole numbers, the length of each group; a run fails if one is wrong.
    compute_bw : FLOPs per cycle of both functions; by default that of the program.
    write_back : whether results go to on-chip memory; each is stored.
    label : name in reports and messages.

    Fires
    -----
    Per element ``max(loads, cycles of fn + cycles of then, store of the result)`` cycles, the
    store only with ``write_back``. A count is taken when a group begins and takes no time.

    FLOPs
    -----
    FLOPs of ``fn`` and ``then``, for every element.

    Memory
    ------
    The states, twice with two taps, and one element of each input.

    Raises
    ------
    ArgError : ``fn`` does not accumulate such elements; options exclude each other.
    DTypeError, DimError : tiles, states or streams do not fit. If the state before an element is
        emitted, ``init`` needs the size of the results.

    Example
    -------
    >>> with st.Program(compute_bw=64) as p:
    ...     x = st.linear_load(np.ones((8, 8), np.float32), (4, 8))
    ...     after, before = x.scan(st.fn.add, 1, taps=2)
    ...     after.consume()
    ...     before.consume()
    >>> p.metrics().flops
    64
    """
    beside = [("second", second)] if second is not None else []
    beside += [("counts", counts)] if counts is not None else []
    options = (compute_bw, write_back)
    site, made, found = reduced("scan", (x,), fn, rank, init, options, label, beside)
    exclusive = site.flag("exclusive", exclusive)
    taps = site.number(TAPS, "taps", taps)
    site.require(
        (second is None) == (then is None), ArgError,
        "second and then come together: a stream, and a function of its element and the states",
    )  # fmt: skip
    site.require(
        taps == 1 or not (exclusive or second is not None), ArgError,
        f"taps=2 shows the states as they are; leave out {'exclusive' if exclusive else 'second'}",
    )  # fmt: skip
    outs = found.outs
    if fn.packs is not None:
        outs = (Tile(outs[0].dtype, *_growing(site, x, outs[0], fn.packs)),)
    if taps == 1 and not (exclusive or beside):
        out = Output(x.shape, element_of(outs), None, blurred(x.padding))
        return site.add(Scan(**made), [out])[0]
    if taps == 2 or exclusive:
        sized_states(site, made, outs, "the state before the first element is shown")
    if counts is not None:
        _check_counts(site, x, counts, made["rank"])
    states, known = outs, x.padding
    if second is not None:
        if isinstance(then, Function):
            then = on_whole_numbers(then, [*spread(site, [second])[0], *states])
        outs = _second_results(site, x, second, then, states, made)
        known = known or second.padding
    op = GeneralScan(
        **made, states=states, exclusive=exclusive, then=then, counted=counts is not None
    )
    output = Output(x.shape, element_of(outs), None, blurred(known))
    streams = site.add(op, [output] * taps)
    return streams[0] if taps == 1 else (streams[0], streams[1])


def sized_states(site: Site, made: Made, outs: Sequence[Tile], why: str) -> None:
    """Refuse initial states that do not have the size of the results."""
    given = made["init"]
    for init, out in zip(given if isinstance(given, tuple) else (given,), outs, strict=True):
        fits = out.is_static and (init.rows, init.cols) == (int(out.rows), int(out.cols))
        site.require(
            fits, DTypeError, f"{why}: it is {init}, the results are {out}",
            "start from a state of the size of the results, such as st.fn.zero((rows, cols))"
            if out.is_static else "tiles need a constant size",
        )  # fmt: skip


def _check_counts(site: Site, x: Stream, counts: Stream, rank: int) -> None:
    kind = counts.type
    site.require_type(
        isinstance(kind, Tile) and kind.is_address, "counts", counts, "whole numbers",
        "st.metadata makes them",
    )  # fmt: skip
    kept = len(x.shape) - rank
    site.same_dims(x.shape[:kept], counts.shape, "in", "counts", base=rank)


def _second_results(
    site: Site,
    x: Stream,
    second: Stream,
    then: Function | None,
    states: Sequence[Tile],
    made: Made,
) -> tuple[Tile, ...]:
    """Types of the results of a second function of its element and the states."""
    stateless = isinstance(then, Function) and not then.shape.states
    applied = then if stateless else None
    check_function(site, then, made["compute_bw"], applied, "the second step of a scan")
    assert then is not None
    site.same_dims(x.shape, second.shape, "in", "second")
    types = [*spread(site, [second])[0], *states]
    site.require(
        len(types) == then.arity,
        ArgError,
        f"'{then}' takes {counted(then.arity, 'operand')}, found {len(types)}: the element of "
        f"second and {counted(len(states), 'state')}",
    )
    setting = setting_of(site, x)
    tiles: list[Tile] = infer(site, lambda: operand_tiles(then, types))
    found: tuple[Tile, ...] = infer(site, lambda: result_types(then, tiles, setting))
    return found


def _growing(site: Site, x: Stream, out: Tile, side: str) -> tuple[Dim, Dim]:
    """Tiles that grow with every element: a ragged side bounded by the full pack."""
    full = out.rows if side == "rows" else out.cols
    grown = site.owner.namer.ragged(
        "r", f"{side} of {site.title}", bound=full.most, span=x.cardinality()
    )
    return (grown, out.cols) if side == "rows" else (out.rows, grown)
