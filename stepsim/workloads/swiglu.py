"""The gated feed-forward layer of the hardware validation (STeP paper, figure 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stepsim.errors import ArgError
from stepsim.graph import Program, fn, linear_load, linear_store, map_accum, spec
from stepsim.graph import map as map_stream
from stepsim.graph.metrics import BoundMetrics
from stepsim.graph.types import DType

__all__ = ["SwiGLUWorkload", "published_swiglu_config", "swiglu_layer"]


@dataclass(frozen=True)
class SwiGLUWorkload:
    """A built layer: ``batch x hidden`` activations through ``intermediate`` gated units.

    Attributes
    ----------
    tile : rows per tile.
    tile_inter : columns per tile of the inner dimension.
    """

    program: Program
    batch: int
    hidden: int
    intermediate: int
    tile: int
    tile_inter: int
    compute_bw: int

    def metrics(self, *, memory: str = "published") -> BoundMetrics:
        """Bytes and FLOPs; no size of this layer depends on data."""
        return self.program.metrics(memory=memory).bind()

    @property
    def allocated_compute(self) -> int:
        """FLOPs per cycle of the two projections, SiLU, product and down projection."""
        return int(self.program.metrics().allocated_compute)


def published_swiglu_config(tile: int, tile_inter: int) -> dict[str, Any]:
    """Arguments of :func:`swiglu_layer` for a point of the hardware validation.

    The points ran on machine ``sda-hdl`` with 4-byte scalars.
    """
    return {
        "batch": 64,
        "hidden": 256,
        "intermediate": 512,
        "tile": tile,
        "tile_inter": tile_inter,
        "compute_bw": 4096,
        "par_dispatch": 4,
        "fifo_depth": 1,
        "dtype": DType.f32,
    }


def swiglu_layer(
    batch: int,
    hidden: int,
    intermediate: int,
    tile: int,
    tile_inter: int,
    *,
    compute_bw: int = 4096,
    par_dispatch: int = 4,
    fifo_depth: int | None = 1,
    dtype: DType = DType.f32,
    name: str | None = None,
) -> SwiGLUWorkload:
    """Build the layer for a row tile and an inner tile; the hidden dim stays untiled.

    The activations are read again for every inner tile and the weights for every row tile.
    """
    _check_tile("tile", tile, "batch", batch)
    _check_tile("tile_inter", tile_inter, "intermediate", intermediate)
    if isinstance(hidden, bool) or not isinstance(hidden, int) or hidden < 1:
        raise ArgError(f"swiglu_layer: hidden must be an int >= 1, found {hidden!r}")
    rows, steps = batch // tile, intermediate // tile_inter
    with Program(
        name or f"swiglu_{tile}_{tile_inter}",
        compute_bw=compute_bw, par_dispatch=par_dispatch, fifo_depth=fifo_depth,
    ) as program:  # fmt: skip
        x = linear_load(
            spec(batch, hidden, dtype=dtype, name="activations"), (tile, hidden),
            shape=(rows, steps, 1), stride=(1, 0, 1), label="activations",
        )  # fmt: skip
        gate_w, up_w = (
            linear_load(
                spec(hidden, intermediate, dtype=dtype, name=what), (hidden, tile_inter),
                shape=(rows, steps, 1), stride=(0, 1, steps), label=what,
            )
            for what in ("gate", "up")
        )  # fmt: skip
        gate = map_accum(fn.matmul, x, gate_w, 1, label="matmul_gate")
        up = map_accum(fn.matmul, x, up_w, 1, label="matmul_up")
        inner = map_stream(fn.mul, map_stream(fn.silu, gate, label="silu"), up, label="mul")
        wide = inner.reshape(1, dim=1, label="columns")
        down_w = linear_load(
            spec(intermediate, hidden, dtype=dtype, name="down"), (tile_inter, hidden),
            shape=(rows, 1, steps), stride=(0, 1, 1), label="down",
        )  # fmt: skip
        out = map_accum(fn.matmul, wide, down_w, 1, write_back=True, label="matmul_down")
        linear_store(out, "output", label="store")
    return SwiGLUWorkload(program, batch, hidden, intermediate, tile, tile_inter, compute_bw)


def _check_tile(what: str, tile: int, whole_name: str, whole: int) -> None:
    """A tile size must divide the size that it cuts."""
    for role, value in ((whole_name, whole), (what, tile)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ArgError(f"swiglu_layer: {role} must be an int >= 1, found {value!r}")
    if whole % tile:
        raise ArgError(
            f"swiglu_layer: {what} must divide {whole_name} = {whole}, found {tile}. Choose a "
            f"divisor of {whole}"
        )
