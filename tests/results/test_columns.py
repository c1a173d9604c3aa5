from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import stepsim as st
from stepsim.results import columns
from stepsim.simulation.cases.columns import parameter_columns


def test_a_name_is_declared_once() -> None:
    declared = columns._GROUPED
    counts = Counter(name for _, (name, *_) in declared)
    assert [name for name, count in counts.items() if count > 1] == []


def test_columns_of_units_and_fifos_are_free_for_parameters() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Named(st.workloads.Workload):
        name = "named"
        depth: Annotated[int, st.workloads.Param("tokens of the queue")] = 2

    assert "depth" in columns.COLUMNS
    assert "depth" in parameter_columns(Named)
