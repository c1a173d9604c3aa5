"""Listing, Graphviz and Mermaid."""

from __future__ import annotations

import stepsim.graph as st
from stepsim.graph import fn


def program():
    with st.Program("drawn", compute_bw=8) as p:
        x = st.linear_load(st.spec(4, 64), (1, 64), label='the "x"').flatten(0, 1)
        a, b = st.partition(x, st.selector([[1, 0]] * 4), label="split")
        st.map(fn.add, a, a).consume()
        b.consume()
    return p


def test_listing_has_one_line_for_each_operator():
    lines = str(program()).splitlines()
    assert lines[0] == (
        "Program 'drawn': 7 operators (T: off-chip traffic in bytes, M: on-chip memory in bytes, "
        "counted as executed)"
    )
    assert len(lines) == 8
    assert 'the "x"#0 (linear_load)' in lines[1]
    assert "T=512" in lines[1]
    assert "M=256" in lines[1]
    assert "(#1, #2)" in lines[4]
    assert "Stream[4] of Tile[1x64 bf16] (+1 outputs)" in lines[4]
    assert "(#3.0, #3.0)" in lines[5]


def test_dot():
    text = program().to_dot()
    assert text.startswith("digraph program {")
    assert text.endswith("}")
    assert "n0 [label=\"the 'x'#0 (linear_load)\"];" in text
    assert 'n1 -> n3 [label="Stream[4] of Tile[1x64 bf16]"];' in text
    assert text.count("->") == 7


def test_mermaid():
    text = program().to_mermaid()
    assert text.startswith("flowchart TB")
    assert 'n3 -- "Stream[4] of Tile[1x64 bf16]" --> n4' in text


def test_feedback_edges_are_drawn():
    with st.Program("loop") as p:
        loop = st.feedback(st.Tile.of("u64", 1, 1), [3])
        loop.consume()
        loop.connect(st.metadata([1, 2, 3]))
    assert "n2 -> n0" in p.to_dot()


def test_listings_of_large_programs_stay_narrow():
    width = 40
    with st.Program("wide") as p:
        sel = st.routing(st.spec(64, 2), experts=width).multihot(label="long" * 20)
        x = st.linear_load(st.spec(64, 64), (1, 64)).flatten(0, 1)
        parts = st.partition(x, sel)
        merged, which = st.eager_merge([part.reshape(4, pad=0).flatten(0, 1) for part in parts])
        which.consume()
        odd = [p.dim(name) for name in ("left", "right_side", "elsewhere", "top", "bottom_half")]
        y = st.feedback(st.Tile.of("bf16", 1, 64), [sum(odd[1:], odd[0])])
        y.connect(y.repeat(1).flatten(0, 1))
        st.linear_store(y, "y")
        st.linear_store(merged, "merged")
    lines = str(p).splitlines()
    assert len(lines) == 1 + len(p.operators)
    assert max(len(line) for line in lines) < 210
    assert next(line for line in lines if "eager_merge" in line).split()[1:3] == ["(40", "inputs)"]
    assert "Stream[sum(4*ceil(n/4) for n in n0..n39)] of Tile[1x64 bf16] (+1 outputs)" in str(p)
    assert "Stream[sum(n for n in bottom_half, elsew... of Tile[1x64 bf16]" in str(p)
    assert "T=sum(512*ceil(n/4) for..." in lines[-1]
