"""Random packets on meshes of all shapes, by the compiled model and by a plain program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stepsim as st
from tests.oracle.noc_link import arrivals


def _draw(seed: int) -> tuple[Any, dict[str, Any], list[tuple[int, int, int, int]], dict[str, Any]]:
    draw = np.random.default_rng(seed)
    rows, cols = (int(one) for one in draw.integers(1, 6, 2))
    flits = {
        "router": int(draw.integers(0, 6)), "wire": int(draw.integers(0, 3)),
        "inject": int(draw.integers(0, 4)), "quantum": int(draw.integers(1, 9)),
    }  # fmt: skip
    network = st.noc.load_network(
        "mesh", {"rows": rows, "cols": cols, **{f"flits.{k}": v for k, v in flits.items()}}
    )
    count = int(draw.integers(1, 120))
    # From idle to far beyond what the network can take, and everything to one place.
    time = np.sort(draw.integers(0, int(draw.integers(1, 400)), count))
    draw.shuffle(time)
    source = draw.integers(0, rows * cols, count)
    to = draw.integers(0, rows * cols, count) if seed % 3 else np.full(count, rows * cols // 2)
    size = draw.integers(1, 20, count)
    packets = list(zip(*(one.tolist() for one in (time, source, to, size)), strict=True))
    more: dict[str, Any] = {}
    if seed % 2:
        after = [
            sorted(set(draw.integers(0, i, int(draw.integers(0, 3))).tolist())) if i else []
            for i in range(count)
        ]
        if any(after):
            delays = [
                d if a else 0
                for d, a in zip(draw.integers(0, 30, count).tolist(), after, strict=True)
            ]
            more = {"after": after, "delay": delays}
    return network, flits, packets, more


@pytest.mark.parametrize("seed", range(60))
def test_every_packet_arrives_when_the_plain_program_says(seed: int) -> None:
    network, flits, packets, more = _draw(seed)
    columns = dict(
        zip(("time", "source", "destination", "flits"), zip(*packets, strict=True), strict=True)
    )
    run = st.noc.simulate({name: list(one) for name, one in columns.items()} | more, network)
    assert run.arrival.tolist() == arrivals(packets, network.cols, **flits, **more)
