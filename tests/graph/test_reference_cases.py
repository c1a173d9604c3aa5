"""Programs that the public simulator has timed: read from their files, simulated, written again."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest

import stepsim as st
from stepsim.errors import GraphFileError
from stepsim.results import Result
from tests.shared import REFERENCE_CASES, recorded

pytestmark = recorded(REFERENCE_CASES, f"no cases in {REFERENCE_CASES}; set STEPSIM_SHARED")

SETTINGS = ("request_bytes", "channels", "latency", "interval", "startup")


def rows() -> list[dict[str, str]]:
    file = REFERENCE_CASES / "cases.csv"
    if not file.is_file():
        return []
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


ROWS = rows()

each_case = pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])


def read(path: Path, row: dict[str, str]) -> st.Program:
    return st.load_graph(path, mock_bf16=row["bf16"] == "1", fifo_depth=int(row["depth"]))


def run(program: st.Program, row: dict[str, str], slack: int = 0) -> Result:
    memory = {f"hbm.{name}": int(row[name]) for name in SETTINGS}
    machine = st.load_machine("sda-1024", {**memory, "closure_slack": slack})
    return st.simulate(program, machine=machine)


@cache
def as_read(number: int) -> tuple[st.Program, Result]:
    """The program of a row, and its run."""
    row = ROWS[number]
    program = read(REFERENCE_CASES / row["file"], row)
    return program, run(program, row)


def test_there_are_cases() -> None:
    assert ROWS
    assert len({row["file"] for row in ROWS}) == len(ROWS)


@each_case
def test_verdict_requests_and_cycles(row: dict[str, str]) -> None:
    """The public simulator ends up to a cycle earlier than its memory, or notices a closure so."""
    program, result = as_read(ROWS.index(row))
    assert result.status == row["verdict"]
    if row["verdict"] != "ok":
        return
    assert result.memory_requests == int(row["requests"])
    least, most = int(row["reference_min"]), int(row["reference_max"]) + 1
    if not least <= result.cycles <= most:
        noticed = run(program, row, slack=1)
        found = (result.cycles, noticed.cycles)
        assert least <= noticed.cycles <= most, f"expected {least} to {most}, found {found}"


def undecided(program: st.Program) -> bool:
    """Whether vectors are split by selectors that have no outer dim of 1."""
    pairs = [
        (op.rank, op.inputs[1].shape) for op in program.operators if op.unit_kind == "Partition"
    ]
    return any(rank and (len(dims) == 1 or dims[0] != 1) for rank, dims in pairs)


@each_case
def test_they_are_written_and_read_again(row: dict[str, str], tmp_path: Path) -> None:
    """All but those with selectors that end a dim more in the public simulator than here."""
    program, result = as_read(ROWS.index(row))
    refusal = ""
    try:
        program.to_graph(tmp_path / "graph.pb")
    except GraphFileError as error:
        refusal = str(error)
    if refusal:
        assert undecided(program), refusal
        assert refusal.startswith("to_graph: FlatPartition_")
        assert "both or neither must end a level more" in refusal
        assert "give it an outer dim of 1, selectors [1, " in refusal
        return
    again = run(read(tmp_path / "graph.pb", row), row)
    assert (again.status, again.cycles) == (result.status, result.cycles)
    assert again.memory_requests == result.memory_requests
