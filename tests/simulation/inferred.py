"""Compare what is inferred of a program, shapes and totals, with a run of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy

from stepsim.functional.measure import sizes_of
from stepsim.graph import Dim, Program, Stream, wire
from stepsim.graph.accounting import Accounting
from stepsim.graph.programs.binding import number_of, substitution
from stepsim.graph.sizes.dims import total_over
from stepsim.graph.sizes.sizes import Size
from stepsim.graph.types import Buffer, Tile
from stepsim.kernels.layout import Payload
from stepsim.simulation import prepare

__all__ = ["compare"]


class Measured:
    """Numbers of the symbols of a program, each from the first stream that shows it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.table: dict[Any, int] = dict(substitution(program, {}))
        self.ragged: dict[Any, list[int]] = {}

    def learn(self, size: Size, number: int) -> None:
        if not isinstance(size, int) and size.is_Symbol:
            self.table.setdefault(size, number)

    def number(self, size: Size) -> int | None:
        """None where no stream of the run shows a symbol of it."""
        if isinstance(size, int):
            return size
        if not size.free_symbols <= self.table.keys():
            return None
        return number_of(sympy.sympify(size), self.table)

    def take(self, dim: Dim, sizes: Sequence[int]) -> None:
        """Learn the symbols of a dim from its sizes in one stream."""
        if dim.is_ragged:
            self.learn(dim.total, sum(sizes))
            self.learn(dim.bound, max(sizes, default=0))
        elif sizes:
            self.learn(dim.expr, sizes[0])

    def check(self, where: str, dim: Dim, sizes: Sequence[int], total: Size) -> None:
        """The sizes are those of the dim, which has this total over the stream."""
        if not dim.is_ragged:
            found = self.number(dim.expr)
            assert found is None or set(sizes) <= {found}, f"{where}: {dim} is {found}, ran {sizes}"
            return
        found = self.number(total)
        assert found is None or found == sum(sizes), f"{where}: ~{dim} sums to {found}, ran {sizes}"
        bound = self.number(dim.bound)
        assert bound is None or bound >= max(sizes, default=0), f"{where}: {dim}: {bound}, {sizes}"
        seen = self.ragged.setdefault(dim.expr, list(sizes))
        same = seen == list(sizes) if len(seen) == len(sizes) else set(seen) == set(sizes)
        assert same, f"{where}: {dim} was {seen}, ran {sizes}"


def compare(program: Program) -> str:
    """Run a program and compare all that is inferred of it; returns the status of the run."""
    prepared = prepare(program, fifo_depth=100_000)
    run = prepared.execute(keep_tokens=True)
    if run.totals.status != "ok":
        return str(run.diagnosis)
    wiring, measured = wire(program), Measured(program)
    streams = [(f.stream, run.tokens(i)) for i, f in enumerate(wiring.fifos)]
    levels = {s.key: (s, t, sizes_of(t["level"].tolist(), s.rank)) for s, t in streams}
    for stream, tokens, sizes in levels.values():
        for dim, found in zip(stream.shape, sizes, strict=True):
            measured.take(dim, found)
        for dim, found in _sides(stream, tokens):
            measured.take(dim, found)
    account = Accounting("executed", False)
    for stream, tokens, sizes in levels.values():
        where = repr(stream)
        last = tokens["level"][-1:].tolist()
        assert last in ([], [stream.rank]), where
        assert (tokens["level"] <= stream.rank).all(), where
        for number, (dim, found) in enumerate(zip(stream.shape, sizes, strict=True)):
            measured.check(f"{where} dim {stream.rank - number}", dim, found, dim.total)
        count = measured.number(stream.elements())
        assert count is None or count == len(tokens), f"{where}: {count} elements, {len(tokens)}"
        for dim, found in _sides(stream, tokens):
            measured.check(f"{where} sides", dim, found, total_over(dim, stream.elements()))
        if isinstance(stream.type, Buffer):
            held = measured.number(sympy.prod([d.bound for d in stream.type.dims]))
            most = max((run.execution.slots[t["value"]]["rows"] for t in tokens), default=0)
            assert held is None or held >= most, f"{where}: {held} tiles at most, ran {most}"
    units = run.units()
    for unit, bytes_, flops in zip(
        wiring.units, units["offchip_bytes"].to_pylist(), units["flops"].to_pylist(), strict=True
    ):
        op = unit.operator
        if op is None:
            continue
        for what, size, ran in (
            ("bytes", op.traffic(account), bytes_),
            ("flops", op.flops(), flops),
        ):
            known = measured.number(size)
            assert known is None or known == ran, (
                f"{op.title()}: {size} = {known} {what}, ran {ran}"
            )
            measured.learn(size, ran)
    bound = program.metrics()
    for expr, ran in (
        (bound.off_chip_traffic, run.totals.offchip_bytes),
        (bound.flops, run.totals.flops),
    ):
        known = measured.number(expr)
        assert known is None or known == ran, (expr, known, ran)
    return "ok"


def _sides(stream: Stream, tokens: Any) -> list[tuple[Dim, list[int]]]:
    if not isinstance(stream.type, Tile):
        return []
    tiles = tokens[tokens["kind"] == Payload.TILE]
    sides = ((stream.type.rows, tiles["rows"]), (stream.type.cols, tiles["cols"]))
    return [(dim, found.tolist()) for dim, found in sides]
