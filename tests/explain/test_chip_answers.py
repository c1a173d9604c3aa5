"""Explanations of programs on several chips, made so that it is known what bounds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import stepsim as st
from stepsim.explain.speed_of_light import speed_of_light
from stepsim.simulation import prepare
from tests.property_profile import profile
from tests.simulation.chip_programs import chip_machine, chip_programs


@dataclass(frozen=True)
class ChipAnswer:
    """A program on two chips, what bounds it, and the change that is to be named first."""

    name: str
    loads: tuple[int, ...]  # on chip 0, each of so many rows
    own: int  # rows that chip 1 loads for itself
    machine: Mapping[str, Any]
    kind: str
    words: tuple[str, ...]
    change: Mapping[str, Any]

    def program(self) -> st.Program:
        with st.Program(self.name, compute_bw=1 << 20, par_dispatch=64) as program:
            for number, rows in enumerate(self.loads):
                with st.chip(0):
                    spec = st.spec(rows, 64, name=f"x{number}")
                    x = st.linear_load(spec, tile=(64, 64), label=f"load{number}")
                with st.chip(1):
                    x.flatten(0, 1).consume(label=f"end{number}")
            if self.own:
                with st.chip(1):
                    spec = st.spec(self.own, 64, name="own")
                    st.linear_load(spec, tile=(64, 64), label="own").flatten(0, 1).consume()
        return program

    def changed(self, **change: Any) -> st.Machine:
        two = {"chips__count": 2, "chips__topology": "fully-connected"}
        return chip_machine(**two, **{**self.machine, **change})


ANSWERS = [
    ChipAnswer(
        "one_stream", (4096,), 0, {"chips__gib_per_s": 10}, "link",
        ("chip 0 to chip 1", "load0#0 takes it"), {"chips__gib_per_s": 20},
    ),
    ChipAnswer(
        "three_streams", (1024, 2048, 512), 0, {"chips__gib_per_s": 10}, "link",
        ("chip 0 to chip 1", "load1#3, load0#0, load2#6 share it"), {"chips__gib_per_s": 20},
    ),
    ChipAnswer(
        "one_message", (64,), 0, {"chips__latency_ns": 20_000}, "network_latency",
        ("the latency of the network", "half the latency between chips"),
        {"chips__latency_ns": 10_000},
    ),
    ChipAnswer(
        "memory_of_chip_1", (64,), 16_384, {"hbm__channels": 1, "chips__latency_ns": 10},
        "hbm_bandwidth", ("HBM bandwidth of chip 1",), {"hbm__channels": 2},
    ),
]  # fmt: skip

_EACH = pytest.mark.parametrize("known", ANSWERS, ids=lambda known: known.name)


@_EACH
def test_the_verdict_names_what_bounds(known: ChipAnswer) -> None:
    verdict = st.why(known.program(), known.changed()).verdict
    assert verdict.kind == known.kind
    for word in known.words:
        assert word in verdict.sentence


@_EACH
def test_the_first_suggestion_gives_its_gain_to_the_cycle(
    known: ChipAnswer, tmp_path: Path
) -> None:
    program, machine = known.program(), known.changed()
    why = st.why(program, machine)
    first = why.suggestions[0]
    assert why.cycles == st.simulate(program, machine).cycles
    assert first.cycles == st.simulate(program, known.changed(**known.change)).cycles
    assert first.gain > 0.4
    prepared = prepare(program, machine)
    for one in why.suggestions:
        assert one.variant.applied(prepared).run().cycles == one.cycles
    first.save(tmp_path / "fix.yaml")
    assert st.simulate(program, machine, fix=tmp_path / "fix.yaml").cycles == first.cycles


def test_links_of_several_dimensions_are_changed_together() -> None:
    known = ANSWERS[0]
    both = {"chips__count": [3, 3], "chips__gib_per_s": [10, 40], "chips__latency_ns": [100, 9]}
    why = st.why(known.program(), chip_machine(**both))
    first = why.suggestions[0]
    assert first.change.apply == "--set chips.gib_per_s=[20.0,80.0]"
    faster = chip_machine(**{**both, "chips__gib_per_s": [20, 80]})
    assert first.cycles == st.simulate(known.program(), faster).cycles


@pytest.mark.slow
@profile(40, thorough=500)
@given(chip_programs())
def test_no_run_is_shorter_than_its_bounds(case: tuple[st.Program, st.Machine]) -> None:
    program, machine = case
    prepared = prepare(program, machine)
    run = prepared.execute()
    light = speed_of_light(prepared, done=run)
    assert all(one.bound <= run.totals.cycles for one in light.resources)
    links = [one for one in light.resources if one.kind == "link"]
    loads = prepared.loads(run)
    assert bool(links) == (loads is not None and loads.has_packets)
    if links:
        table = st.simulate(program, machine).links().to_pylist()
        assert links[0].used == max(one["link_busy_cycles"] for one in table)
        assert 0 <= links[0].share <= 1


def test_predictions_leave_out_what_waits_do_not_say() -> None:
    known = ANSWERS[0]
    machine = known.changed()
    path = st.explain.critical_path(known.program(), machine)
    found = st.what_if(known.program(), machine, path=path)
    rows = {row["change"]: row["predicted_cycles"] for row in found.table.to_pylist()}
    assert rows["twice the link bandwidth"] is None
    assert rows["twice the HBM channels"] is None
    assert rows["half the HBM latency"] is not None
