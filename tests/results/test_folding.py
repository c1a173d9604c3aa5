"""What a picture folds: lanes, bodies of loops, parts of calls; chains stay as they are."""

from __future__ import annotations

import json

import stepsim as st
from stepsim.results import Folded, folded, outline_of
from stepsim.results.outline import fifo_ends
from stepsim.simulation import wired


def boxes(program: st.Program) -> list[Folded]:
    wiring = wired(program)
    units = wiring.units
    return folded(
        [unit.name for unit in units], [unit.kind for unit in units],
        [unit.source for unit in units], fifo_ends(wiring),
    )  # fmt: skip


def test_bodies_of_a_loop_are_one_and_chains_are_not() -> None:
    with st.Program("loops", compute_bw=64) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 64)).flatten(0, 1)
        for _ in range(5):
            x.map(st.fn.silu).unsqueeze(0).expand(2).consume()
        for _ in range(3):
            x = x.map(st.fn.exp)
        x.consume()
    found = [(one.name, one.count, len(one.members)) for one in boxes(program)]
    assert ("silu", 5, 5) in found
    assert ("expand", 5, 10) in found
    assert [name for name, *_ in found if name.startswith("exp#")] == ["exp#27", "exp#28", "exp#29"]


def test_a_feedback_is_folded_like_any_other() -> None:
    with st.Program("loop", compute_bw=64) as program:
        back = st.feedback(st.Tile.of("bf16", 1, 64), [4], label="loop")
        back.connect(back.map(st.fn.silu))
    assert sorted(one.name for one in boxes(program)) == ["silu#1"]


def test_an_outline_is_json_and_has_what_is_stated() -> None:
    with st.Program("stated", compute_bw=64) as program:
        x = st.linear_load(st.spec(64, 64, name="x"), tile=(16, 64)).flatten(0, 1)
        x.map(st.fn.silu, compute_bw=8, label="act").with_depth(5).consume()
    outline = json.loads(json.dumps(outline_of(wired(program))))
    (act,) = [one for one in outline["boxes"] if one["name"] == "act#2"]
    assert act["parameters"] == {"fn": "silu", "compute_bw": "8", "write_back": "False"}
    assert (act["operators"], act["outputs"]) == (["map"], ["[4] of Tile[16x64 bf16]"])
    assert outline["program"]["compute_bw"] == 64
    assert [one["depths"] for one in outline["edges"]] == ["default", "default", "5"]
    assert st.simulate(program).outline == outline_of(wired(program))
