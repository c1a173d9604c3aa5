"""What a small change of the machine does to the published tilings, by independent models of it."""

from __future__ import annotations

from functools import cache

import pytest

import stepsim as st
from stepsim.reproduce.published import table_rows
from tests.samples import sampled

_CHANGES = {
    "pointer 1": ({"memory.pointer": 1}, 2.8, 9.0),
    "pointer 2": ({"memory.pointer": 2}, 3.1, 11.3),
    "pointer 3": ({"memory.pointer": 3}, 2.5, 6.3),
    "data one cycle later": ({"memory.return_delay": 1}, 3.6, 10.8),
    "queues of 32": ({"dram.read_queue": 32, "dram.write_queue": 32}, 3.2, 8.0),
    "FIFOs of 3": ({"fifo_depth": 3}, 3.0, 4.5),
    "no stop word": ({"stop_bytes": 0}, 4.5, 13.8),
    "1 MiB apart": ({"memory.base_step": 1 << 20}, 7.2, 11.3),
    "awake at once": ({"buffer.wake_cycle": 0}, 0.0, 0.0),
}


@cache
def _tilings() -> dict[tuple[int, int], int]:
    rows = [row for row in table_rows("point") if row["point_id"].startswith("f8_hdl_")]
    return {(int(row["tile_N"]), int(row["tile_F"])): int(row["cycles"]) for row in rows}


_QUICK = ("data one cycle later", "queues of 32")
"""Left in the suite that runs at every change."""


@pytest.mark.slow
@pytest.mark.parametrize("change", sampled(_CHANGES, *_QUICK))
def test_errors_are_those_of_the_exact_model(change: str) -> None:
    values, mean, worst = _CHANGES[change]
    machine = st.hardware.load_machine("hdl", values)
    errors = [
        100 * abs(st.hardware.simulate(st.hardware.swiglu(64, 256, 512, *tiling), machine).cycles
                  / cycles - 1)
        for tiling, cycles in _tilings().items()
    ]  # fmt: skip
    assert len(errors) == 10
    assert (round(sum(errors) / len(errors), 1), round(max(errors), 1)) == (mean, worst)


def test_turn_that_waits_for_a_grant_locks_up() -> None:
    machine = st.hardware.load_machine("hdl", {"memory.arbiter": "on-grant"})
    ends = [
        st.hardware.simulate(st.hardware.swiglu(64, 256, 512, *tiling), machine).status
        for tiling in _tilings()
    ]
    assert ends.count("stall") > len(ends) / 2
