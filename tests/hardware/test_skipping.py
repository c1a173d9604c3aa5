"""Looking only at the units that can act, and skipping idle cycles, changes nothing."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import assume, given, strategies as draw

import stepsim as st
from stepsim.hardware import HardwareResult, Machine, Network
from tests.property_profile import profile

_PERIODS = draw.sampled_from([1, 1, 2, 5, 40])
_DIMS = draw.lists(draw.integers(1, 5), min_size=1, max_size=4)


@draw.composite
def networks(draws: draw.DrawFn) -> Network:
    """A few streams from memory or a test bench through units, to memory or a sink."""
    net = Network("drawn")
    for i in range(draws(draw.integers(1, 3))):
        dims = draws(_DIMS)
        fifo = net.reader(f"r{i}", dims, start=draws(draw.sampled_from([0, 0, 7, 600])))
        last = len(dims)
        for j in range(draws(draw.integers(0, 4))):
            name = f"u{i}.{j}"
            kind = draws(draw.sampled_from(["map", "sum", "promote", "buffer", "fork", "matmul"]))
            if kind == "map":
                fifo = net.map(name, fifo, interval=draws(_PERIODS), latency=draws(_PERIODS))
            elif kind == "sum" and last > 1:
                fifo, last = net.inner_sum(name, fifo), last - 1
            elif kind == "promote":
                fifo, last = net.promote(name, fifo, 1), last + 1
            elif kind == "buffer":
                times = draws(draw.sampled_from([None, 1, 3]))
                fifo = net.buffer(name, fifo, min(2, last), times)
                last += times is not None
            elif kind == "fork":
                copy, fifo = net.fork(name, fifo)
                net.sink(copy, start=draws(draw.integers(0, 900)), period=draws(_PERIODS))
            elif kind == "matmul" and last > 2:
                left, right = net.fork(f"{name}.f", fifo)
                fifo = net.matmul(name, left, right, draws(draw.integers(1, 2)), 2)
        end = draws(draw.sampled_from(["writer", "printer", "sink"]))
        if end == "writer":
            net.writer(f"w{i}", fifo, last=last)
        elif end == "printer":
            net.printer(f"p{i}", fifo, last=last)
        else:
            net.sink(fifo, period=draws(_PERIODS), last=last)
    return net


_MACHINES = draw.builds(
    lambda depth, wake, sets, frames, arbiter, memory, clock: Machine(
        fifo_depth=depth,
        buffer={"wake_cycle": wake, "sets": sets, "frames": frames},
        memory={"arbiter": arbiter, **memory},
        clock_ghz=clock,
    ),
    draw.integers(1, 3),
    draw.sampled_from([0, 256, 400]),
    draw.sampled_from([2, 32]),
    draw.sampled_from([1, 2, 8]),
    draw.sampled_from(["rotating", "on-grant", "fair"]),
    draw.sampled_from(
        [
            {}, {"first_depth": 1, "second_depth": 2}, {"in_flight": 1, "table": 1},
            {"request_delay": 3, "return_delay": 30, "pointer": 1}, {"base_step": 1 << 16},
        ]
    ),
    draw.sampled_from([None, None, 0.7, 3.0]),
)  # fmt: skip


def _counts(result: HardwareResult) -> object:
    assert result.events is not None
    events = sorted(tuple(event.values()) for event in result.events.to_pylist())
    return {
        **{f.name: getattr(result, f.name) for f in dataclasses.fields(result)},
        "events": events,
    }


@pytest.mark.slow
@profile(25)
@given(networks(), _MACHINES)
def test_skipping_equals_looking_at_every_cycle(network: Network, machine: Machine) -> None:
    assume(not network.ports or machine.memory.pointer < network.ports)
    skipped, every = (
        st.hardware.simulate(network, machine, trace=True, max_cycles=2500, every_cycle=every_cycle)
        for every_cycle in (False, True)
    )
    assert _counts(skipped) == _counts(every)
