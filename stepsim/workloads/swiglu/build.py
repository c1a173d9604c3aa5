"""The program of the gated feed-forward layer of the hardware validation (STeP paper, figure 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.graph import Program, fn, linear_load, linear_store, map as map_stream, map_accum, spec
from stepsim.workloads.built import Built, Counted
from stepsim.workloads.inputs import Data

if TYPE_CHECKING:
    from stepsim.workloads.swiglu.parameters import Swiglu


class BuiltSwiglu(Built):
    """A built layer; none of its sizes depends on data, and tiles divide them."""

    def __init__(self, program: Program, workload: Swiglu) -> None:
        super().__init__(program)
        self.workload = workload

    def tokens(self, data: Data) -> int:
        return self.workload.batch

    def padded_flops(self, data: Data) -> int:
        return 0

    def published(self, data: Data) -> Counted:
        bound = self.program.metrics(counting="published").bind()
        return Counted(
            offchip_bytes=bound.off_chip_traffic,
            onchip_bytes=bound.on_chip_memory,
            flops=bound.flops,
            padded_flops=0,
            allocated_flops_per_cycle=bound.allocated_compute,
        )


def build_swiglu(workload: Swiglu) -> BuiltSwiglu:
    """The layer; the hidden dimension stays untiled.

    The activations are read again for every inner tile and the weights for every row tile.
    """
    batch, hidden, intermediate = workload.batch, workload.hidden, workload.intermediate
    tile, tile_inter, types = workload.tile, workload.tile_inter, workload.types
    rows, steps = batch // tile, intermediate // tile_inter
    with Program(
        f"swiglu_{tile}_{tile_inter}",
        compute_bw=workload.compute_bw,
        par_dispatch=workload.par_dispatch,
        fifo_depth=workload.fifo_depth,
    ) as program:
        x = linear_load(
            spec(batch, hidden, dtype=types.activations, name="activations"), (tile, hidden),
            shape=(rows, steps, 1), stride=(1, 0, 1), label="activations",
        )  # fmt: skip
        gate_w, up_w = (
            linear_load(
                spec(hidden, intermediate, dtype=types.weights, name=what), (hidden, tile_inter),
                shape=(rows, steps, 1), stride=(0, 1, steps), label=what,
            )
            for what in ("gate", "up")
        )  # fmt: skip
        gate = map_accum(fn.matmul, x, gate_w, 1, label="matmul_gate")
        up = map_accum(fn.matmul, x, up_w, 1, label="matmul_up")
        inner = map_stream(fn.mul, map_stream(fn.silu, gate, label="silu"), up, label="mul")
        wide = inner.reshape(1, dim=1, label="columns")
        down_w = linear_load(
            spec(intermediate, hidden, dtype=types.weights, name="down"), (tile_inter, hidden),
            shape=(rows, 1, steps), stride=(0, 1, 1), label="down",
        )  # fmt: skip
        out = map_accum(fn.matmul, wide, down_w, 1, write_back=True, label="matmul_down")
        linear_store(out, "output", label="store")
    return BuiltSwiglu(program, workload)
