"""Users' own address traces: what is refused, and the ends of what is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stepsim.dram import random_blocks, sequential, simulate
from stepsim.errors import ArgError


def test_nothing_and_one() -> None:
    nothing = simulate([])
    assert (nothing.cycles, nothing.metrics()["requests"], nothing.table().num_rows) == (0, 0, 0)
    assert simulate([1 << 62]).done.tolist() == [19]
    write = simulate([0], [True])
    assert (write.done.tolist(), write.cycles) == ([-1], 8)


@pytest.mark.parametrize("policy", ["streams", "picked"])
def test_late_and_rare_attempts_end(policy: str) -> None:
    late = simulate([0, 64], earliest=[1 << 50, 0], policy=policy)
    assert late.accepted.tolist() == [1 << 50, (1 << 50) + (policy == "picked")]
    rare = simulate([0, 64], every=1 << 40, rounds=1, policy=policy)
    assert rare.accepted.tolist() == [0, 1 << 40]
    quiet = simulate([0, 64], gap=1 << 40, outstanding=1, policy=policy)
    assert quiet.accepted.tolist() == [0, 19 + (1 << 40)]


def test_window_of_four_activations() -> None:
    run = simulate(np.arange(8) * 8192, log=50)
    acts = [one["clock"] for one in run.commands().to_pylist() if one["command"] == "ACT"]
    assert acts == [1, 3, 5, 7, 17, 19, 21, 23]


def test_of_equal_age_the_one_activated_first_goes() -> None:
    # Three bank groups of a pseudo-channel: the second and third read are both ready at clock 12.
    assert simulate([0, 8192, 16384]).command.tolist() == [8, 12, 16]


def test_many_reads_of_one_write_return_one_by_one() -> None:
    count = 5000
    run = simulate([0] * (count + 1), [True] + [False] * count)
    assert run.counts["forwarded"] > 4000
    assert len(set(run.done[1:].tolist())) == count


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"addresses": [-16]}, "addresses: expected numbers from 0"),
        ({"addresses": [0.5]}, "whole numbers"),
        ({"addresses": [[0]]}, "2 dims"),
        ({"addresses": [0], "writes": [2]}, "writes: expected true or false, found 2"),
        ({"addresses": [0], "streams": [1 << 30]}, "streams: expected numbers from 0 to 1048575"),
        ({"addresses": [0], "earliest": [1 << 62]}, "earliest: expected numbers"),
        ({"addresses": [0, 1], "earliest": [0]}, "one number for each of 2 addresses"),
        ({"addresses": [0], "every": 0}, "every must be an int from 1"),
        ({"addresses": [0], "gap": 10**30}, "gap must be"),
        ({"addresses": [0], "log": -1}, "log must be"),
        ({"addresses": [0], "request_bytes": 0}, "request_bytes must be"),
        ({"addresses": [0], "policy": ["streams"]}, "'streams' or 'picked'"),
        ({"addresses": [0], "spec": 3}, "spec: expected the name of a preset"),
        ({"addresses": pa.table({"adress": [0]})}, "found the columns adress"),
        (
            {"addresses": pa.table({"address": [0], "Write": [True]})},
            "addresses: the table has an unknown column 'Write'; did you mean 'write'? Known are "
            "address, write, stream, earliest; rename it, or select these alone",
        ),
        (
            {"addresses": pa.table({"address": [0], "write": [True]}), "writes": [False]},
            "writes: the table of addresses has a column 'write' too",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgError) as caught:
        simulate(**arguments)
    assert words in str(caught.value)


def test_tables_are_read_back() -> None:
    run = simulate(np.arange(40) * 16, np.arange(40) % 3 == 0, streams=np.arange(40) % 2)
    again = simulate(run.table().select(["stream", "address", "write"]))
    assert np.array_equal(run.done, again.done)


def test_patterns_refuse_what_they_cannot_divide() -> None:
    for block, footprint in ((24, 1024), (8, 1024), (64, 32)):
        with pytest.raises(ArgError):
            random_blocks(10, 16, block, footprint)
    with pytest.raises(ArgError):
        sequential(10, 0)
