"""Plans survive YAML, and a damaged one says where and what is wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml

import stepsim as st
from stepsim.design import single_buffers
from stepsim.design.plan.files import pragmas
from tests.design.search.small import small

PLANS = [("prefill", 41_000_000), ("decode", 41_000_000), ("prefill", 600)]


@cache
def of_two_products() -> str:
    """The plan of a graph with every kind of entry, which is read in no time."""
    b = st.design.GraphBuilder("two products")
    h = b.silu(b.linear(b.input("x", (16, 32)), b.weight("up", (64, 32))))
    b.output(b.linear(h, b.weight("down", (32, 64))), "y")
    return st.compile(b.graph(), unroll=512, order="reductions_outermost").plan.to_yaml()


@pytest.mark.slow
@pytest.mark.parametrize(("phase", "budget"), PLANS)
def test_a_plan_is_read_as_it_was_written(phase: str, budget: int, tmp_path: Path) -> None:
    plan = small(phase, budget).plan
    path = tmp_path / "plan.yaml"
    plan.save(path)
    read = st.design.Plan.load(path)
    assert read == plan
    assert read.to_yaml() == plan.to_yaml()
    assert read.digest == plan.digest


@pytest.mark.slow
def test_converters_of_one_buffer_stay_so() -> None:
    plan = small("prefill", 600).plan
    owners = [*plan.graph.edges, *plan.graph.dmas]
    names = [one.name for one in owners if one.converter and one.converter.kind != "fifo"]
    assert len({name.split()[0] == "load" for name in names}) == 2
    single = replace(plan, graph=single_buffers(plan.graph, names))
    text = single.to_yaml()
    read = st.design.Plan.from_yaml(text)
    assert read == single != plan
    assert read.to_yaml() == text
    with pytest.raises(st.errors.CompileError, match=r"^plan:\d+: .*has 1 or 2 buffers, found 3"):
        st.design.Plan.from_yaml(text.replace("buffers: 1", "buffers: 3", 1))


@pytest.mark.slow
def test_programs_of_a_plan_that_was_read_are_the_same() -> None:
    plan = small("prefill", 600).plan
    read = st.design.Plan.from_yaml(plan.to_yaml())
    assert len(read.groups) > 1
    for mine, again in zip(plan.programs(), read.programs(), strict=True):
        assert mine.program.fingerprint() == again.program.fingerprint()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format: stepsim plan 1", "format: stepsim plan 9", "expected format: stepsim plan 1"),
        ("\ndigest: ", "\ndigest: 0", "the operators were changed"),
        ("- name: linear_2\n", "- name: liner\n", "liner"),
        ("unroll: 256\n", "unrolled: 256\n", "unroll"),
        ("tile: {m: 16, n: 16, k: 16}", "tile: {m: 16, n: 16}", "kernels"),
        ("notes: []", "nodes: []", "did you mean 'notes'?"),
        ("clock_ghz: 0.25", "clock_ghz: -1", "clock_ghz"),
        ("direction: load", "direction: load\n  what: 1", "what"),
        ("depth_before: ", "depth_befor: ", "did you mean 'depth_before'?"),
        ("- group: 0\n", "- group: 0\n  simulation: 3\n", "did you mean 'simulations'?"),
        ("group: 0\n", "group: x\n", "must be an int"),
        ("  walk:\n", "  walk:\n    trip: 3\n", "did you mean 'trips'?"),
        ("interval: ", "interval: fast, x: ", "unknown key 'x'"),
        ("shared: null", "shared: 1.5", "shared must be an int or None"),
        ("- direction: load", "- direction: zz", "direction"),
        ("- direction: load\n  tensor: ", "- direction: load\n  tensor: zz", "no tensor 'zz"),
        ("burst: 1\n", "burst: 0\n", "burst: expected a whole number from 1, found 0"),
    ],
)
def test_damage_is_reported_with_its_line(old: str, new: str, said: str) -> None:
    text = of_two_products()
    assert old in text
    with pytest.raises(st.errors.CompileError, match=r"^plan(:\d+)?: ") as caught:
        st.design.Plan.from_yaml(text.replace(old, new, 1))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("group", 999, "group: expected one of the groups 0"),
        ("window", [], "window: expected a start and an extent for each of 2 dims"),
        ("window", [[-1, 4], [0, 4]], "window: expected starts from 0"),
        ("word_bits", -1, "word_bits: expected a whole number from 0"),
    ],
)
def test_loads_that_no_design_has_are_refused(key: str, value: object, said: str) -> None:
    document = yaml.safe_load(of_two_products())
    document["dmas"][0][key] = value
    with pytest.raises(st.errors.CompileError, match=r"^plan(:\d+)?: dmas\[0\]: ") as caught:
        st.design.Plan.from_yaml(yaml.safe_dump(document, sort_keys=False))
    assert said in str(caught.value)


def test_results_of_a_group_are_of_their_types() -> None:
    text = re.sub(r"simulations: \d+", "simulations: many", of_two_products(), count=1)
    with pytest.raises(st.errors.CompileError, match=r"simulations must be an int, found 'many'"):
        st.design.Plan.from_yaml(text)


@pytest.mark.slow
def test_a_part_of_a_plan_is_no_plan() -> None:
    text = of_two_products()
    for end in range(0, len(text), len(text) // 16):
        with pytest.raises(st.errors.CompileError, match=r"."):
            st.design.Plan.from_yaml(text[:end])


@pytest.mark.slow
def test_one_of_several_groups_is_named() -> None:
    plan = small("prefill", 600).plan
    with pytest.raises(st.errors.CompileError, match="several groups; name one of 0: 20 kernels"):
        plan.group(None)
    with pytest.raises(st.errors.CompileError, match="no group 9"):
        plan.group(9)
    assert plan.group(1) == 1
    assert small().plan.group(None) == 0


@pytest.mark.slow
@pytest.mark.parametrize("budget", [41_000_000, 600])
def test_pragmas_have_the_depths_of_the_plan(budget: int) -> None:
    compiled = small("prefill", budget)
    found: dict[str, int] = {}
    name = ""
    for line in pragmas(compiled).splitlines():
        if line.startswith("// "):
            name = line.removeprefix("// ")
        else:
            match = re.fullmatch(r"#pragma HLS stream variable=([A-Za-z_]\w*) depth=(\d+)", line)
            assert match is not None, line
            found[name] = int(match[2])
    edges = {edge.name: edge.depth for edge in compiled.plan.graph.inner_edges}
    assert len(edges) > 15
    assert {key: found[key] for key in edges} == edges
