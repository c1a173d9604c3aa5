"""The mixture-of-experts workload as the command line runs and inspects it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepsim.errors import ArgError
from stepsim.report.summary import ProgramNumbers

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.trace_io import RoutingTable
    from stepsim.workloads import MoEShape, MoEWorkload

__all__ = ["MoeSettings", "build", "program_numbers", "resolve_settings", "routing_facts"]

_TILE_INTER = 64
_COMPUTE_BW = 4096
_FIFO_DEPTH = 2
_PUBLISHED = ("mixtral-8x7b", "qwen3-30b-a3b")


@dataclass(frozen=True, slots=True)
class MoeSettings:
    """Everything that decides the program, apart from the routing.

    Attributes
    ----------
    tile : rows per tile, or ``"dynamic"``.
    tile_inter : columns per tile of the inner dimension.
    compute_bw, pack_bw : FLOPs per cycle of each operator, and of those that pack rows.
    fifo_depth : tokens each FIFO holds.
    """

    tile: int | str
    tile_inter: int
    compute_bw: int
    pack_bw: int
    fifo_depth: int

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def resolve_settings(
    shape: MoEShape,
    batch: int,
    tile: int | str,
    machine: Machine,
    *,
    config: str | None = None,
    tile_inter: int | None = None,
    compute_bw: int | None = None,
    fifo_depth: int | None = None,
) -> MoeSettings:
    """Fill in what is not given: an option, else the machine, else ``config``, else a default.

    Raises
    ------
    ArgError : a value is out of range, or does not divide the model's inner dimension.
    """
    for name, value in (("compute-bw", compute_bw), ("fifo-depth", fifo_depth)):
        if value is not None and value < 1:
            raise ArgError(f"--{name}: expected a whole number from 1, found {value}")
    known: dict[str, Any] = {}
    if config == "published":
        from stepsim.workloads import published_config

        if shape.name not in _PUBLISHED:
            raise ArgError(
                f"--config published: there is no published experiment of {shape.name}; "
                f"there are of {' and '.join(_PUBLISHED)}"
            )
        known = published_config(shape.name, batch, tile)
    inner = tile_inter if tile_inter is not None else known.get("tile_inter", _TILE_INTER)
    common = math.gcd(shape.inner_dim, shape.shared_inner)
    if inner < 1 or common % inner:
        divisors = [n for n in range(8, common + 1) if common % n == 0]
        near = sorted(sorted(divisors, key=lambda n: abs(n - inner))[:3])
        raise ArgError(
            f"--tile-inter: expected a divisor of the inner dimension {common} of "
            f"{shape.name}, found {inner}; near ones are {', '.join(map(str, near))}"
        )
    # Presets leave the depth open, so one in the machine was put there for this run.
    depths = (fifo_depth, machine.fifo.depth, known.get("fifo_depth"), _FIFO_DEPTH)
    bandwidth = compute_bw if compute_bw is not None else known.get("compute_bw", _COMPUTE_BW)
    return MoeSettings(
        tile=tile,
        tile_inter=inner,
        compute_bw=bandwidth,
        pack_bw=known.get("pack_bw", bandwidth),
        fifo_depth=next(depth for depth in depths if depth is not None),
    )


def build(
    shape: MoEShape, batch: int, settings: MoeSettings, routing: RoutingTable | None
) -> MoEWorkload:
    """The layer as a program; without a routing its shapes stay symbolic."""
    from stepsim.workloads import moe_layer

    return moe_layer(
        shape,
        batch,
        indices=None if routing is None else routing.experts,
        **settings.to_dict(),
    )


def program_numbers(
    workload: MoEWorkload, routing: RoutingTable, memory_model: str
) -> ProgramNumbers:
    """What the program needs for this routing, as counted by the memory model.

    ``published`` counts as the published figures do; ``paper`` counts what the STeP paper's tables
    give and what the operators do.
    """
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
        padded_flops=_padding_flops(workload, routing),
        allocated_flops_per_cycle=metrics.allocated_compute,
    )


def _padding_flops(workload: MoEWorkload, routing: RoutingTable) -> int:
    """FLOPs that the operators spend on rows that only fill up tiles."""
    shape, tile = workload.shape, workload.tile
    routed = workload.padded_rows(routing.experts) - routing.experts.size
    shared = 0 if isinstance(tile, str) else -workload.batch % tile
    # Three products of a row with D x F weights; SiLU (8) and a product (1) per inner element.
    per_inner = 6 * shape.model_dim + 9
    return per_inner * (routed * shape.inner_dim + shared * shape.shared_inner)


def routing_facts(routing: RoutingTable, shape: MoEShape) -> dict[str, Any]:
    """What the run was fed with: source, content hash and how even the load was."""
    from stepsim.trace_io import routing_statistics

    found = routing_statistics(routing, shape.experts)
    return {
        "source": routing.source,
        "identity": routing.identity(),
        "layer": routing.layer,
        "step": routing.step,
        "tokens": found.tokens,
        "k": found.k,
        "experts": found.experts,
        "active_experts": found.active,
        "max_load": found.max,
        "imbalance": found.imbalance,
    }
