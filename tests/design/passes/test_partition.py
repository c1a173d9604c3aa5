"""Die partitions against every placement."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from stepsim.design.passes.memory.dies import Stream, Task, crossings, imbalance, partition
from stepsim.errors import CompileError

CAPACITY = ({"lut": 100.0, "uram": 20.0}, {"lut": 100.0, "uram": 20.0}, {"lut": 80.0, "uram": 20.0})


def drawn(random: Random, tasks: int) -> tuple[list[Task], list[Stream]]:
    made = [
        Task(f"k{i}", {"lut": random.randint(5, 40), "uram": random.randint(0, 8)})
        for i in range(tasks)
    ]
    streams = [
        Stream(random.randrange(i), i, random.choice((8, 64, 256)))
        for i in range(1, tasks)
        for _ in range(random.choice((1, 1, 2)))
    ]
    return made, streams


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "count"), [(5, 20), (7, 6), pytest.param(10, 1, marks=pytest.mark.slow)]
)
def test_the_program_is_as_good_as_the_best_of_all_placements(tasks: int, count: int) -> None:
    random = Random(tasks)
    placed = 0
    for _ in range(count):
        made, streams = drawn(random, tasks)
        best = None
        for dies in product(range(3), repeat=tasks):
            if fits(made, dies):
                value = crossings(streams, dies) + 100 * imbalance(made, dies, CAPACITY)
                best = value if best is None else min(best, value)
        if best is None:
            with pytest.raises(CompileError, match="no placement"):
                partition(made, streams, CAPACITY, imbalance_weight=100)
            continue
        found = partition(made, streams, CAPACITY, imbalance_weight=100)
        assert len(found.dies) == tasks
        assert fits(made, found.dies)
        assert found.objective == pytest.approx(best, abs=1e-6)
        assert found.objective == found.crossings + 100 * found.imbalance
        placed += 1
    assert placed


def fits(tasks: list[Task], dies: tuple[int, ...]) -> bool:
    for die, has in enumerate(CAPACITY):
        for name, most in has.items():
            used = sum(t.resources[name] for t, d in zip(tasks, dies, strict=True) if d == die)
            if used > most:
                return False
    return True


def test_a_stream_crosses_every_border_on_its_way() -> None:
    assert crossings([Stream(0, 1, 8), Stream(1, 2, 4)], (0, 2, 1)) == 8 * 2 + 4
    assert imbalance([Task("a", {"x": 3})], (1,), ({"x": 4}, {"x": 4})) == 0.75


def test_what_cannot_be_placed_is_named() -> None:
    tasks = [Task("fc1", {"lut": 90}), Task("fc2", {"lut": 60})]
    with pytest.raises(CompileError, match=r"150 of lut in all, .* 100; kernel 'fc1' takes most"):
        partition(tasks, [], [{"lut": 50}, {"lut": 50}])
    with pytest.raises(CompileError, match=r"'fc1' needs lut, and the dies have \['ff'\]"):
        partition(tasks, [], [{"ff": 50}])
    with pytest.raises(CompileError, match="one die or more"):
        partition(tasks, [], [])
    with pytest.raises(CompileError, match="die 1 must have more than 0"):
        partition(tasks, [], [{"lut": 50}, {"lut": 0}])
    assert partition([], [], [{"lut": 1}]).dies == ()
