"""A decoder layer as the command line runs and inspects it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepsim.cli.attention import cache_padding_flops
from stepsim.cli.case import Case
from stepsim.cli.inputs import Requests, routing_facts
from stepsim.cli.moe import check_tile_inter, padding_flops
from stepsim.cli.options import (
    AttentionBw,
    Config,
    KvTile,
    MaxLength,
    ModelName,
    SharedRegions,
    TileInter,
    check_counts,
    check_divisor,
    depth,
    find_model,
    find_name,
    number,
    parse_tile,
    resolve_depth,
)
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.report.summary import ProgramNumbers
    from stepsim.trace_io import RoutingTable
    from stepsim.workloads import DecoderWorkload

__all__ = ["DecoderChoice", "decoder_case"]

_STRATEGIES = ("interleaved", "dynamic")


@dataclass(frozen=True, slots=True)
class DecoderChoice:
    """The options of the workload as given; None means not given."""

    model: ModelName
    variant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of the published figure: memory-matched, performance-matched or dynamic.",
        ),
    ] = None
    tile: Annotated[
        str | None,
        typer.Option(metavar="N|dynamic", help="Rows per tile of the experts, as for moe."),
    ] = None
    strategy: Annotated[
        str | None,
        typer.Option(metavar="interleaved|dynamic", help="How attention shares out the requests."),
    ] = None
    tile_inter: TileInter = None
    expert_regions: SharedRegions = None
    attention_regions: Annotated[
        int | None, number(4, "Regions of QKV generation and attention.")
    ] = None
    kv_tile: KvTile = None
    max_length: MaxLength = None
    moe_bw: Annotated[
        int | None, number(1024, "FLOPs per cycle of each operator of the experts.")
    ] = None
    attention_bw: AttentionBw = None
    qkv_bw: Annotated[int | None, number(20480, "FLOPs per cycle of each QKV generation.")] = None
    fifo_depth: Annotated[int | None, depth(2)] = None
    config: Config = None

    def resolve(self, batch: int, machine: Machine) -> dict[str, Any]:
        """Arguments of ``decoder_layer``, but for lengths and routing.

        What is not given is the machine's, else that of the variant, else a default.

        Raises
        ------
        ArgError : a value is missing, out of range or does not divide.
        """
        from stepsim.workloads.decoder import DEFAULTS, decoder_arguments

        shape = find_model(self.model)
        numbers = {name: getattr(self, name) for name in DEFAULTS}
        check_counts(**{name: numbers[name] for name in DEFAULTS if name != "expert_regions"})
        self._check_variant()
        given = {**numbers, "tile": self.tile, "strategy": self.strategy}
        found = decoder_arguments(self.model, given, self.variant)
        for name in ("tile", "strategy"):
            if name not in found:
                raise ArgError(
                    f"--{name} is missing; give --tile and --strategy, or a --variant of the "
                    "published figure"
                )
        find_name("--strategy", found["strategy"], _STRATEGIES)
        found |= {
            "moe": shape,
            "tile": parse_tile(str(found["tile"])),
            "fifo_depth": resolve_depth(self.fifo_depth, machine, None, found["fifo_depth"]),
        }
        check_tile_inter(shape, found["tile_inter"])
        experts = f"the {shape.experts} experts of {shape.name}"
        if self.expert_regions is not None:
            check_divisor("--expert-regions", self.expert_regions, shape.experts, experts)
        regions = found["attention_regions"]
        check_divisor("--attention-regions", regions, batch, f"the {batch} requests")
        return found

    def _check_variant(self) -> None:
        from stepsim.workloads.decoder import VARIANTS

        if self.variant is None:
            if self.config is None:
                return
            raise ArgError(
                f"--config published: the published figure has three variants; choose one with "
                f"--variant: {', '.join(VARIANTS)}"
            )
        find_name("--variant", self.variant, VARIANTS)
        models = ("mixtral-8x7b", "qwen3-30b-a3b")
        if self.model not in models:
            raise ArgError(
                f"--variant: the published figure has no {self.model}, only {' and '.join(models)};"
                " give --tile and --strategy instead"
            )


def decoder_case(
    choice: DecoderChoice,
    requests: Requests,
    routing: RoutingTable | None,
    machine: Machine,
    memory_model: str,
    *,
    symbolic: bool = False,
) -> Case:
    """The layer for requests and a routing; ``symbolic`` keeps the rows of experts open.

    Raises
    ------
    ArgError : the routing has not one token for each request, or see `DecoderChoice.resolve`.
    """
    from stepsim.workloads import decoder_layer

    batch = requests.batch
    if routing is not None and routing.tokens != batch:
        raise ArgError(
            f"--routing: expected one token for each of the {batch} requests of "
            f"{requests.source or '--batch'}, found {routing.tokens} in {routing.source}; "
            "--batch takes the first of both"
        )
    arguments = choice.resolve(batch, machine)
    table = None if routing is None or symbolic else routing.experts
    work = decoder_layer(kv_lengths=requests.lengths, indices=table, **arguments)
    moe, heads = work.moe, work.attention
    shared = arguments["expert_regions"]
    remarks: tuple[str, ...] = ()
    if heads.name != moe.name:
        remarks = (
            f"heads of {heads.head_dim} as in the published experiment, which is shape "
            f"{heads.name}",
        )
    return Case(
        workload="decoder",
        program=work.program,
        title=f"{moe.name} decoder layer, {batch} requests",
        settings=(
            (f"{choice.variant}: " if choice.variant else "")
            + f"tile {work.tile}, {work.strategy} attention\n"
            f"experts: tile-inter {arguments['tile_inter']}, {shared or moe.experts} regions, "
            f"{work.moe_bw} FLOPs/cycle; attention: {work.attention_regions} regions, KV tile "
            f"{arguments['kv_tile']}, {arguments['attention_bw']} FLOPs/cycle; QKV generation: "
            f"{arguments['qkv_bw']} FLOPs/cycle; FIFO depth {arguments['fifo_depth']}"
        ),
        parameters={
            "model": moe.name,
            "variant": choice.variant,
            "batch": batch,
            **{k: v for k, v in arguments.items() if k != "moe"},
            "attention": heads.name,
        },
        inputs={
            "routing": None if routing is None else routing_facts(routing, moe),
            "kv_lengths": requests.facts(),
        },
        numbers=None
        if routing is None or requests.source is None
        else _numbers(work, routing, arguments["kv_tile"], memory_model),
        bindings={} if routing is None else {work.routing: routing.experts, **work.symbols},
        remarks=remarks,
    )


def _numbers(
    work: DecoderWorkload, routing: RoutingTable, kv_tile: int, memory_model: str
) -> ProgramNumbers:
    from stepsim.report.summary import ProgramNumbers

    metrics = work.metrics(routing.experts, memory=memory_model)
    experts = padding_flops(work.moe, work.tile, work.routing.counts_of(routing.experts))
    heads = cache_padding_flops(work.attention, work.kv_lengths, kv_tile)
    return ProgramNumbers(
        offchip_bytes=metrics.off_chip_traffic,
        onchip_bytes=metrics.on_chip_memory,
        flops=metrics.flops,
        padded_flops=experts + work.attention.kv_heads * heads,
        allocated_flops_per_cycle=work.allocated_compute
        if memory_model == "published"
        else metrics.allocated_compute,
    )
