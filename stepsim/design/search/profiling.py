"""Kernels measured in isolation: D, II and T of each, simulated with all inputs available."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from stepsim.design.dataflow.graph import DataflowGraph, Kernel, Port
from stepsim.design.passes.memory.layout import relaid
from stepsim.design.plan.plan import Measured
from stepsim.design.programs.kernel_streams import output_of
from stepsim.dtypes import dtype_of
from stepsim.errors import CompileError
from stepsim.graph import Program, Stream, TensorSpec, fn, linear_load, map as map_
from stepsim.machine import Machine, load_machine
from stepsim.results import ENDED
from stepsim.simulation import prepare, run_image

_AT_HAND = {
    "hbm.model": "uncontended",
    "hbm.request_bytes": 1 << 20,
    "hbm.channels": 1024,
    "hbm.latency": 1,
    "hbm.interval": 1,
    "hbm.startup": 0,
    "hbm.port.outstanding": None,
}
"""Off-chip memory that takes no time, so that an isolated kernel never waits."""


_SIDE = 1 << 20
"""Rows that a tile can have."""


def profile(graph: DataflowGraph, machine: Machine) -> dict[str, Measured]:
    """Every kernel alone, by name. Kernels that differ in names only are measured once."""
    alone = load_machine(machine, _AT_HAND)
    known: dict[str, Measured] = {}
    found = {}
    for kernel in graph.kernels:
        if kernel.op.kind == "gather":
            # It reads by address from off chip, so that there is nothing to feed it with.
            tokens = kernel.output.itensor.tokens
            first = kernel.d + machine.hbm.latency + machine.hbm.startup
            pace = max(1, kernel.ii)
            found[kernel.name] = Measured(tokens, first, pace, first + (tokens - 1) * pace)
            continue
        program = _alone(kernel)
        key = program.fingerprint()
        if key not in known:
            known[key] = measured(program, kernel, alone)
        found[kernel.name] = known[key]
    return found


def _alone(kernel: Kernel) -> Program:
    """The kernel with a load for each operand, which only it reads, and nothing behind it."""
    with Program("kernel") as program:
        inputs = [_fed(port, slot) for slot, port in enumerate(kernel.inputs)]
        output_of(kernel, inputs).consume(label="out")
    return program


def _fed(port: Port, slot: int) -> Stream:
    rows, cols = port.tile
    tokens = port.itensor.tokens
    spec = TensorSpec((tokens * rows, cols), dtype_of(port.itensor.dtype), f"in{slot}")
    # In as few tiles as their largest side allows.
    parts = next(n for n in range(1, tokens + 1) if not tokens % n and tokens // n * rows <= _SIDE)
    whole = linear_load(
        spec, (tokens // parts * rows, cols), shape=[parts], stride=[1], label=f"all{slot}"
    )
    tiles = whole.flat_map(fn.unpack_rows(chunk=rows), label=f"cut{slot}")
    # What comes straight from memory is read from there, which takes the reader time.
    return map_(relaid((rows, cols), (rows, cols)), tiles, label=f"in{slot}")


def measured(program: Program, kernel: Kernel, machine: Machine) -> Measured:
    """A run of a kernel alone.

    Raises
    ------
    CompileError : it does not end.
    """
    prepared = prepare(program, machine)
    everything = dict.fromkeys(prepared.fifo_numbers)
    end = program.operators[-1].inputs[0]
    fifos = enumerate(prepared.wiring.fifos)
    ends = {
        number: fifo.stream is end
        for number, fifo in fifos
        if fifo.stream is end or str(fifo.stream.producer.label or "").startswith("in")
    }
    free = prepared.changed(fifo_depths=everything)
    # Of all others no token is read, and there are many.
    run = run_image(free.image(), free.timing, keep=set(ends), check=free.check({}))
    if run.totals.status not in ENDED:
        raise CompileError(
            f"{kernel.op.title()}: simulated alone, it ends with '{run.totals.status}'; report "
            "this as a bug"
        )
    fed: list[int] = []
    sent: NDArray[np.int64] = np.zeros(0, np.int64)
    for number, is_end in ends.items():
        if is_end:
            sent = run.tokens(number)["stamp"].astype(np.int64)
        else:
            fed.append(int(run.tokens(number)["stamp"][0]))
    tokens = kernel.output.itensor.tokens
    sent = sent[:tokens]
    begin = max(fed, default=0)
    first = max(1, int(sent[0]) - begin)
    return Measured(tokens, first, _pace(sent, kernel), max(first, int(sent[-1]) - begin))


def _pace(sent: NDArray[np.int64], kernel: Kernel) -> float:
    """Cycles between tokens; pauses in which a reduction takes in the next group do not count."""
    gaps = np.diff(sent)
    together = prod(loop.trip for loop in kernel.kept)
    if together > 1 and len(gaps) >= together:
        gaps = np.delete(gaps, np.arange(together - 1, len(gaps), together))
    return float(gaps.mean()) if len(gaps) else 0.0
