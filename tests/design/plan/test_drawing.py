"""The picture of a fused graph: everything is in it, nothing lies on something else."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from stepsim.design.plan.drawing import to_svg
from tests.design.search.small import small

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("budget", [41_000_000, 600])
def test_all_of_a_design_is_drawn(budget: int) -> None:
    plan = small("prefill", budget).plan
    graph = plan.graph
    root = ElementTree.fromstring(to_svg(graph))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    fills = [rect.get("fill") for rect in root.iter(f"{SVG}rect")]
    for kernel in graph.kernels:
        assert kernel.name in texts
    assert fills.count("#ffffff") == 1 + len(graph.kernels)
    converters = {edge.buffer for edge in graph.inner_edges if not edge.matched}
    assert fills.count("#ffd966") == len(converters) > 0
    assert fills.count("#ececec") == len(graph.dmas)
    groups = [text for text in texts if text and text.startswith("group ")]
    assert groups == [f"group {one.group}" for one in plan.groups]
    for edge in graph.inner_edges:
        assert f"{edge.depth:,} ({-(-(edge.depth or 0) * edge.fifo_bits // 8):,} B)" in texts


def test_depths_that_are_not_known_are_said_so() -> None:
    graph = small().plan.graph
    first = graph.inner_edges[0]
    open_ = graph.replaced(
        edges=tuple(replace(e, depth=None) if e is first else e for e in graph.edges)
    )
    assert "unsized" not in to_svg(graph)
    assert to_svg(open_).count(">unsized<") == 1
