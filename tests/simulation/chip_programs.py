"""Programs on several chips, with a machine for them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as hs

import stepsim as st

__all__ = ["chip_machine", "chip_programs", "reduced"]


def chip_machine(**changed: Any) -> st.Machine:
    """Four chips in a ring, each like sda-1024; keys with ``__`` for dots."""
    values = {
        "chips.count": 4, "chips.topology": "ring", "chips.gib_per_s": 50,
        "chips.latency_ns": 500, "clock_ghz": 1,
    } | {key.replace("__", "."): value for key, value in changed.items()}  # fmt: skip
    return st.load_machine("sda-1024", values)


def reduced(chips: int, rows: int = 64, algorithm: str = "ring") -> st.Program:
    """Every chip loads rows, all sum them, and each stores the sum."""
    with st.Program("reduced", compute_bw=1024, par_dispatch=4) as program:
        xs = []
        for chip in range(chips):
            with st.chip(chip):
                load = st.linear_load(st.spec(rows, 64, name=f"x{chip}"), tile=(16, 64))
                xs.append(load.flatten(0, 1))
        for chip, y in enumerate(st.nn.all_reduce(xs, algorithm=algorithm)):
            with st.chip(chip):
                st.linear_store(y, f"y{chip}")
    return program


@hs.composite
def chip_programs(draw: hs.DrawFn) -> tuple[st.Program, st.Machine]:
    """Chains and joins of loads on random chips, and a machine with random links."""
    chips = draw(hs.integers(3, 5))
    machine = chip_machine(
        chips__count=chips,
        chips__topology=draw(hs.sampled_from(["ring", "fully-connected", "switch"])),
        chips__gib_per_s=draw(hs.sampled_from([0.7, 5, 50, 5000])),
        chips__latency_ns=draw(hs.sampled_from([0, 0.5, 30, 500])),
    )
    chip = hs.integers(0, chips - 1)
    rows = draw(hs.sampled_from([16, 48, 96]))
    with st.Program("drawn", compute_bw=draw(hs.sampled_from([64, 4096]))) as program:
        ends = []
        for number in range(draw(hs.integers(1, 3))):
            with st.chip(draw(chip)):
                x = st.linear_load(st.spec(rows, 64, name=f"x{number}"), tile=(16, 64))
                x = x.flatten(0, 1)
            for _ in range(draw(hs.integers(0, 3))):
                with st.chip(draw(chip)):
                    x = x.map(st.fn.silu)
            ends.append(x)
        while len(ends) > 1:
            with st.chip(draw(chip)):
                ends = [*ends[2:], st.zip(*ends[:2]).map(st.fn.add)]
        for number in range(draw(hs.integers(1, 2))):
            with st.chip(draw(chip)):
                st.linear_store(ends[0], f"y{number}")
    return program, machine
