"""Make one run: build its program, simulate it, and measure it as the published figures do."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from stepsim.machine import load_machine
from stepsim.reproduce.inputs import Inputs
from stepsim.reproduce.points import Run
from stepsim.simulation import simulate
from stepsim.workloads import (
    attention,
    decoder_layer,
    moe_layer,
    published_attention_config,
    published_config,
    published_decoder_config,
    published_swiglu_config,
    published_time_multiplexing_config,
    swiglu_layer,
    time_multiplexed_moe,
)

__all__ = ["Outcome", "make"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run cost; bytes and FLOPs in the convention of the figure that shows it.

    Attributes
    ----------
    padded_flops : the part of ``flops`` spent on padding rows; None where nothing is padded.
    allocated_flops : FLOPs per cycle of all operators that the figures count.
    peak_bandwidth : off-chip bytes per cycle of the machine.
    wall_seconds : the simulation alone.
    seconds : building, lowering, simulating and measuring.
    problem : why a run is not ok, else empty.
    """

    status: str
    cycles: int
    offchip_bytes: int
    onchip_bytes: int
    flops: int
    padded_flops: int | None
    allocated_flops: int
    peak_bandwidth: float
    memory_requests: int
    engine_steps: int
    program_hash: str
    wall_seconds: float
    seconds: float
    problem: str = ""

    @property
    def compute_utilization(self) -> float:
        """FLOPs per cycle over those allocated."""
        return self.flops / self.cycles / self.allocated_flops

    @property
    def bandwidth_utilization(self) -> float:
        """Off-chip bytes per cycle over the peak."""
        return self.offchip_bytes / self.cycles / self.peak_bandwidth


def make(run: Run, inputs: Inputs) -> Outcome:
    """Build, simulate and measure.

    Raises
    ------
    TraceError : a trace cannot be used.
    """
    begin = time.perf_counter()
    program, numbers = _build(run, inputs)
    machine = load_machine(run.machine, {"closure_slack": run.closure_slack})
    result = simulate(program, machine=machine)
    measured = numbers()
    return Outcome(
        status=result.status,
        cycles=result.cycles,
        **measured,
        peak_bandwidth=result.peak_bandwidth,
        memory_requests=result.memory_requests,
        engine_steps=result.engine_steps,
        program_hash=str(result.provenance["program_hash"]),
        wall_seconds=result.wall_seconds,
        seconds=time.perf_counter() - begin,
        problem="" if result.diagnosis is None else str(result.diagnosis),
    )


def _build(run: Run, inputs: Inputs) -> tuple[Any, Any]:
    """The program, and a function that measures it."""
    config: dict[str, Any]
    if run.workload == "swiglu":
        config = published_swiglu_config(int(run.tile), int(run.tile_inter or 0))
        layer = swiglu_layer(**config | {"fifo_depth": run.fifo_depth})
        return layer.program, lambda: _numbers(layer.metrics(), layer.allocated_compute)
    if run.workload == "attention":
        config = published_attention_config(run.batch, run.strategy)
        own = {"max_length": run.max_length, "fifo_depth": run.fifo_depth}
        heads = attention(kv_lengths=inputs.lengths(run), **config | own)
        return heads.program, lambda: _numbers(heads.metrics(), heads.allocated_compute)
    table = inputs.routing(run)
    if run.workload == "decoder":
        config = published_decoder_config(run.model, run.strategy)
        stack = decoder_layer(kv_lengths=inputs.lengths(run), indices=table, **config)
        return stack.program, lambda: _numbers(stack.metrics(table), stack.allocated_compute)
    if run.workload == "moe":
        config = published_config(run.model, run.batch, run.tile)
        experts = moe_layer(**config | {"fifo_depth": run.fifo_depth}, indices=table)
    else:
        config = published_time_multiplexing_config(run.tile, run.regions or 0)
        experts = time_multiplexed_moe(**config | {"fifo_depth": run.fifo_depth}, indices=table)
    return experts.program, lambda: {
        **_numbers(experts.published_metrics(table), experts.allocated_compute),
        "flops": experts.published_flops(table),
        "padded_flops": experts.published_padded_flops(table),
    }


def _numbers(metrics: Any, allocated: int) -> dict[str, Any]:
    return {
        "offchip_bytes": int(metrics.off_chip_traffic),
        "onchip_bytes": int(metrics.on_chip_memory),
        "flops": int(metrics.flops),
        "padded_flops": None,
        "allocated_flops": allocated,
    }
