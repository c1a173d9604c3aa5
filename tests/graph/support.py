"""Programs and streams for tests that look at single operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import stepsim.graph as st


@contextmanager
def scratch(**defaults) -> Iterator[st.Program]:
    """An open program that may have dangling streams."""
    program = st.Program("scratch", **defaults)
    program.__enter__()
    try:
        yield program
    finally:
        program.__exit__(KeyboardInterrupt)


def tiles(*dims, rows=1, cols=64, dtype="bf16") -> st.Stream:
    """A stream of tiles with arbitrary dims."""
    return st.feedback(st.Tile.of(dtype, rows, cols), dims)


def flags(*dims, width=2, hot=None) -> st.Stream:
    """A stream of selectors with arbitrary dims."""
    return st.feedback(st.MultiHot(width, hot), dims)


def numbers(*dims) -> st.Stream:
    """A stream of u64 scalars."""
    return st.feedback(st.Tile.of("u64", 1, 1), dims)


def shape(stream: st.Stream) -> list[str]:
    """The dims, outermost first."""
    return [str(d) for d in stream.shape]


def text(stream: st.Stream) -> str:
    """Shape and type, without the producer."""
    return stream.describe()
