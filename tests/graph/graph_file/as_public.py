"""What the public simulator makes of a written file: its sources state no shape but their data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.graph.graph_file import writer
from stepsim.graph.graph_file.messages import schema_of
from stepsim.graph.graph_file.numbers import numbers_of
from stepsim.graph.graph_file.rows import UNITS
from stepsim.lowering.network import Network, UnitSpec
from stepsim.lowering.network_of_program import lower
from tests.oracle.interpreter import OracleResult, interpret
from tests.oracle.payloads import linear_levels

__all__ = ["Runs", "reasons", "run_both", "unchecked"]

MACHINE = st.load_machine("sda-1024")


@dataclass(frozen=True)
class Runs:
    """A program by the interpreter of the timing rules: as it is, and as its file is read."""

    own: OracleResult
    public: OracleResult

    @property
    def agree(self) -> bool:
        return (self.own.status, self.own.cycles) == (self.public.status, self.public.cycles)


@contextmanager
def unchecked() -> Iterator[None]:
    """Write what the check of last tokens refuses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "check_ends", lambda wiring: None)
        yield


def run_both(program: st.Program, folder: Path) -> Runs:
    """Both runs; the file is written without the check of last tokens."""
    with unchecked():
        data = program.to_graph(folder / "graph.pb", mock_bf16=program.mock_bf16)
    graph = schema_of(numbers_of("B")).parse(data, "test")
    again = st.load_graph(
        folder / "graph.pb", fifo_depth=program.fifo_depth, mock_bf16=program.mock_bf16
    )
    _, read = lower(again, MACHINE)
    units = tuple(
        _as_read(unit, getattr(one, UNITS[unit.op]), folder)
        for unit, one in zip(read.units, graph.operators, strict=True)
    )
    _, own = lower(program, MACHINE)
    return Runs(interpret(own), interpret(Network(units, read.channels, read.timing)))


def reasons(run: OracleResult) -> str:
    """Why units gave up."""
    return "; ".join(status.message for status in run.unit_status.values() if status.message)


def _as_read(unit: UnitSpec, message: Any, folder: Path) -> UnitSpec:
    """A unit with nothing but what the fields of its operator state."""
    params: dict[str, Any] = dict(unit.params)
    if unit.op == "OffChipLoad":
        params |= {"view": list(message.out_shape_tiled), "lead": True}
    elif unit.op == "Counter":
        params |= {"n": message.max, "lead": True}
    elif unit.op == "MetadataGen":
        values = np.load(folder / message.npy_path)
        params |= {"values": values.ravel().tolist(), "dims": list(values.shape), "lead": True}
    elif unit.op == "SelectGen":
        flags = np.load(folder / message.npy_path)
        rows = flags.reshape(-1, flags.shape[-1])
        params |= {
            "selectors": [np.flatnonzero(row).tolist() for row in rows],
            "levels": list(linear_levels(list(flags.shape[:-1]))),
        }
    elif unit.op == "ExpandRef":
        params.pop("whole", None)  # no field states it
    return unit._replace(params=params)
