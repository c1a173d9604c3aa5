"""Short programs, and the comparison of an evaluation with its timing run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.errors import EvaluationError
from stepsim.functional import FunctionalResult, Selection, TileValue, evaluate
from stepsim.functional.values import BufferValue
from stepsim.graph import Program, Stream, wire
from stepsim.graph.ops.flat_map.flat_maps import FlatMap
from stepsim.kernels.layout import Payload, Status
from stepsim.simulation import prepare
from stepsim.simulation.recording.decisions import decisions_of

__all__ = ["letters", "numbers", "run_both", "text", "tiles"]


def tiles(shape: tuple[int, ...], rows: int = 1, cols: int = 1) -> tuple[Stream, np.ndarray]:
    """A static stream of float tiles numbered 1, 2, ... (scalars), and the tensor behind it."""
    count = int(np.prod(shape))
    array = np.arange(1, count * rows * cols + 1, dtype=np.float32).reshape(count * rows, cols)
    steps = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return st.linear_load(array, (rows, cols), shape=shape, stride=steps), array


def numbers(tokens: list[Any]) -> list[tuple[float, int]]:
    """(first scalar, level) of every token."""
    return [(float(t.payload.data[0, 0]), t.level) for t in tokens]


def letters(tokens: list[Any]) -> str:
    """``a b S1``: payloads 1, 2, ... as letters, 0 as a dot, stops as in the paper."""
    out = []
    for payload, level in tokens:
        value = int(payload.data[0, 0])
        out.append("." if value == 0 else chr(ord("a") + value - 1))
        if level:
            out.append(f"S{level}")
    return " ".join(out)


def text(result: FunctionalResult, stream: Stream) -> str:
    return letters(result.stream(stream))


def _check_payload(seen: Any, slot: Any, image: Any, execution: Any, stream: Stream) -> None:
    kind = Payload(slot["kind"])
    if kind is Payload.SELECTOR:
        width, chosen = image.selectors[slot["value"]]
        assert seen == Selection(tuple(chosen), width)
    elif kind is Payload.BUFFER:
        assert isinstance(seen, BufferValue)
        assert len(seen.tiles) == execution.slots[slot["value"]]["rows"]
    elif kind is Payload.ACK:
        assert seen is True
    elif kind is Payload.TILE:
        assert isinstance(seen, TileValue)
        assert (seen.rows, seen.cols) == (slot["rows"], slot["cols"])
        op = stream.producer
        # Of columns the unit compares the number with the valid rows, as published.
        if not (isinstance(op, FlatMap) and op.fn.name == "unpack_cols"):
            assert seen.valid == slot["off"]
        address = isinstance(stream.type, st.Tile) and stream.type.is_address
        if address:
            assert seen.value == slot["value"]


def run_both(
    program: Program,
    tensors: Mapping[Any, Any] | None = None,
    *,
    machine: str = "sda-1024",
    bindings: Mapping[Any, Any] | None = None,
    scalar: str | None = None,
    fifo_depth: int | None = None,
) -> Any:
    """Evaluate in the order of a timing run, and compare all tokens of all FIFOs with it.

    Returns the FunctionalResult; None when both fail.
    """
    prepared = prepare(program, machine=machine, fifo_depth=fifo_depth)
    run = prepared.execute(bindings, keep_tokens=True)
    wiring, execution = wire(program, bindings), run.execution
    decisions = decisions_of(wiring, run, prepared.program_hash)
    if (execution.units["state"] == Status.FAILED).any():
        with pytest.raises(EvaluationError):
            evaluate(program, tensors, bindings=bindings, decisions=decisions, scalar=scalar)
        return None
    assert execution.finished
    result = evaluate(program, tensors, bindings=bindings, decisions=decisions, scalar=scalar)
    assert result.contradictions() == []
    compared = 0
    for number, fifo in enumerate(wiring.fifos):
        tokens, slots = result.stream(fifo.stream), run.tokens(number)
        assert [t.level for t in tokens] == slots["level"].tolist(), fifo.name
        for token, slot in zip(tokens, slots, strict=True):
            _check_payload(token.payload, slot, run.image, execution, fifo.stream)
        compared += len(tokens)
    assert compared > 0
    return result
