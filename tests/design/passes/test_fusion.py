"""Fusion on random graphs: what every method keeps, and how much better merging is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepsim.design.passes.fusion.groups import (
    FusionEdge,
    FusionGraph,
    Groups,
    is_acyclic,
)
from stepsim.design.passes.fusion.methods import (
    best_groups,
    greedy_groups,
    merged_groups,
)
from stepsim.errors import CompileError
from tests.sizing.drawn_networks import fusion_graphs, weak_components

UNLIMITED = 1 << 62


@pytest.mark.slow
def test_groups_of_random_graphs_run_one_after_another_within_the_budget() -> None:
    for graph, budget in fusion_graphs(seed=1, count=400, most_kernels=10):
        greedy = greedy_groups(graph, budget)
        assert greedy.is_valid(budget)
        # The group number never decreases along an edge.
        assert all(greedy.labels[p] <= greedy.labels[c] for p, c in graph.links)
        merged = merged_groups(graph, budget)
        assert merged.is_valid(budget)
        assert merged.traffic() <= greedy.traffic()


def test_matching_types_cost_nothing_under_any_budget() -> None:
    for graph, _ in fusion_graphs(seed=2, count=50, most_kernels=8):
        free = FusionGraph(graph.kernels, tuple(replace(e, cost=0) for e in graph.edges))
        for method in (greedy_groups, merged_groups):
            assert sum(method(free, 0).costs) == 0
        assert merged_groups(free, 0).traffic() == 0


def test_without_a_limit_merging_gives_a_group_for_each_connected_part() -> None:
    split = 0
    for graph, _ in fusion_graphs(seed=3, count=100, most_kernels=9):
        groups = merged_groups(graph, UNLIMITED)
        assert len(groups.members) == weak_components(graph)
        assert groups.traffic() == 0
        split += len(greedy_groups(graph, UNLIMITED).members) > weak_components(graph)
    # Trap T7: the printed algorithm keeps a group for every source.
    assert split > 20


@pytest.mark.slow
def test_merging_is_the_optimum_more_often_than_the_printed_algorithm() -> None:
    greedy = merged = 0
    graphs = list(fusion_graphs(seed=4, count=300, most_kernels=6))
    for graph, budget in graphs:
        best = best_groups(graph, budget).traffic
        greedy += greedy_groups(graph, budget).traffic() == best
        found = merged_groups(graph, budget).traffic()
        assert found >= best
        merged += found == best
    assert greedy < 0.7 * len(graphs)
    assert merged > 0.9 * len(graphs)


def test_a_kernel_moves_where_merging_alone_does_not_help() -> None:
    """Merging joins 0 to 3 first, which leaves no room for 2, whose tensor is larger than 0's."""
    edges = (
        FusionEdge(0, 1, 0, 1024, 0), FusionEdge(0, 3, 0, 1024, 0), FusionEdge(2, 3, 2048, 3072, 2),
        FusionEdge(1, 4, 512, 2048, 1), FusionEdge(3, 4, 2048, 4096, 3),
    )  # fmt: skip
    graph = FusionGraph(5, edges)
    assert best_groups(graph, 2439).traffic == 10_240
    assert merged_groups(graph, 2439).labels == (0, 1, 0, 0, 1)
    assert merged_groups(graph, 2439).traffic() == 10_240


def test_a_larger_budget_never_costs_the_best_partition_traffic() -> None:
    worse = 0
    for graph, _ in fusion_graphs(seed=5, count=40, most_kernels=6):
        budgets = sorted({0, *(sum(e.cost for e in graph.edges[:n]) for n in range(8)), UNLIMITED})
        best = [best_groups(graph, budget).traffic for budget in budgets]
        assert best == sorted(best, reverse=True)
        greedy = [greedy_groups(graph, budget).traffic() for budget in budgets]
        worse += greedy != sorted(greedy, reverse=True)
    # The printed algorithm can lose by a larger budget.
    assert worse > 0


def test_a_shared_converter_costs_a_group_once() -> None:
    edges = tuple(FusionEdge(0, consumer, 10, 8, 0, converter=5) for consumer in (1, 2, 3))
    graph = FusionGraph(4, edges)
    for groups in (
        greedy_groups(graph, 10),
        merged_groups(graph, 10),
        best_groups(graph, 10).groups,
    ):
        assert groups.labels == (0, 0, 0, 0)
        assert groups.costs == (10,)
    apart = FusionGraph(4, tuple(replace(edge, converter=None) for edge in edges))
    assert greedy_groups(apart, 10).labels == (0, 0, 1, 2)
    assert greedy_groups(apart, 30).costs == (30,)


def test_groups_that_wait_for_each_other_are_not_valid() -> None:
    graph = FusionGraph(3, (FusionEdge(0, 1, 0, 8, 0), FusionEdge(1, 2, 0, 8, 1)))
    assert not is_acyclic(graph.links, (0, 1, 0))
    assert not Groups(graph, (0, 1, 0)).is_valid(UNLIMITED)
    assert Groups(graph, (0, 0, 1)).is_valid(UNLIMITED)


def test_graphs_that_are_not_in_order_or_too_large_are_refused() -> None:
    with pytest.raises(CompileError, match=r"edge 0 .* found 1 to 0; number the kernels"):
        FusionGraph(2, (FusionEdge(1, 0, 0, 8, 0),))
    with pytest.raises(CompileError, match=r"edge 0 .* neither is negative"):
        FusionGraph(2, (FusionEdge(0, 1, -1, 8, 0),))
    with pytest.raises(CompileError, match="at most 10 kernels, found 11"):
        best_groups(FusionGraph(11, ()), 0)
