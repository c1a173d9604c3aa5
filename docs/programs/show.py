"""Print what the programs of these pages compute, and how long they take."""

from __future__ import annotations

from typing import Any

import stepsim as st
from stepsim.simulation import run_functional


def show(program: st.Program, bindings: Any = None, **options: Any) -> None:
    """Print the values of every stream that the program prints, and the cycles of a run."""
    values = run_functional(program, bindings=bindings)
    for op in program.operators:
        if op.name == "print":
            (stream,) = op.inputs
            shape = ", ".join(map(str, values.shape(stream)))
            print(f"{op.label} [{shape}]:", plain(values.nested(stream)))
    result = st.simulate(program, bindings=bindings, **options)
    print(result.cycles, "cycles,", result.offchip_bytes, "bytes off chip,", result.flops, "FLOPs")


def plain(value: Any) -> Any:
    """Nested lists of numbers; a tile of one row is a list, and one of one scalar a number."""
    if isinstance(value, list | tuple):
        return type(value)(plain(v) for v in value)
    if hasattr(value, "indices"):
        return f"select {list(value.indices)}"
    if not hasattr(value, "data"):
        return "done" if value is True else value
    data = value.data[: value.valid, : value.width]
    rows = [[int(x) if x == int(x) else round(float(x), 3) for x in row] for row in data]
    if len(rows) != 1:
        return rows
    return rows[0][0] if len(rows[0]) == 1 else rows[0]
