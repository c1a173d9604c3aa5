"""Decode attention as the command line runs and inspects it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepsim.cli.case import Case
from stepsim.cli.inputs import Requests
from stepsim.cli.options import (
    AttentionBw,
    Config,
    KvTile,
    MaxLength,
    ModelName,
    check_counts,
    check_divisor,
    depth,
    find_name,
    number,
    resolve_depth,
)
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.workloads import AttentionShape
    from stepsim.workloads.attention_graph import Lengths

__all__ = ["AttentionChoice", "attention_case", "cache_padding_flops"]

_REGIONS = 4
_KV_TILE = 32
_BLOCK = 16
_COMPUTE_BW = 2048
_FIFO_DEPTH = 1
_PUBLISHED = "qwen3-30b-a3b"


@dataclass(frozen=True, slots=True)
class AttentionChoice:
    """The options of the workload as given; None means not given."""

    model: ModelName
    strategy: Annotated[
        str,
        typer.Option(
            metavar="coarse|interleaved|dynamic",
            help="Requests go to regions in blocks, in turn, or to the region that is free first.",
        ),
    ]
    regions: Annotated[
        int | None,
        number(_REGIONS, "Regions to use; coarse builds only as many as there are blocks."),
    ] = None
    kv_tile: KvTile = None
    block: Annotated[int | None, number(_BLOCK, "Requests of a block; for coarse only.")] = None
    micro_batches: Annotated[
        str | None,
        typer.Option(
            metavar="N+N",
            help="Sizes of joined micro-batches, as 64+16; blocks start anew in each.",
        ),
    ] = None
    max_length: MaxLength = None
    compute_bw: AttentionBw = None
    fifo_depth: Annotated[int | None, depth(_FIFO_DEPTH)] = None
    config: Config = None

    def resolve(self, requests: Requests, machine: Machine) -> dict[str, Any]:
        """Arguments of ``attention``, but for the lengths.

        What is not given is the machine's, else that of ``config``, else a default.

        Raises
        ------
        ArgError : a value is out of range or does not divide.
        """
        from stepsim.workloads import ATTENTION_SHAPES, attention_shape
        from stepsim.workloads.attention import STRATEGIES

        name = find_name("--model", self.model, sorted(ATTENTION_SHAPES))
        find_name("--strategy", self.strategy, STRATEGIES)
        check_counts(
            regions=self.regions,
            kv_tile=self.kv_tile,
            block=self.block,
            max_length=self.max_length,
            compute_bw=self.compute_bw,
            fifo_depth=self.fifo_depth,
        )
        if self.block is not None and self.strategy != "coarse":
            raise ArgError(
                f"--block: {self.strategy} deals out single requests, only coarse has blocks; "
                "leave it out"
            )
        known = self._published(name, requests) if self.config == "published" else {}
        regions = self.regions or known.get("regions", _REGIONS)
        _check_regions(regions, self.strategy, requests.batch)
        kv_tile = self.kv_tile or known.get("kv_tile", _KV_TILE)
        reserved = self.max_length
        if reserved is None and known:
            reserved = known["max_length"]
            cache = f"the {reserved} cached tokens that --config published reserves"
            check_divisor("--kv-tile", kv_tile, known["max_length"], cache)
        groups = known.get("micro_batches")
        if self.micro_batches is not None:
            groups = _parse_groups(self.micro_batches, requests.batch)
        return {
            "shape": attention_shape(known.get("shape", name)),
            "strategy": self.strategy,
            "regions": regions,
            "kv_tile": kv_tile,
            "block": self.block or _BLOCK,
            "micro_batches": groups,
            "max_length": reserved,
            "compute_bw": self.compute_bw or known.get("compute_bw", _COMPUTE_BW),
            "fifo_depth": resolve_depth(
                self.fifo_depth, machine, known.get("fifo_depth"), _FIFO_DEPTH
            ),
        }

    def _published(self, name: str, requests: Requests) -> dict[str, Any]:
        from stepsim.workloads import published_attention_config

        if name.removesuffix("-step") != _PUBLISHED:
            raise ArgError(
                f"--config published: there is no published experiment of {name}; "
                f"there is one of {_PUBLISHED}"
            )
        longest = 0 if self.max_length is not None else requests.longest
        # The published runs of a part of a trace reserved caches as for the whole trace.
        try:
            known = published_attention_config(requests.in_file, self.strategy, longest)
        except ArgError:
            raise ArgError(
                f"--config published: no published run of {requests.in_file} requests reserves "
                f"caches for one of {longest} tokens; choose their size with --max-length"
            ) from None
        if requests.batch != requests.in_file:
            known["micro_batches"] = None
        return known


def attention_case(
    choice: AttentionChoice, requests: Requests, machine: Machine, memory_model: str
) -> Case:
    """Attention over the requests, built."""
    from stepsim.report.summary import ProgramNumbers
    from stepsim.workloads import attention

    arguments = choice.resolve(requests, machine)
    shape: AttentionShape = arguments["shape"]
    work = attention(kv_lengths=requests.lengths, **arguments)
    groups = arguments["micro_batches"]
    metrics = work.metrics(memory=memory_model)
    parts = f" ({'+'.join(map(str, groups))})" if groups else ""
    remarks = []
    if work.regions < arguments["regions"]:
        remarks.append(
            f"{work.regions} of {arguments['regions']} regions built: {work.batch} requests make "
            f"no more blocks of {arguments['block']}; --block changes their size"
        )
    if shape.name != choice.model:
        remarks.append(
            f"heads of {shape.head_dim} as in the published experiment, which is shape {shape.name}"
        )
    return Case(
        workload="attention",
        program=work.program,
        title=f"{shape.name}, {work.batch}{parts} requests, {work.strategy} attention",
        settings=(
            f"one KV head, {work.regions} regions, KV tile {work.kv_tile}, cache of "
            f"{work.max_length} tokens per request, compute {arguments['compute_bw']} "
            f"FLOPs/cycle, FIFO depth {arguments['fifo_depth']}"
        ),
        parameters={
            "model": choice.model,
            **arguments,
            "shape": shape.name,
            "batch": work.batch,
            "block": arguments["block"] if work.strategy == "coarse" else None,
            "micro_batches": None if groups is None else list(groups),
            "max_length": work.max_length,
            "regions_built": work.regions,
        },
        inputs={"kv_lengths": requests.facts()},
        numbers=None
        if requests.source is None
        else ProgramNumbers(
            offchip_bytes=metrics.off_chip_traffic,
            onchip_bytes=metrics.on_chip_memory,
            flops=metrics.flops,
            padded_flops=cache_padding_flops(shape, requests.lengths, work.kv_tile),
            allocated_flops_per_cycle=work.allocated_compute,
        ),
        bindings=work.symbols,
        remarks=tuple(remarks),
    )


def cache_padding_flops(shape: AttentionShape, lengths: Lengths, kv_tile: int) -> int:
    """FLOPs of one KV head on the rows of the last KV tiles that hold no token."""
    empty = int((-(lengths + 1) % kv_tile).sum())
    # A score, its exponential (4), the weighted value and the sum of weights, for every query.
    per_row = 2 * shape.head_dim + 4 + 2 * shape.value_width + 1
    return empty * shape.queries_per_kv_head * per_row


def _check_regions(regions: int, strategy: str, batch: int) -> None:
    if strategy == "interleaved":
        check_divisor("--regions", regions, batch, f"the {batch} requests that are dealt in turn")
    elif strategy == "dynamic" and regions > batch:
        raise ArgError(
            f"--regions: dynamic starts one request in each region, expected at most the {batch} "
            f"requests, found {regions}"
        )


def _parse_groups(text: str, batch: int) -> tuple[int, ...]:
    try:
        groups = tuple(int(part) for part in text.split("+"))
    except ValueError:
        groups = ()
    if not groups or min(groups) < 1:
        raise ArgError(
            f"--micro-batches: expected sizes from 1 joined by +, for example 64+16, found '{text}'"
        )
    if sum(groups) != batch:
        raise ArgError(
            f"--micro-batches: expected sizes that add up to the {batch} requests, found {text} = "
            f"{sum(groups)}; --batch takes the first requests of a longer file"
        )
    return groups
