"""The mixture-of-experts workload as the command line runs and inspects it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepsim.cli.case import Case
from stepsim.cli.inputs import routing_facts
from stepsim.cli.options import (
    ComputeBw,
    Config,
    ModelName,
    SharedRegions,
    TileInter,
    check_counts,
    check_divisor,
    depth,
    find_model,
    parse_tile,
    resolve_depth,
)
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.report.summary import ProgramNumbers
    from stepsim.trace_io import RoutingTable
    from stepsim.workloads import MoEShape, MoEWorkload

__all__ = [
    "MoeChoice",
    "MoeSettings",
    "build",
    "check_tile_inter",
    "moe_case",
    "padding_flops",
    "program_numbers",
]


@dataclass(frozen=True, slots=True)
class MoeSettings:
    """Everything that decides the program, apart from the routing.

    Attributes
    ----------
    tile : rows per tile, or ``"dynamic"``.
    tile_inter : columns per tile of the inner dimension.
    compute_bw, pack_bw : FLOPs per cycle of each operator, and of those that pack rows.
    fifo_depth : tokens each FIFO holds.
    regions : regions that the experts share; None is one for each, counted as if none shared.
    """

    tile: int | str
    tile_inter: int
    compute_bw: int
    pack_bw: int
    fifo_depth: int
    regions: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def describe(self) -> str:
        """In words, but for the tile."""
        return (
            f"tile-inter {self.tile_inter}, compute {self.compute_bw} FLOPs/cycle "
            f"(packing {self.pack_bw}), FIFO depth {self.fifo_depth}"
        )


@dataclass(frozen=True, slots=True)
class MoeChoice:
    """The options of the workload as given; None means not given.

    Raises
    ------
    ArgError : ``tile`` is no count of rows.
    """

    model: ModelName
    tile: Annotated[
        str,
        typer.Option(
            metavar="N|dynamic", help="Rows per tile, or as many as each expert has tokens."
        ),
    ]
    regions: SharedRegions = None
    tile_inter: TileInter = None
    compute_bw: ComputeBw = None
    fifo_depth: Annotated[int | None, depth(2)] = None
    config: Config = None

    def __post_init__(self) -> None:
        parse_tile(self.tile)

    def resolve(self, batch: int, machine: Machine) -> MoeSettings:
        """Fill in what is not given: the machine's, else that of ``config``, else a default.

        Raises
        ------
        ArgError : a value is out of range, or does not divide the model's experts or inner
            dimension.
        """
        from stepsim.workloads import MOE_DEFAULTS

        shape, tile = find_model(self.model), parse_tile(self.tile)
        check_counts(compute_bw=self.compute_bw, fifo_depth=self.fifo_depth)
        if self.regions is not None:
            experts = f"the {shape.experts} experts of {shape.name}"
            check_divisor("--regions", self.regions, shape.experts, experts)
        published = self.config == "published"
        known = _published(shape, batch, tile, self.regions) if published else {}
        inner = known.get("tile_inter", MOE_DEFAULTS["tile_inter"])
        if self.tile_inter is not None:
            inner = self.tile_inter
        check_tile_inter(shape, inner)
        bandwidth = self.compute_bw or known.get("compute_bw", MOE_DEFAULTS["compute_bw"])
        return MoeSettings(
            tile=tile,
            tile_inter=inner,
            compute_bw=bandwidth,
            pack_bw=known.get("pack_bw", bandwidth),
            fifo_depth=resolve_depth(
                self.fifo_depth, machine, known.get("fifo_depth"), MOE_DEFAULTS["fifo_depth"]
            ),
            regions=self.regions,
        )


def check_tile_inter(shape: MoEShape, tile_inter: int) -> None:
    """Refuse a tile width that does not divide the inner dimensions of all experts."""
    common = math.gcd(shape.inner_dim, shape.shared_inner)
    what = f"the inner dimension {common} of {shape.name}"
    check_divisor("--tile-inter", tile_inter, common, what)


def _published(shape: MoEShape, batch: int, tile: int | str, regions: int | None) -> dict[str, Any]:
    from stepsim.workloads import published_moe_config

    try:
        return published_moe_config(shape, batch, tile, regions)
    except ArgError as error:
        raise ArgError(f"--config published: {error}") from None


def moe_case(
    choice: MoeChoice,
    tokens: int,
    routing: RoutingTable | None,
    machine: Machine,
    memory_model: str,
    *,
    symbolic: bool = False,
) -> Case:
    """The layer for a routing of ``tokens``; ``symbolic`` keeps its shapes and metrics formulas.

    Raises
    ------
    ArgError : see `MoeChoice.resolve`.
    """
    shape, settings = find_model(choice.model), choice.resolve(tokens, machine)
    workload = build(shape, tokens, settings, None if symbolic else routing)
    shared = settings.regions is not None
    regions = f", {settings.regions} regions" if shared else ""
    return Case(
        workload="moe",
        program=workload.program,
        title=f"{shape.name}, {tokens} tokens, tile {settings.tile}{regions}",
        settings=settings.describe(),
        parameters={"model": shape.name, "batch": tokens, **settings.to_dict()},
        inputs={"routing": None if routing is None else routing_facts(routing, shape)},
        numbers=None if routing is None else program_numbers(workload, routing, memory_model),
        bindings={} if routing is None else {workload.routing: routing.experts},
        on_demand=memory_model == "published" and (shared or workload.is_dynamic),
    )


def build(
    shape: MoEShape, batch: int, settings: MoeSettings, routing: RoutingTable | None
) -> MoEWorkload:
    """The layer as a program; without a routing its shapes stay symbolic."""
    from stepsim.workloads import moe_layer, time_multiplexed_moe

    arguments = settings.to_dict()
    arguments["indices"] = None if routing is None else routing.experts
    if settings.regions is None:
        del arguments["regions"]
        return moe_layer(shape, batch, **arguments)
    # Regions that experts share have one bandwidth for all operators, packing included.
    del arguments["pack_bw"]
    return time_multiplexed_moe(shape, batch, **arguments)


def program_numbers(
    workload: MoEWorkload, routing: RoutingTable, memory_model: str
) -> ProgramNumbers:
    """What the program needs for this routing, as counted by the memory model.

    ``published`` counts as the published figures do; ``paper`` counts what the STeP paper's tables
    give and what the operators do.
    """
    from stepsim.report.summary import ProgramNumbers

    if memory_model == "published":
        metrics = workload.published_metrics(routing.experts)
        return ProgramNumbers(
            offchip_bytes=metrics.off_chip_traffic,
            onchip_bytes=metrics.on_chip_memory,
            flops=workload.published_flops(routing.experts),
            padded_flops=workload.published_padded_flops(routing.experts),
            allocated_flops_per_cycle=workload.allocated_compute,
        )
    metrics = workload.program.metrics(memory=memory_model).bind(
        {workload.routing: routing.experts}
    )
    return ProgramNumbers(
        offchip_bytes=metrics.off_chip_traffic,
        onchip_bytes=metrics.on_chip_memory,
        flops=metrics.flops,
        padded_flops=padding_flops(
            workload.shape, workload.tile, workload.routing.counts_of(routing.experts)
        ),
        allocated_flops_per_cycle=metrics.allocated_compute,
    )


def padding_flops(shape: MoEShape, tile: int | str, loads: Sequence[int]) -> int:
    """FLOPs that the operators spend on rows that only fill up tiles.

    ``loads`` are the rows of each routed expert.
    """
    if isinstance(tile, str):
        return 0
    routed = sum(-rows % tile for rows in loads)
    shared = -(sum(loads) // shape.active) % tile
    # Three products of a row with D x F weights; SiLU (8) and a product (1) per inner element.
    per_inner = 6 * shape.model_dim + 9
    return per_inner * (routed * shape.inner_dim + shared * shape.shared_inner)
