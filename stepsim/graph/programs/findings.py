"""Problems of a program at the end of its block."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from stepsim.graph.types import Tile

if TYPE_CHECKING:
    from stepsim.graph.programs.program import Program


def findings_of(program: Program, read: Container[tuple[int, int]]) -> Iterator[str]:
    """Streams without readers, feedbacks that are not connected, and tiles without scalars.

    ``read`` has the keys of the streams that operators read.
    """
    fed_back = {s.key for op in program.operators if (s := op.loops_back()) is not None}
    for op in program.operators:
        if op.awaits_connection():
            yield f"{op.called()} is never connected; call .connect(stream) on it ({op.source})"
        for out in op.outputs:
            if out.key not in read and out.key not in fed_back:
                yield f"unconsumed stream: {out!r}; read it or call .consume() ({op.source})"
            tile = out.type
            flat = isinstance(tile, Tile) and 0 in (tile.rows.size, tile.cols.size)
            if flat and out.cardinality() != 0:
                yield f"empty tiles in {out!r} ({op.source})"
