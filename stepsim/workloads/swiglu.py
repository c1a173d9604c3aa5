"""The gated feed-forward layer of the hardware validation (STeP paper, figure 8)."""

from __future__ import annotations

from stepsim.errors import ArgError
from stepsim.graph import Program, fn, linear_load, linear_store, map_accum, spec
from stepsim.graph import map as map_stream
from stepsim.graph.types import DType

__all__ = ["swiglu_layer"]


def swiglu_layer(
    tile_b: int,
    tile_inter: int,
    *,
    batch: int = 64,
    model_dim: int = 256,
    inner_dim: int = 512,
    compute_bw: int = 4096,
    par_dispatch: int = 4,
    fifo_depth: int | None = 1,
    dtype: DType = DType.f32,
    name: str | None = None,
) -> Program:
    """Build the layer for a row tile and an inner tile; the model dim stays untiled.

    The activations are read again for every inner tile and the weights for every row tile.
    """
    if min(tile_b, tile_inter) < 1 or batch % tile_b or inner_dim % tile_inter:
        raise ArgError(
            f"swiglu_layer: tile_b must divide {batch} and tile_inter {inner_dim}, found {tile_b}, "
            f"{tile_inter}"
        )
    rows, steps = batch // tile_b, inner_dim // tile_inter
    with Program(
        name or f"swiglu_{tile_b}_{tile_inter}",
        compute_bw=compute_bw, par_dispatch=par_dispatch, fifo_depth=fifo_depth,
    ) as program:  # fmt: skip
        x = linear_load(
            spec(batch, model_dim, dtype=dtype, name="activations"), (tile_b, model_dim),
            shape=(rows, steps, 1), stride=(1, 0, 1), label="activations",
        )  # fmt: skip
        gate_w, up_w = (
            linear_load(
                spec(model_dim, inner_dim, dtype=dtype, name=what), (model_dim, tile_inter),
                shape=(rows, steps, 1), stride=(0, 1, steps), label=what,
            )
            for what in ("gate", "up")
        )  # fmt: skip
        gate = map_accum(fn.matmul, x, gate_w, 1, label="matmul_gate")
        up = map_accum(fn.matmul, x, up_w, 1, label="matmul_up")
        hidden = map_stream(fn.mul, map_stream(fn.silu, gate, label="silu"), up, label="mul")
        wide = hidden.reshape(1, dim=1, label="columns")
        down_w = linear_load(
            spec(inner_dim, model_dim, dtype=dtype, name="down"), (tile_inter, model_dim),
            shape=(rows, 1, steps), stride=(0, 1, 1), label="down",
        )  # fmt: skip
        out = map_accum(fn.matmul, wide, down_w, 1, write_back=True, label="matmul_down")
        linear_store(out, "output", label="store")
    return program
