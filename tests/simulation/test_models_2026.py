"""What the model of a machine changes, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.graph import Program, Stream
from stepsim.kernels.driver import execute
from stepsim.lowering import TimingParams, build_image, lower
from stepsim.machine import Machine, load_machine
from stepsim.simulation import simulate
from tests.engine_backend import to_result
from tests.functional.support import run_both, tiles
from tests.oracle.build import NetBuilder
from tests.oracle.example import payload_tokens, tile_tokens
from tests.oracle.interpreter import interpret
from tests.oracle.payloads import selector


def _machine(model: str) -> Machine:
    return load_machine("sda-1024", {"model": model})


def _stamps(program: Program, stream: Stream, model: str) -> list[int]:
    wiring, network = lower(program, _machine(model), None, 100)
    image = build_image(network)
    result = to_result(image, execute(image, history=True))
    return [token[0] for token in result.tokens[image.channel_names[wiring.fifo_of(stream)]]]


def test_copies_but_the_first_leave_one_cycle_later() -> None:
    with Program() as p:
        copies = st.metadata([1]).repeat([2, 2])
        copies.consume()
    first = _stamps(p, copies, "step-2025")
    assert first == [first[0], first[0], first[0] + 1, first[0] + 2]
    assert _stamps(p, copies, "step-2026") == [first[0] + i for i in range(4)]


@pytest.mark.parametrize("model", ["step-2025", "step-2026"])
def test_shapes_and_values_do_not_depend_on_the_model(model: str) -> None:
    with Program(compute_bw=4) as p:
        x, _ = tiles((4,), 1, 2)
        which = st.selector(np.eye(2, dtype=int)[[0, 1, 0, 1]])
        parts = st.partition(x.repeat([2, 3]), which)
        for part in parts:
            st.linear_store(part)
    assert [str(d) for d in parts[0].shape] == ["2", "2", "3"]
    run_both(p)
    assert simulate(p, machine=_machine(model)).status == "ok"


@pytest.mark.parametrize(("model", "status"), [("step-2025", "failed"), ("step-2026", "ok")])
def test_partition_of_rank_0_passes_plain_tokens(model: str, status: str) -> None:
    """A stop in the data that the selectors do not have."""
    b = NetBuilder(TimingParams(model=model))
    b.unit("source", "Gen", [], ["x"], tokens=tile_tokens([1, 16, 2, 0], [0, 1, 2]))
    chosen = payload_tokens([selector([i % 2], 2) for i in range(3)], [0, 0, 0])
    b.unit("choice", "Gen", [], ["s"], tokens=chosen)
    b.unit("split", "Partition", ["x", "s"], ["a", "b"], rank=0, wb=False, switch=[1, 1])
    for name in "ab":
        b.unit(f"sink {name}", "Consumer", [name], [])
    network = b.network()
    image = build_image(network)
    found = to_result(image, execute(image, history=True))
    assert (found.status, interpret(network).status) == (status, status)
    if status == "ok":
        assert [token[1] for name in "ab" for token in found.tokens[name]] == [0, 0, 0]
