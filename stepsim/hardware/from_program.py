"""Programs as networks of hardware units (STeP paper, appendix B.2; units of Figure 8).

The operators of a program on logical tiles determine the units:

| operator | units |
|---|---|
| linear load without reference | reader, whose entries lie in the order of their use |
| stream with several readers | fork |
| map of an elementwise function | map |
| map of a product of matrices | matmul block |
| map-accumulate of a product | matmul block, outer accumulator |
| accumulation by sum | outer accumulator |
| reshape with chunk 1, unsqueeze | promote |
| repeat | buffer of rank 2 with repeat |
| linear store | writer or printer |
| consume | printer |

*Which operand is which.* A matmul block replays a row of operand A from a buffer of rank 1 and all
of operand B from one of rank 2. An operand straight from off-chip memory becomes A, since it only
needs to wait for a row; an operand computed on chip is held as a whole, as B. If both come from
memory, or neither does, the first operand is A. So the weights of the last product of a gated layer
are A, although they are the second operand in the program: the block then computes the transposed
product, whose pieces come column by column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from stepsim.errors import ArgError, LoweringError
from stepsim.graph import (
    ELEMENTWISE,
    Accum,
    Consume,
    Flatten,
    LinearLoad,
    LinearStore,
    Map,
    MapAccum,
    Operator,
    Program,
    Refusal,
    Repeat,
    Reshape,
    Sides,
    Stream,
    Tile,
    Unsqueeze,
    check_one_chip,
    check_program,
    construction_order,
    readers_by_output,
)
from stepsim.hardware.network import Network
from stepsim.hardware.units import SIDE
from stepsim.typed import typed

_EXISTS: Final = (
    "there are units for loads without reference, elementwise maps, products of matrices, sums, "
    "repeats, dims of size 1, forks and stores"
)


@dataclass(frozen=True)
class _Pieces:
    """A stream of hardware tiles.

    Attributes
    ----------
    fifo : the FIFO that carries them; None while a load has no reader unit yet.
    dims : sizes of all dims, outermost first, the two of the block last.
    turned : the blocks are transposed: the last dim counts rows of the logical tile.
    off_chip : whether it comes straight from a load, so that its order within a block is free.
    load : the load behind a stream without unit.
    """

    fifo: str | None
    dims: tuple[int, ...]
    turned: bool = False
    off_chip: bool = False
    load: LinearLoad | None = None


@dataclass
class _Building:
    """A network under construction."""

    network: Network
    sink: str
    readers: dict[tuple[int, int], int]
    ports: dict[int, int]
    streams: dict[tuple[int, int], list[_Pieces]] = field(default_factory=dict)
    pending: dict[tuple[int, int], _Pieces] = field(default_factory=dict)

    def put(self, stream: Stream, pieces: _Pieces) -> None:
        """The streams for the readers of a stream, behind a fork where there are several."""
        ways = self.readers.get(stream.key, 0)
        if pieces.fifo is None:
            self.pending[stream.key] = pieces
        elif ways < 2:
            self.streams[stream.key] = [pieces]
        else:
            name = f"fork({stream.producer.title()})"
            copies = self.network.fork(name, pieces.fifo, ways)
            self.streams[stream.key] = [replace(pieces, fifo=copy) for copy in copies]

    def knows(self, stream: Stream) -> bool:
        """Whether the producer has units."""
        return stream.key in self.streams or stream.key in self.pending

    def take(self, stream: Stream, order: Callable[[_Pieces], _Pieces] | None = None) -> _Pieces:
        """A copy of a stream for one reader; ``order`` lays out the blocks of a load first."""
        if stream.key in self.pending:
            pieces = self.pending.pop(stream.key)
            pieces = pieces if order is None else order(pieces)
            assert pieces.load is not None
            name = pieces.load.title()
            fifo = self.network.reader(name, pieces.dims, port=self.ports[pieces.load.id])
            self.put(stream, replace(pieces, fifo=fifo, load=None))
        return self.streams[stream.key].pop(0)


_Rule = Callable[[_Building, Any], None]


@typed
def network_of(
    program: Program, *, sink: Literal["writer", "printer"] = "writer", name: str | None = None
) -> Network:
    """The network of hardware units that computes a program.

    Parameters
    ----------
    program : on logical tiles with sides that are multiples of 16; a downtiled program stands for
        its original.
    sink : ``writer`` stores outputs through a memory port, ``printer`` only takes them.
    name : of the network; by default that of the program.

    Raises
    ------
    LoweringError : one report of all operators that have no unit, with the reasons.
    ArgError : there is no such sink, or ``program`` is not a program.

    Example
    -------
    >>> with st.Program("gemm", compute_bw=8192) as program:
    ...     a = st.linear_load(st.spec(64, 64, dtype="f32"), (32, 64), shape=(2, 2), stride=(1, 0))
    ...     b = st.linear_load(st.spec(64, 64, dtype="f32"), (64, 32), shape=(2, 2), stride=(0, 1))
    ...     out = st.linear_store(st.map(st.fn.matmul, a, b), "c")
    >>> network = st.hardware.network_of(program)
    >>> sorted({unit.kind for unit in network.units})
    ['buffer', 'map', 'reader', 'repeat', 'sum', 'wire', 'writer']
    """
    check_program("network_of", program)
    if sink not in ("writer", "printer"):
        raise ArgError(f"network_of: sink must be 'writer' or 'printer', found {sink!r}")
    if not program.closed:
        raise LoweringError(f"program '{program.name}' is still open; leave its `with` block first")
    if program.downtiled is not None:
        program = program.downtiled.original
    check_one_chip(program, f"program '{program.name}' at the hardware level", LoweringError)
    order = construction_order(program)
    moves = [op for op in order if isinstance(op, LinearLoad | LinearStore)]
    if sink == "printer":
        moves = [op for op in moves if isinstance(op, LinearLoad)]
    build = _Building(
        Network(name or program.name), sink,
        {key: len(users) for key, users in readers_by_output(program).items()},
        {op.id: port for port, op in enumerate(moves)},
    )  # fmt: skip
    findings = []
    for op in order:
        if not all(build.knows(x) for x in op.inputs):
            continue  # Its input has no unit.
        try:
            rule = _RULES.get(type(op))
            if rule is None:
                raise Refusal("has no unit")
            rule(build, op)
        except Refusal as refusal:
            findings.append(f"{op.title()} {refusal} ({op.source})")
    if findings:
        lines = "".join(f"\n  - {finding}" for finding in findings)
        noun = "operator has" if len(findings) == 1 else "operators have"
        raise LoweringError(
            f"program '{program.name}' at the hardware level: {len(findings)} {noun} no hardware "
            f"unit; {_EXISTS}{lines}"
        )
    build.network.check()
    return build.network


def _block(tile: object) -> tuple[int, int]:
    """Hardware tiles down and across in a logical tile."""
    if not isinstance(tile, Tile):
        raise Refusal(f"moves {tile}; units move tiles")
    for side, what in ((tile.rows, "rows"), (tile.cols, "columns")):
        if side.is_one():
            raise Refusal(
                f"has tiles of 1 {what[:-1]}; a hardware tile is {SIDE}x{SIDE}; use a multiple "
                f"of {SIDE}"
            )
    block = Sides(SIDE, SIDE, pad=False).block(tile)
    return block.rows, block.cols


def _sizes(stream: Stream) -> tuple[int, ...]:
    if not all(d.is_static for d in stream.shape):
        raise Refusal("has a size that is known only at run time; units count constant sizes")
    return tuple(int(d) for d in stream.shape)


def _load(build: _Building, op: LinearLoad) -> None:
    if op.inputs:
        raise Refusal("waits for a reference; readers start without one")
    if op.bypass:
        raise Refusal("bypasses the memory; a reader requests from it")
    out = op.outputs[0]
    dims = (1, *_sizes(out), *_block(out.type))
    build.put(out, _Pieces(None, dims, off_chip=True, load=op))


def _unit_dim(build: _Building, op: Operator, dim: int) -> None:
    """A dim of size 1 that becomes dim ``dim`` of the logical stream."""
    (x,) = op.inputs
    if x.key in build.pending and build.readers[x.key] == 1:
        return _reshaped_load(build, op)
    pieces = build.take(x)
    at = len(pieces.dims) - 2 - dim
    fifo = build.network.promote(op.title(), _fifo(pieces), dim + 2)
    dims = (*pieces.dims[:at], 1, *pieces.dims[at:])
    return build.put(op.outputs[0], replace(pieces, fifo=fifo, dims=dims, off_chip=False))


def _reshaped_load(build: _Building, op: Operator) -> None:
    """Update the dims of a load, which its reader counts."""
    pieces = build.pending.pop(op.inputs[0].key)
    out = op.outputs[0]
    build.put(out, replace(pieces, dims=(1, *_sizes(out), *pieces.dims[-2:])))


def _unsqueeze(build: _Building, op: Unsqueeze) -> None:
    _unit_dim(build, op, op.dim)


def _reshape(build: _Building, op: Reshape) -> None:
    (x,) = op.inputs
    if op.pad is None and x.key in build.pending and build.readers[x.key] == 1:
        return _reshaped_load(build, op)
    if op.chunk != 1 or op.add_outer:
        raise Refusal(f"makes chunks of {op.chunk}; units insert dims of size 1 only")
    return _unit_dim(build, op, op.dim)


def _flatten(build: _Building, op: Flatten) -> None:
    (x,) = op.inputs
    if x.key in build.pending and build.readers[x.key] == 1:
        return _reshaped_load(build, op)
    raise Refusal("merges dims behind a unit; only dims of a load can be merged")


def _fifo(pieces: _Pieces) -> str:
    assert pieces.fifo is not None
    return pieces.fifo


def _map(build: _Building, op: Map) -> None:
    if op.fn.transposes is not None and len(op.inputs) == 2:
        fifo, dims, turned = _product(build, op)
        return build.put(op.outputs[0], _Pieces(fifo, dims, turned))
    if not (op.fn.standard and op.fn.name in ELEMENTWISE):
        raise Refusal(f"applies '{op.fn}'; maps work element by element, or multiply matrices")
    blocks = {_block(s.type) for s in (*op.inputs, *op.outputs)}
    if len(blocks) > 1:
        raise Refusal("has operands of different sizes; maps take tiles of one size")
    taken = [build.take(x) for x in op.inputs]
    if len({(p.dims, p.turned) for p in taken}) > 1:
        raise Refusal(
            "mixes operands whose blocks come row by row and column by column; no unit turns them"
        )
    fifo = build.network.map(op.title(), *map(_fifo, taken), function=op.fn.name)
    return build.put(op.outputs[0], replace(taken[0], fifo=fifo, off_chip=False))


def _map_accum(build: _Building, op: MapAccum) -> None:
    if op.fn.transposes is None:
        raise Refusal(f"sums the results of '{op.fn}'; units sum products of matrices")
    if any(init.value for init in op.inits):
        raise Refusal(f"starts from {op.init}; accumulators start from zero")
    fifo, dims, turned = _product(build, op)
    fifo = build.network.accumulator(f"sum({op.title()})", fifo, op.rank + 2)
    dims = (*dims[: len(dims) - op.rank - 2], *dims[-2:])
    build.put(op.outputs[0], _Pieces(fifo, dims, turned))


def _product(build: _Building, op: Map | MapAccum) -> tuple[str, tuple[int, ...], bool]:
    """A matmul block; its output, the dims of that, and whether blocks come transposed."""
    assert op.fn.transposes is not None
    first, second = op.inputs
    m_k = _block(first.type)
    k_n = _block(second.type)
    a_turned, b_turned = op.fn.transposes
    m, k = m_k[::-1] if a_turned else m_k
    n = k_n[0] if b_turned else k_n[1]
    _block(op.outputs[0].type)
    sources = [_off_chip(build, x) for x in op.inputs]
    swap = sources == [False, True]

    def rows_of(stream: Stream, rows: int, across: bool) -> _Pieces:
        """An operand in rows of ``k`` pieces; ``across``: its columns are what is summed."""
        pieces = build.take(
            stream, lambda p: replace(p, dims=(*p.dims[:-2], rows, k), turned=not across)
        )
        if pieces.off_chip:
            if pieces.turned is across:
                raise Refusal("shares a load with a product that needs its tiles in another order")
        elif pieces.turned is across:
            raise Refusal(
                "takes a result computed on chip in another order than it is produced: no unit "
                "transposes blocks; load it from memory, or change the order of the operands"
            )
        return pieces

    left = rows_of(first, m, not a_turned)
    right = rows_of(second, n, b_turned)
    outer = left.dims[:-2]
    name = op.title()
    if swap:
        fifo = build.network.matmul(name, _fifo(right), _fifo(left), m, n)
        return fifo, (*outer, n, m), True
    fifo = build.network.matmul(name, _fifo(left), _fifo(right), n, m)
    return fifo, (*outer, m, n), False


def _off_chip(build: _Building, stream: Stream) -> bool:
    if stream.key in build.pending:
        return True
    return any(p.off_chip for p in build.streams[stream.key])


def _accum(build: _Building, op: Accum) -> None:
    if not (op.fn.standard and op.fn.name == "add") or any(i.value for i in op.inits):
        raise Refusal(f"accumulates with '{op.fn}' from {op.init}; accumulators add up from zero")
    _block(op.outputs[0].type)
    pieces = build.take(op.inputs[0])
    fifo = build.network.accumulator(op.title(), _fifo(pieces), op.rank + 2)
    dims = (*pieces.dims[: len(pieces.dims) - op.rank - 2], *pieces.dims[-2:])
    build.put(op.outputs[0], replace(pieces, fifo=fifo, dims=dims, off_chip=False))


def _repeat(build: _Building, op: Repeat) -> None:
    _block(op.outputs[0].type)
    pieces = build.take(op.inputs[0])
    fifo, dims = _fifo(pieces), pieces.dims[:-2]
    for number, count in enumerate(op.counts):
        ending = f".{number}" if number else ""
        fifo = build.network.buffer(f"{op.title()}{ending}", fifo, 2, count)
        dims = (*dims, count)
    kept = replace(pieces, fifo=fifo, dims=(*dims, *pieces.dims[-2:]), off_chip=False)
    build.put(op.outputs[0], kept)


def _store(build: _Building, op: LinearStore) -> None:
    _block(op.inputs[0].type)
    pieces = build.take(op.inputs[0])
    if build.sink == "writer":
        build.network.writer(
            op.title(), _fifo(pieces), last=len(pieces.dims), port=build.ports[op.id]
        )
    else:
        build.network.printer(op.title(), _fifo(pieces), last=len(pieces.dims))


def _consume(build: _Building, op: Consume) -> None:
    pieces = build.take(op.inputs[0])
    build.network.printer(op.title(), _fifo(pieces), last=len(pieces.dims))


_RULES: Final[dict[type[Operator], _Rule]] = {
    LinearLoad: _load, Unsqueeze: _unsqueeze, Reshape: _reshape, Flatten: _flatten, Map: _map,
    MapAccum: _map_accum, Accum: _accum, Repeat: _repeat, LinearStore: _store, Consume: _consume,
}  # fmt: skip
