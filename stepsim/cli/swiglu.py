"""The gated feed-forward layer as the command line runs and inspects it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stepsim.cli.case import Case
from stepsim.cli.machine_choice import DEFAULT_MACHINE
from stepsim.cli.options import (
    ComputeBw,
    Config,
    check_counts,
    check_divisor,
    depth,
    number,
    resolve_depth,
)
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.machine import Machine

__all__ = ["PUBLISHED_MACHINE", "SwigluChoice", "swiglu_case"]

PUBLISHED_MACHINE = "sda-hdl"
"""Machine of the published experiment."""

_COMPUTE_BW = 4096
_PAR_DISPATCH = 4
_FIFO_DEPTH = 1


@dataclass(frozen=True, slots=True)
class SwigluChoice:
    """The options of the workload as given; None means not given."""

    tile: Annotated[int, typer.Option(metavar="N", help="Rows per tile.")]
    tile_inter: Annotated[
        int, typer.Option(metavar="N", help="Columns per tile of the inner dimension.")
    ]
    batch: Annotated[int | None, typer.Option(metavar="N", help="Rows.")] = None
    hidden: Annotated[
        int | None, typer.Option(metavar="N", help="Width of rows; is not tiled.")
    ] = None
    intermediate: Annotated[int | None, typer.Option(metavar="N", help="Inner dimension.")] = None
    compute_bw: ComputeBw = None
    par_dispatch: Annotated[
        int | None, number(_PAR_DISPATCH, "Requests that a memory operator makes per cycle.")
    ] = None
    fifo_depth: Annotated[int | None, depth(_FIFO_DEPTH)] = None
    dtype: Annotated[Literal["f32", "bf16"], typer.Option(help="Type of all scalars.")] = "f32"
    config: Config = None

    @property
    def default_machine(self) -> str:
        """The machine to take when none is given."""
        return DEFAULT_MACHINE if self.config is None else PUBLISHED_MACHINE

    def resolve(self, machine: Machine) -> dict[str, Any]:
        """Arguments of ``swiglu_layer``, with the type of scalars as text.

        What is not given is the machine's, else that of ``config``, else a default.

        Raises
        ------
        ArgError : a size is missing or out of range, or a tile does not divide.
        """
        from stepsim.workloads import published_swiglu_config

        check_counts(
            batch=self.batch,
            hidden=self.hidden,
            intermediate=self.intermediate,
            compute_bw=self.compute_bw,
            par_dispatch=self.par_dispatch,
            fifo_depth=self.fifo_depth,
        )
        known: dict[str, Any] = {}
        if self.config == "published":
            known = published_swiglu_config(self.tile, self.tile_inter)
        sizes: dict[str, int] = {}
        for name in ("batch", "hidden", "intermediate"):
            size = getattr(self, name) or known.get(name)
            if size is None:
                raise ArgError(
                    f"--{name}: the size is missing; give --batch, --hidden and --intermediate, "
                    "or --config published"
                )
            sizes[name] = size
        batch, inner = sizes["batch"], sizes["intermediate"]
        check_divisor("--tile", self.tile, batch, f"the batch of {batch}")
        check_divisor("--tile-inter", self.tile_inter, inner, f"the inner dimension {inner}")
        return {
            **sizes,
            "tile": self.tile,
            "tile_inter": self.tile_inter,
            "compute_bw": self.compute_bw or known.get("compute_bw", _COMPUTE_BW),
            "par_dispatch": self.par_dispatch or known.get("par_dispatch", _PAR_DISPATCH),
            "fifo_depth": resolve_depth(
                self.fifo_depth, machine, known.get("fifo_depth"), _FIFO_DEPTH
            ),
            "dtype": self.dtype,
        }


def swiglu_case(choice: SwigluChoice, machine: Machine, memory_model: str) -> Case:
    """The layer, built; nothing of it depends on data."""
    from stepsim.graph import DType
    from stepsim.report.summary import ProgramNumbers
    from stepsim.workloads import swiglu_layer

    found = choice.resolve(machine)
    work = swiglu_layer(**{**found, "dtype": DType[found["dtype"]]})
    metrics = work.metrics(memory=memory_model)
    return Case(
        workload="swiglu",
        program=work.program,
        title=(
            f"SwiGLU {work.batch} x {work.hidden} x {work.intermediate}, "
            f"tile {work.tile} x {work.tile_inter}"
        ),
        settings=(
            f"{found['dtype']} scalars, compute {work.compute_bw} FLOPs/cycle, "
            f"{found['par_dispatch']} requests/cycle per memory operator, "
            f"FIFO depth {found['fifo_depth']}"
        ),
        parameters=found,
        inputs={},
        numbers=ProgramNumbers(
            offchip_bytes=metrics.off_chip_traffic,
            onchip_bytes=metrics.on_chip_memory,
            flops=metrics.flops,
            # Tiles divide the layer, so nothing fills them up.
            padded_flops=0,
            allocated_flops_per_cycle=work.allocated_compute,
        ),
    )
