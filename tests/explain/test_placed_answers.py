"""Explanations of placed programs: the verdict, what helps first, bounds, and what is a fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import stepsim as st
from stepsim.errors import ArgError
from stepsim.explain.speed_of_light import speed_of_light
from stepsim.simulation import prepare
from tests.explain.placed_answers import PLACED_ANSWERS, PlacedAnswer
from tests.property_profile import profile
from tests.simulation.placed_programs import placed_programs

_EACH = pytest.mark.parametrize("known", PLACED_ANSWERS, ids=lambda known: known.name)


def _why(known: PlacedAnswer) -> Any:
    program, machine, placement = known.before()
    return st.why(program, machine, place=placement)


def _cycles(case: tuple[st.Program, st.Machine, st.noc.Placement]) -> int:
    program, machine, placement = case
    return st.simulate(program, machine, place=placement).cycles


@_EACH
def test_the_verdict_names_the_link_and_its_streams(known: PlacedAnswer) -> None:
    verdict = _why(known).verdict
    assert verdict.kind == known.kind
    assert known.link in verdict.sentence
    for stream in known.streams:
        assert stream in verdict.sentence
    assert ("share it" in verdict.sentence) == (len(known.streams) > 1)


@pytest.mark.slow
@_EACH
def test_the_first_suggestion_gives_its_gain_to_the_cycle(known: PlacedAnswer) -> None:
    why = _why(known)
    first = why.suggestions[0]
    assert first.kind == known.change
    assert why.cycles == _cycles(known.before())
    assert first.cycles == _cycles(known.after())
    assert first.gain > 0.4


@pytest.mark.slow
@_EACH
def test_the_first_suggestion_is_a_fix(known: PlacedAnswer, tmp_path: Path) -> None:
    program, machine, placement = known.before()
    first = _why(known).suggestions[0]
    first.save(tmp_path / "fix.yaml")
    assert st.simulate(program, machine, fix=tmp_path / "fix.yaml").cycles == first.cycles
    if known.change == "place":
        with pytest.raises(ArgError, match="placed already"):
            st.simulate(program, machine, place=placement, fix=tmp_path / "fix.yaml")
    else:
        again = st.simulate(program, machine, place=placement, fix=tmp_path / "fix.yaml")
        assert again.cycles == first.cycles


@pytest.mark.slow
@_EACH
def test_changes_of_the_network_are_variants(known: PlacedAnswer) -> None:
    program, machine, placement = known.before()
    prepared = prepare(program, machine, place=placement)
    for one in _why(known).suggestions:
        assert one.variant.applied(prepared).run().cycles == one.cycles


@pytest.mark.slow
@profile(30)
@given(placed_programs())
def test_no_run_is_shorter_than_its_busiest_link_takes(case: Any) -> None:
    program, machine, placement = case
    prepared = prepare(program, machine, place=placement)
    run = prepared.execute()
    if run.totals.status != "ok":
        return
    light = speed_of_light(prepared, done=run)
    links = [one for one in light.resources if one.kind == "link"]
    assert all(one.bound <= run.totals.cycles for one in links)
    assert bool(links) == bool(st.simulate(program, machine, place=placement).carried.has_packets)


def test_without_a_placement_nothing_is_said_of_links() -> None:
    program, machine, _ = PLACED_ANSWERS[0].before()
    why = st.why(program, machine)
    assert "link" not in {one.kind for one in why.speed_of_light.resources}
    kinds = {one["kind"] for one in why.what_if.table.to_pylist()}
    assert not kinds & {"link", "network_latency", "place"}


def test_a_prepared_program_has_its_places() -> None:
    program, machine, placement = PLACED_ANSWERS[0].before()
    prepared = prepare(program, machine, place=placement)
    assert st.what_if(prepared).cycles == prepared.run().cycles
    with pytest.raises(ArgError, match="depths and places already"):
        st.what_if(prepared, place=placement)


def test_other_places_are_changes_of_a_user() -> None:
    known = PLACED_ANSWERS[1]
    program, machine, placement = known.before()
    after = known.after()[2]
    found = st.what_if(
        program, machine, place=placement, changes=[st.Variant("apart", place=after)]
    )
    (row,) = found.table.to_pylist()
    assert row["cycles"] == _cycles(known.after())
    assert row["description"] == "other places"


def test_a_placement_and_other_links_are_changed_at_once() -> None:
    known = PLACED_ANSWERS[1]
    program, machine, placement = known.before()
    wider = st.load_machine(machine, {"noc.flits.flit_bytes": 64})
    both = st.Variant("both", machine=wider, place=known.after()[2])
    changed = both.applied(prepare(program, machine, place=placement))
    assert wider.noc is not None
    alone = st.noc.Placement(program, wider.noc, known.after()[2].operators, known.after()[2].ports)
    assert changed.run().cycles == st.simulate(program, wider, place=alone).cycles
    assert changed.run().cycles < _cycles(known.after())
    described = both.described()
    assert described["place"]["operators"]["b_load#4"] == 7


def test_a_fix_for_another_network_is_named_once(tmp_path: Path) -> None:
    program, machine, placement = PLACED_ANSWERS[0].before()
    st.why(program, machine, place=placement).suggestions[0].save(tmp_path / "fix.yaml")
    other = st.load_machine(machine, {"noc.rows": 1, "noc.cols": 64})
    with pytest.raises(ArgError, match=r"^fix \S*fix\.yaml, place, line \d+: it is for a network"):
        st.simulate(program, other, fix=tmp_path / "fix.yaml")
