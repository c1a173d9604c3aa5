"""Stalls by stage, operator and cause."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as draw

import stepsim as st
from stepsim.results.stalls import OperatorStalls, Place, StallTree, place_of, stall_tree
from tests.explain.known_answers import skewed_experts
from tests.functional.random_programs import random_program
from tests.property_profile import profile


def _tree(program: st.Program, **settings: object) -> StallTree:
    result = st.simulate(program, **settings)
    return stall_tree(result.units, result.fifos)


def _operator(tree: StallTree, name: str) -> OperatorStalls:
    (found,) = [one for one in tree.operators if one.operator == name]
    return found


@pytest.mark.parametrize(
    ("name", "stage", "operator", "lane"),
    [
        ("matmul_up.60#832", "", "matmul_up.*", (60,)),
        ("moe.expert.3.up#17", "moe.expert.*", "moe.expert.*.up", (3,)),
        ("broadcast(pack.27#287)", "", "broadcast(pack.*)", (27,)),
        ("broadcast(dispatch#3.0)", "", "broadcast(dispatch.*)", (0,)),
        ("block.norm#4", "block", "block.norm", ()),
        ("pack.102#362>1", "", "pack.*>1", (102,)),
        ("scales#2054.69", "", "scales.*", (69,)),
        ("layer2#7", "", "layer2", ()),
        ("map#5", "", "map", ()),
    ],
)
def test_names_say_where_a_unit_belongs(
    name: str, stage: str, operator: str, lane: tuple[int, ...]
) -> None:
    assert place_of(name) == Place(stage, operator, lane)


def test_experts_are_lanes_with_a_spread() -> None:
    tree = _tree(skewed_experts())
    experts = _operator(tree, "expert.*")
    assert (experts.stage, experts.kind, experts.lanes, experts.active) == (
        "4 lanes", "BinaryMap", 4, 4,
    )  # fmt: skip
    work = experts.work
    # 29 rows and one row of 512 cycles.
    assert (work.total, work.least, work.median, work.most) == (32 * 512, 512, 512, 29 * 512)
    assert work.slowest == "expert.0#7"
    assert "combine" in tree.stages["single units"][-2].operator


@pytest.mark.parametrize("label", ["*?[x]", "one\ntwo", "*\u2028a"])
def test_a_label_of_any_letters_is_one_unit_on_one_line(label: str) -> None:
    with st.Program("odd", compute_bw=64) as program:
        x = st.linear_load(st.spec(64, 64), tile=(16, 16))
        st.linear_store(st.map(st.fn.add, x, x, label=label), "y")
    result = st.simulate(program)
    tree = stall_tree(result.units, result.fifos)
    odd = next(one for one in tree.operators if one.kind == "BinaryMap")
    assert (odd.stage, odd.lanes) == ("single units", 1)
    plain = "".join(letter if letter.isprintable() else " " for letter in label)
    text = str(st.why(program))
    assert plain in text
    assert all(line.isprintable() for line in text.split("\n"))


def test_lanes_that_never_fire_are_left_out() -> None:
    with st.Program("idle", compute_bw=64) as program:
        table = st.routing([[0], [0]], experts=3)
        rows = st.linear_load(st.spec(2, 8, name="x"), tile=(1, 8)).flatten(0, 1)
        for e, part in enumerate(st.partition(rows, table.multihot())):
            part.map(st.fn.silu, label=f"act.{e}").consume()
    act = _operator(_tree(program), "act.*")
    assert (act.lanes, act.active, act.work.least) == (3, 1, 2)


def test_causes_name_the_other_end() -> None:
    tree = _tree(skewed_experts())
    causes = {(one.cause, one.peer): one.cycles.most for one in _operator(tree, "combine").causes}
    units = {row["name"]: row for row in st.simulate(skewed_experts()).units.to_pylist()}
    combine = units["combine#21"]
    assert causes["input", "expert.*"] == combine["wait_input"]
    assert causes["work", ""] == combine["busy"]
    assert causes["before", ""] == combine["before"]


def test_few_units_of_one_name_stay_apart() -> None:
    def program(count: int) -> st.Program:
        with st.Program("alike", compute_bw=64) as made:
            for _ in range(count):
                st.metadata([1, 2]).consume()
        return made

    assert [one.operator for one in _tree(program(2)).operators] == [
        "metadata#0", "metadata#2", "consume#1", "consume#3",
    ]  # fmt: skip
    many = _operator(_tree(program(20)), "metadata#*")
    assert many.lanes == 20


@profile(40)
@given(seed=draw.integers(0, 10_000), depth=draw.sampled_from([2, 5, 1 << 20]))
def test_causes_add_up_to_the_run(seed: int, depth: int) -> None:
    result = st.simulate(random_program(seed), fifo_depth=depth)
    tree = stall_tree(result.units, result.fifos)
    if result.status == "ok":
        assert tree.cycles == result.cycles
        for one in tree.operators:
            assert sum(cause.cycles.total for cause in one.causes) == tree.cycles * one.active
            assert all(c.cycles.least <= c.cycles.median <= c.cycles.most for c in one.causes)
    assert sum(one.lanes for one in tree.operators) == result.units.num_rows


def test_the_table_has_a_row_for_each_cause() -> None:
    tree = _tree(skewed_experts())
    rows = tree.table.to_pylist()
    assert len(rows) == sum(len(one.causes) for one in tree.operators)
    (row,) = [row for row in rows if row["stall_group"] == "expert.*" and row["cause"] == "work"]
    assert (row["stall_lanes"], row["most_cycles"], row["slowest_unit"]) == (
        4,
        29 * 512,
        "expert.0#7",
    )
    assert tree.to_dict()["operators"][0]["operator"] == rows[0]["stall_group"]


def test_operators_that_a_line_makes_in_a_loop_are_lanes() -> None:
    with st.Program("loop", compute_bw=1024) as program:
        for i in range(3):
            x = st.linear_load(st.spec(64, 64, name=f"x{i}"), tile=(16, 64)).flatten(0, 1)
            st.linear_store(st.map(st.fn.silu, x), f"y{i}")
        first, second = (st.linear_load(st.spec(4, 4), tile=(4, 4)) for _ in range(2))
        st.linear_store(st.map(st.fn.add, first, second), "z")
    found = {one.operator: one.lanes for one in _tree(program).operators}
    assert found["silu#*"] == found["linear_store#*"] == found["linear_load#*"] == 3
    # Two of a line may be two places of one expression.
    single = [name.partition("#")[0] for name, lanes in found.items() if lanes == 1]
    assert sorted(single) == ["add", "linear_load", "linear_load", "linear_store"]


def test_loops_of_two_lines_are_named_by_their_numbers() -> None:
    with st.Program("loops", compute_bw=1024) as program:
        for i in range(3):
            st.linear_store(st.linear_load(st.spec(4, 4), tile=(4, 4)), f"y{i}")
        for i in range(3):
            st.linear_store(st.linear_load(st.spec(8, 8), tile=(4, 4)), f"z{i}")
    found = {one.operator: one.lanes for one in _tree(program).operators}
    assert found["linear_load#0..4"] == found["linear_load#6..10"] == 3
