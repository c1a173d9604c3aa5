"""Layered drawings: boxes apart, edges downward, cycles drawn all the same."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from stepsim.drawing import Box, graph_elements, layered


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


def test_only_the_edge_that_closes_a_cycle_leads_upward() -> None:
    edges = [(2, 0), (0, 1), (1, 3), (3, 0)]
    found = layered([(50, 20)] * 4, edges, across=10, down=30)
    ups = [path[0][1] > path[-1][1] for path in found.paths]
    assert ups == [False, False, False, True]


@pytest.mark.parametrize("seed", range(5))
def test_graphs_with_cycles_have_their_edges_between_their_boxes(seed: int) -> None:
    draw = random.Random(seed)
    nodes = draw.randrange(2, 20)
    edges = list({tuple(draw.sample(range(nodes), 2)) for _ in range(2 * nodes)})
    found = layered([(50, 20)] * nodes, edges, across=10, down=30)
    for (source, target), path in zip(edges, found.paths, strict=True):
        for node, (x, y) in ((source, path[0]), (target, path[-1])):
            assert abs(x - found.centers[node][0]) <= 25
            assert abs(y - found.centers[node][1]) == pytest.approx(10)


def test_the_text_of_an_edge_that_leads_up_is_below_its_box() -> None:
    boxes = [Box(("first", "line"), "#fff"), Box(("second",), "#fff")]
    found = layered([box.size for box in boxes], [(0, 1), (1, 0)], across=20, down=60)
    parts = list(graph_elements(found, boxes, ["down", "up"], (0, 0), ["", "#f00"]))
    heights = {
        words: float(part.split(' y="')[1].partition('"')[0])
        for part in parts
        for words in ("down", "up")
        if part.endswith(f">{words}</text>")
    }
    low, high = (found.centers[i][1] for i in (0, 1))
    assert low + boxes[0].size[1] / 2 < heights["up"] < high - boxes[1].size[1] / 2
    assert heights["down"] < high - boxes[1].size[1] / 2
    red = [part for part in parts if "#f00" in part]
    assert len(red) == 1, "only the edge with a color of its own is red"
