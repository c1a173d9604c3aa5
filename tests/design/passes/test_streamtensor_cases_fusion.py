"""Fusion: the printed algorithm step by step, and all partitions, against independent values."""

from __future__ import annotations

from typing import Any

from stepsim.design.passes.fusion.groups import (
    Counting,
    FusionEdge,
    FusionGraph,
    Groups,
)
from stepsim.design.passes.fusion.methods import (
    best_groups,
    greedy_groups,
    merged_groups,
)
from tests.design.cases import each_case
from tests.sizing.drawn_networks import weak_components


def graph_of(case: dict[str, Any]) -> FusionGraph:
    return FusionGraph(
        case["kernels"],
        tuple(
            FusionEdge(e["src"], e["dst"], e["cost"], e["bytes"], e["tensor"])
            for e in case["edges"]
        ),
    )


@each_case("fusion")
def test_streamtensor_cases_printed_greedy(case: dict[str, Any]) -> None:
    graph, expected = graph_of(case), case["expected"]
    found, printed = greedy_groups(graph, case["budget"]), expected["greedy"]
    assert list(found.labels) == printed["fusion_index"]
    assert [list(members) for members in found.members] == printed["groups"]
    assert list(found.costs) == printed["group_costs"]
    assert found.traffic("edges") == printed["traffic_edges"]
    assert found.traffic("tensors") == printed["traffic_rw"]
    assert [
        {
            "kernel": step.kernel,
            "candidates": {str(group): cost for group, cost in step.candidates.items()},
            "chosen": step.chosen,
            "opened": step.opened,
        }
        for step in found.steps
    ] == printed["steps"]
    alone = Groups(graph, tuple(range(graph.kernels)))
    assert alone.traffic("edges") == expected["unfused_traffic_edges"]
    assert alone.traffic("tensors") == expected["unfused_traffic_rw"]
    assert weak_components(graph) == expected["weak_components"]


@each_case("fusion")
def test_streamtensor_cases_optimum(case: dict[str, Any]) -> None:
    graph, expected, budget = graph_of(case), case["expected"], case["budget"]
    countings: tuple[tuple[Counting, str], ...] = (("edges", "edges"), ("tensors", "rw"))
    for counting, name in countings:
        best, optimum = best_groups(graph, budget, counting), expected[f"optimum_{name}"]
        assert best.traffic == optimum["traffic"]
        assert best.converter_bytes == optimum["converter_bytes"]
        assert best.valid == expected["valid_partitions"]
        if "partitions_at_optimum" in optimum:
            assert best.at_optimum == optimum["partitions_at_optimum"]
        labels = [0] * graph.kernels
        for label, members in enumerate(optimum["witness"]):
            for kernel in members:
                labels[kernel] = label
        witness = Groups(graph, tuple(labels))
        assert witness.is_valid(budget)
        assert (witness.traffic(counting), sum(witness.costs)) == (
            best.traffic,
            best.converter_bytes,
        )
        greedy = greedy_groups(graph, budget).traffic(counting)
        assert (greedy == best.traffic) == expected[f"greedy_is_optimal_{name}"]
        merged = merged_groups(graph, budget, counting)
        assert merged.is_valid(budget)
        assert best.traffic <= merged.traffic(counting) <= greedy
