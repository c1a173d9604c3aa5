"""Programs that do not fit their machine are explained like others, and their status is said."""

from __future__ import annotations

import json

import pytest

import stepsim as st


def program_of() -> st.Program:
    """Two functions that compute one after the other, and take most of the run."""
    with st.Program("two", compute_bw=8) as program:
        x = st.linear_load(st.spec(64, 32), tile=(16, 32))
        st.linear_store(x.map(st.fn.silu).map(st.fn.silu), "out")
    return program


SMALL = st.load_machine("sda-1024", {"compute.flops_per_cycle": 8})
TIGHT = st.load_machine("sda-1024", {"compute.flops_per_cycle": 16})


def test_changes_are_measured_where_neither_run_fits() -> None:
    found, plain = (st.what_if(program_of(), machine, pairs=False) for machine in (SMALL, None))
    assert found.cycles == plain.cycles
    rows, others = ({row["change"]: row for row in one.table.to_pylist()} for one in (found, plain))
    assert {row["status"] for row in rows.values()} == {"infeasible"}
    for name in rows.keys() & others.keys():
        for column in ("cycles", "gain", "buildable"):
            assert rows[name][column] == others[name][column]
    assert "infeasible: " in found.text(every=True)
    assert "infeasible" not in plain.text(every=True)


def test_a_change_that_no_longer_fits_only_tells_a_bound() -> None:
    found = st.what_if(program_of(), TIGHT, pairs=False)
    by_status: dict[str, set[bool]] = {}
    for row in found.table.to_pylist():
        by_status.setdefault(row["status"], set()).add(row["buildable"])
        if row["status"] == "infeasible":
            assert row["gain_cycles"] is not None
            assert row["kind"] == "compute"
    assert by_status["infeasible"] == {False}
    assert True in by_status["ok"]


def test_why_says_the_status_and_what_bounds_the_run() -> None:
    found, plain = st.why(program_of(), SMALL), st.why(program_of())
    assert (found.status, found.cycles) == ("infeasible", plain.cycles)
    assert found.verdict == plain.verdict
    assert found.diagnosis is not None
    assert "does not fit machine 'sda-1024'" in str(found)
    assert found.suggestions
    assert [one.gain for one in found.suggestions] == [one.gain for one in plain.suggestions]
    assert json.loads(json.dumps(found.to_dict()))["diagnosis"]["status"] == "infeasible"
    assert plain.diagnosis is None


@pytest.mark.parametrize("bandwidth", [8, 16])
def test_a_simulated_run_explains_itself_likewise(bandwidth: int) -> None:
    machine = st.load_machine("sda-1024", {"compute.flops_per_cycle": bandwidth})
    run = st.simulate(program_of(), machine)
    assert st.why(program_of(), machine).status == run.status
