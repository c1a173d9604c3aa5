"""The picture of a fused graph: everything is in it, nothing lies on something else."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from stepsim.design.plan.drawing import to_svg
from stepsim.design.plan.layered import layered
from tests.design.search.small import small

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("seed", range(20))
def test_boxes_do_not_touch_and_edges_lead_downward(seed: int) -> None:
    draw = random.Random(seed)
    nodes = draw.randrange(2, 30)
    sizes = [(draw.uniform(20, 200), draw.uniform(20, 50)) for _ in range(nodes)]
    edges = [(a, b) for b in range(1, nodes) for a in {draw.randrange(b), draw.randrange(b)}]
    found = layered(sizes, edges, across=10, down=30)
    boxes = [
        (x - w / 2, x + w / 2, y - h / 2, y + h / 2)
        for (x, y), (w, h) in zip(found.centers, sizes, strict=True)
    ]
    for i, (left, right, top, bottom) in enumerate(boxes):
        assert left >= -1e-6
        assert right <= found.width + 1e-6
        assert bottom <= found.height + 1e-6
        for other in boxes[:i]:
            beside = other[1] + 9.99 < left or right + 9.99 < other[0]
            assert beside or other[3] + 9.99 < top or bottom + 9.99 < other[2]
    for (source, target), path in zip(edges, found.paths, strict=True):
        assert path[0] == pytest.approx((found.centers[source][0], boxes[source][3]))
        assert path[-1][1] == pytest.approx(boxes[target][2])
        assert boxes[target][0] < path[-1][0] < boxes[target][1]
        assert all(a[1] < b[1] for a, b in pairwise(path))


def test_a_chain_is_a_straight_line() -> None:
    found = layered([(50, 20), (90, 20), (30, 20)], [(0, 1), (1, 2)], across=10, down=30)
    assert len({x for x, _ in found.centers}) == 1


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
