"""Columns of parameters: one meaning for one name, whatever the workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
import pytest

from stepsim.errors import WorkloadError
from stepsim.results.columns import COLUMNS
from stepsim.simulation.cases.columns import parameter_columns
from stepsim.workloads import Param, Workload
from stepsim.workloads.loading import BUILT_IN, find_workload

WORKLOADS = {name: find_workload(name).load() for name in BUILT_IN}


def declared(name: str) -> list[tuple[str, pa.Field]]:
    """Every ready-made workload with a parameter of this name, and its column."""
    found = {w: parameter_columns(kind) for w, kind in WORKLOADS.items()}
    return [(w, columns[name]) for w, columns in found.items() if name in columns]


NAMES = sorted({name for kind in WORKLOADS.values() for name in parameter_columns(kind)})


@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_one_name_has_one_meaning(name):
    columns = declared(name)
    first = columns[0][1]
    for workload, column in columns[1:]:
        assert column.equals(first, check_metadata=True), workload
    assert first.metadata[b"definition"]


@pytest.mark.parametrize("name", sorted(set(NAMES) & set(COLUMNS)))
def test_shared_columns_are_those_of_the_dictionary(name):
    for workload, column in declared(name):
        assert column.equals(COLUMNS[name], check_metadata=True), workload


@pytest.mark.parametrize("name", WORKLOADS)
def test_definitions_do_not_repeat_the_unit_and_need_no_period(name):
    for column in parameter_columns(WORKLOADS[name]).values():
        definition = column.metadata[b"definition"].decode()
        assert definition == definition.strip()
        assert not definition.endswith(".")


@dataclass(frozen=True, kw_only=True)
class Ours(Workload):
    """A user's workload with parameters of its own."""

    name = "ours.py:ours"

    model: str = "x"
    batch: int = 1
    rows: Annotated[int, Param("rows of the product", "rows")] = 1
    scale: float = 1.0
    plain: bool = False


def test_columns_of_a_users_workload():
    found = parameter_columns(Ours)
    assert found["model"] is COLUMNS["model"]
    assert found["batch"] is COLUMNS["batch"]
    own = {
        name: (str(found[name].type), found[name].metadata) for name in ("rows", "scale", "plain")
    }
    assert own == {
        "rows": ("int64", {b"unit": b"rows", b"definition": b"rows of the product"}),
        "scale": ("double", {b"unit": b"", b"definition": b"parameter of ours.py:ours"}),
        "plain": ("bool", {b"unit": b"", b"definition": b"parameter of ours.py:ours"}),
    }


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        (
            "cycles",
            int,
            r"parameter cycles has the name of a column of results \(length of",
        ),
        ("flops", int, "parameter flops has the name of a column"),
        ("status", str, "parameter status has the name of a column"),
        ("batch", str, "parameter batch has the name of a column"),  # a number elsewhere
        ("model", int, "parameter model has the name of a column"),
    ],
)
def test_names_of_results_are_refused(name, kind, message):
    odd = dataclass(frozen=True)(
        type("Odd", (Workload,), {"__annotations__": {name: kind}, "name": "odd.py:odd"})
    )
    advice = f"; choose another name, such as odd_{name}$"
    with pytest.raises(WorkloadError, match=f"^odd.py:odd: {message}.*{advice}"):
        parameter_columns(odd)


def test_all_names_of_results_are_refused_at_once() -> None:
    hints = {"tokens": int, "window": int, "own": int}
    odd = dataclass(frozen=True)(
        type("Odd", (Workload,), {"__annotations__": hints, "name": "odd"})
    )
    with pytest.raises(WorkloadError, match=r"^odd: parameter tokens .*; parameter window .*"):
        parameter_columns(odd)
