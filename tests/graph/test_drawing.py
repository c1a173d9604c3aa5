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
    assert lines[0] == "Program 'drawn': 7 operators"
    assert len(lines) == 8
    assert "linear_load#0" in lines[1]
    assert "T=512" in lines[1]
    assert "M=128" in lines[1]
    assert "(#1, #2)" in lines[4]
    assert "Stream[4] of Tile[1x64 bf16] (+1 outputs)" in lines[4]
    assert "(#3.0, #3.0)" in lines[5]


def test_dot():
    text = program().to_dot()
    assert text.startswith("digraph program {")
    assert text.endswith("}")
    assert "n0 [label=\"linear_load#0 'the 'x''\"];" in text
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
