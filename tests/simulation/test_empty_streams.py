"""An expert without tokens is no error: its stream is empty, and so is what is made of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.graph import Program, Stream, fn
from stepsim.lowering import lower
from stepsim.machine import load_machine
from stepsim.simulation import simulate
from tests.functional.support import run_both, tiles
from tests.oracle.interpreter import interpret
from tests.simulation.inferred import compare

USES: dict[str, Callable[[Stream], Stream]] = {
    "chunks": lambda x: x.reshape(2, pad=0, add_outer=True),
    "packed": lambda x: x.reshape(2, pad=0, add_outer=True).accum(fn.pack_rows, 1),
    "packed whole": lambda x: x.reshape(2, pad=0, add_outer=True).accum(fn.pack_rows, 2),
    "promoted": lambda x: x.promote(),
    "reduced": lambda x: x.promote().accum(fn.add, 1),
    "buffered": lambda x: x.promote().bufferize(1).streamify(repeat=2),
    "buffered and walked": lambda x: x.promote().bufferize(1).streamify(repeat=[2, 3]),
    "read once for": lambda x: x.promote().bufferize(1).streamify(x.promote().accum(fn.add, 1)),
    "counted for": lambda x: st.counter(3, ref=x),
    "triggered for": lambda x: st.linear_load(
        np.ones((4, 2), np.float32), (2, 2), ref=x.promote(), trigger_rank=1, transposed=True
    ),
    "bypassed for": lambda x: st.linear_load(
        np.ones((4, 2), np.float32), (2, 2), ref=x, bypass=True
    ),
    "in turn": lambda x: st.parallelize(x.promote(), 1)[0],
    "loaded for": lambda x: st.linear_load(np.ones((4, 2), np.float32), (2, 2), ref=x),
    "rows": lambda x: x.flat_map(fn.unpack_rows()),
    "promoted twice": lambda x: x.promote().promote(),
    "promoted chunks": lambda x: x.reshape(2, pad=0).promote(),
    "collected": lambda x: st.static_reassemble(st.parallelize(x, 2)),
    "lanes": lambda x: st.interleave(st.deinterleave(x.repeat(2), 2)),
    "repeated": lambda x: x.repeat_ref(x.repeat([2, 2]), rank=1).take_last(),
    "kept rows": lambda x: x.filter_rows(),
    "masked": lambda x: (lambda made: made[0].filter_rows(made[1]))(x.reshape(2, pad=0, mask=True)),
}


def _program(use: Callable[[Stream], Stream], bound: bool) -> Program:
    with Program("empty", compute_bw=4) as p:
        x, _ = tiles((4,), 1, 2)
        if bound:
            which = st.selector(np.array([[1, 0]] * 4))
        else:
            which = st.routing([[0]] * 4, 2).multihot()
        busy, idle = st.partition(x, which)
        busy.consume()
        use(idle).consume()
    return p


CASES = [(use, bound) for bound in (True, False) for use in USES.values()]


@pytest.mark.parametrize(("use", "bound"), CASES, ids=[*USES, *(f"routed {u}" for u in USES)])
def test_engine_oracle_values_and_metrics_accept_an_empty_stream(
    use: Callable[[Stream], Stream], bound: bool
) -> None:
    p = _program(use, bound)
    timed = simulate(p)
    assert timed.status == "ok"
    wiring, network = lower(p, load_machine("sda-1024"))
    assert interpret(network).cycles == timed.cycles
    result = run_both(p)
    assert all(
        result.stream(f.stream) == [] for f in wiring.fifos if f.stream.producer.id > 2
        and f.stream.producer.inputs and f.stream.output == len(f.stream.producer.outputs) - 1
    )  # fmt: skip
    assert compare(p) == "ok"
    assert p.metrics().bind().off_chip_traffic == timed.offchip_bytes == 32


def test_a_buffer_is_read_no_time_for_an_empty_reference() -> None:
    def read(x: Stream) -> Stream:
        b = tiles((1, 2), 1, 2)[0].bufferize(1)
        return b.streamify(x, shape=(2, 2), stride=(0, 1))

    p = _program(read, bound=False)
    timed = simulate(p)
    assert timed.status == "ok"
    assert interpret(lower(p, load_machine("sda-1024"))[1]).cycles == timed.cycles
    result = run_both(p)
    (made,) = (op.outputs[0] for op in p.operators if op.name == "streamify")
    assert result.stream(made) == []
    assert compare(p) == "ok"
