"""The moves and the memory of a search of a placement, of which placement.md says how they grow."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from stepsim.kernels import Annealing
from stepsim.machine import load_network
from stepsim.noc import Topology, Whole, memory_places, worker_places
from stepsim.placement import search
from stepsim.placement.search import searched
from tests.placement.test_search import drawn

_STARTS = 8


def places(rows: int, operators: int, *, effort: float, streams: int = 12, seed: int = 0) -> Whole:
    network = load_network("mesh", {"rows": rows, "cols": rows})
    tiles, memory = worker_places(network), memory_places(network)
    flows = drawn(operators, 1, streams, seed)
    first = np.concatenate([tiles[:operators], memory[:1]])
    return searched(
        flows, Topology(network), tiles, memory, first, per_tile=1, seed=seed, effort=effort
    )


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The moves of every call of the search, none of which is made."""
    found: list[int] = []

    def count(state: Annealing) -> None:
        found.append(int(state.words[-1]))
        assert len(state.item) == len(state.goal) == len(state.chance) == found[-1]
        state.score[2:] = 0

    monkeypatch.setattr(search, "anneal", count)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "operators", "usual"), [(3, 6, 200_000), (11, 99, 200_000), (11, 120, 242_000),
                                     (23, 520, 1_000_000)],
)  # fmt: skip
@pytest.mark.parametrize("effort", [1e-9, 0.01, 2.5])
def test_moves_are_the_usual_ones_times_the_effort(
    moves: list[int], rows: int, operators: int, usual: int, effort: float
) -> None:
    places(rows, operators, effort=effort)
    assert sum(moves) == _STARTS * max(1, int(effort * usual))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_effort(
    moves: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_AT_ONCE", 20_000)

    def peak(effort: float) -> int:
        tracemalloc.start()
        places(3, 6, effort=effort)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(2.5) < 1.2 * peak(0.5)
    assert max(moves) == 20_000
    assert sum(moves) == _STARTS * 3 * 200_000


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 7, 999, 1000, 1001, 1500])
def test_parts_of_the_moves_find_the_same_placement(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    whole = places(4, 12, effort=0.0075, seed=3)
    monkeypatch.setattr(search, "_AT_ONCE", at_once)
    assert places(4, 12, effort=0.0075, seed=3).tolist() == whole.tolist()
