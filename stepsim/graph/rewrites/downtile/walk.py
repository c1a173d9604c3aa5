"""The walk over a program: a rule for each class of operators, and one report of operators without
one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from stepsim.arguments import flag
from stepsim.errors import GraphError, StepError
from stepsim.graph.operator import Operator
from stepsim.graph.ops.feedback import FeedbackSource
from stepsim.graph.programs.program import Program, check_program
from stepsim.graph.rewrites.downtile import (  # noqa: F401  (enter their rules)
    compute,
    memory,
    routing,
    shapes,
)
from stepsim.graph.rewrites.downtile.blocks import Refusal, Sides
from stepsim.graph.rewrites.downtile.site import RULES, Rewrite
from stepsim.graph.sizes.limits import TILE_SIDE
from stepsim.graph.stream import Stream


@dataclass(frozen=True)
class Downtiled:
    """The origin of a program with tiles of the hardware's size.

    Attributes
    ----------
    original : the program on logical tiles. Routings and symbols are shared with it, so that
        bindings are valid for both.
    rows, cols : sides of a hardware tile.
    streams : the streams of the new program by (operator id, output) of the original.
    """

    original: Program
    rows: int
    cols: int
    streams: Mapping[tuple[int, int], Stream] = field(repr=False)

    def stream(self, old: Stream) -> Stream:
        """The new form of a stream of the original: its dims, then pieces down and across.

        Raises
        ------
        GraphError : the stream belongs to another program.
        """
        if old.program is not self.original:
            raise GraphError(
                f"{old!r} belongs to program '{old.program.name}', not '{self.original.name}'"
            )
        return self.streams[old.key]


def downtile(program: Program, rows: int = 16, cols: int = 16, *, pad: bool = False) -> Program:
    """See :meth:`Program.downtile`, which calls this."""
    check_program("downtile", program)
    where = f"program '{program.name}', downtile:"
    rows, cols = TILE_SIDE.pair(f"{where} rows, cols", (rows, cols))
    sides = Sides(rows, cols, flag(f"{where} pad", pad))
    if not program.closed:
        raise GraphError(f"program '{program.name}' is still open; leave its `with` block first")
    made = Program(
        f"{program.name}_{rows}x{cols}", compute_bw=program.compute_bw,
        par_dispatch=program.par_dispatch, fifo_depth=program.fifo_depth,
        flop_weights=program.flop_weights,
    )  # fmt: skip
    work = Rewrite(made, sides)
    with _shared_symbols(made, program), made:
        _walk(work, program)
    made.downtiled = Downtiled(program, rows, cols, work.streams)
    return made


@contextmanager
def _shared_symbols(made: Program, original: Program) -> Iterator[None]:
    """Within it both programs share one namer; afterwards each has its own, the original's
    restored.

    The two share symbols, so a new one must not take a name that the original uses; and the dims of
    the original create new symbols with its namer.
    """
    namer, before = original.namer, original.namer.state()
    made.namer = namer
    made.know_all(original)
    try:
        yield
    finally:
        made.namer = namer.copy()
        namer.restore(before)


def _walk(work: Rewrite, program: Program) -> None:
    findings: list[str] = []
    sources: list[FeedbackSource] = []
    for op in program.operators:
        if not all(x.key in work.streams for x in op.inputs):
            continue  # One of its inputs has been refused.
        if isinstance(op, FeedbackSource):
            sources.append(op)
        first = work.program.next_id
        work.program.chip = op.chip
        try:
            _apply(work, op)
        except Refusal as refusal:
            findings.append(f"{op.title()} {refusal} ({op.source})")
        except StepError as error:
            findings.append(f"{op.title()} cannot be downtiled: {error} ({op.source})")
        for made in work.program.operators[first:]:
            made.source = op.source
            made.label = made.label or op.label
        for old in op.outputs:
            if old.key in work.streams:
                work.program.know_alike(work.streams[old.key], program, old)
    if findings:
        lines = "".join(f"\n  - {finding}" for finding in findings)
        noun = "operator has" if len(findings) == 1 else "operators have"
        raise GraphError(
            f"program '{program.name}', downtile: {len(findings)} {noun} no form on tiles of "
            f"{work.sides.rows}x{work.sides.cols}{lines}"
        )
    for source in sources:
        assert source.connected is not None
        new = work.streams[source.outputs[0].key].producer
        assert isinstance(new, FeedbackSource)
        new.connected = work.streams[source.connected.key]


def _apply(work: Rewrite, op: Operator) -> None:
    found = RULES.get(type(op))
    if found is not None:
        found(work, op)
    elif all(work.sides.of(s.type) is None for s in (*op.inputs, *op.outputs)):
        work.take_over(op)
    else:
        raise Refusal("has no rule for tiles that are cut")
