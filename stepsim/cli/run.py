"""``stepsim run``: simulate a workload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepsim.cli.execution import RunOptions, run_case
from stepsim.cli.options import (
    DEFAULT_MACHINE,
    AttentionBw,
    AttentionDepth,
    AttentionRegions,
    Block,
    ComputeBw,
    Config,
    DataType,
    DecoderStrategy,
    DecoderTile,
    ExpertRegions,
    FifoDepth,
    Hidden,
    Intermediate,
    Json,
    KvBatch,
    KvColumn,
    KvStep,
    KvTile,
    KvWindow,
    Layer,
    MachineName,
    MaxCycles,
    MaxLength,
    MaxSeconds,
    MemoryModel,
    MicroBatches,
    ModelName,
    MoeBw,
    MoeRegions,
    Out,
    Overrides,
    ParDispatch,
    QkvBw,
    Regions,
    Step,
    Strategy,
    SwigluBatch,
    SwigluDepth,
    Tile,
    TileColumns,
    TileInter,
    TileRows,
    TokenBatch,
    Variant,
    Window,
    find_model,
    parse_tile,
)

if TYPE_CHECKING:
    from stepsim.cli.case import Case
    from stepsim.machine import Machine

__all__ = ["app"]

app = typer.Typer(help="Simulate a workload.", no_args_is_help=True)

Routing = Annotated[Path, typer.Option(metavar="FILE", help="Routing trace of the batch.")]
KvLengths = Annotated[
    Path, typer.Option(metavar="FILE", help="Cached tokens of each request of the batch.")
]
_BUILDING = "building the program"


@app.callback()
def _group() -> None:
    pass


@app.command()
def moe(
    model: ModelName,
    routing: Routing,
    tile: Tile,
    batch: TokenBatch = None,
    window: Window = None,
    regions: MoeRegions = None,
    tile_inter: TileInter = None,
    compute_bw: ComputeBw = None,
    fifo_depth: FifoDepth = None,
    machine: MachineName = None,
    overrides: Overrides = None,
    memory_model: MemoryModel = "published",
    config: Config = None,
    layer: Layer = None,
    step: Step = None,
    max_cycles: MaxCycles = None,
    max_seconds: MaxSeconds = None,
    json: Json = False,
    out: Out = None,
) -> None:
    """Simulate a mixture-of-experts layer on recorded or synthetic routing."""
    rows = parse_tile(tile)

    def prepare(target: Machine, phase: Callable[[str], None]) -> Case:
        shape = find_model(model)
        from stepsim.cli.moe import moe_case, read_tokens, resolve_settings

        chosen = 0 if window is None and batch is not None else window
        trace = read_tokens(routing, shape, layer, step, batch, chosen)
        settings = resolve_settings(
            shape,
            trace.tokens,
            rows,
            target,
            config=config,
            tile_inter=tile_inter,
            compute_bw=compute_bw,
            fifo_depth=fifo_depth,
            regions=regions,
        )
        phase(_BUILDING)
        return moe_case(shape, trace.tokens, settings, trace, memory_model)

    run_case(
        prepare,
        RunOptions(machine, overrides, memory_model, config, max_cycles, max_seconds, json, out),
    )


@app.command()
def attention(
    model: ModelName,
    kv_lengths: KvLengths,
    strategy: Strategy,
    batch: KvBatch = None,
    kv_column: KvColumn = None,
    kv_step: KvStep = None,
    kv_window: KvWindow = None,
    regions: Regions = None,
    kv_tile: KvTile = None,
    block: Block = None,
    micro_batches: MicroBatches = None,
    max_length: MaxLength = None,
    compute_bw: AttentionBw = None,
    fifo_depth: AttentionDepth = None,
    machine: MachineName = None,
    overrides: Overrides = None,
    memory_model: MemoryModel = "published",
    config: Config = None,
    max_cycles: MaxCycles = None,
    max_seconds: MaxSeconds = None,
    json: Json = False,
    out: Out = None,
) -> None:
    """Simulate decode attention of one KV head on requests with caches of different lengths."""

    def prepare(target: Machine, phase: Callable[[str], None]) -> Case:
        from stepsim.cli.attention import AttentionChoice, attention_case, requests_of

        requests = requests_of(kv_lengths, batch, kv_column, kv_step, kv_window)
        choice = AttentionChoice(
            model,
            strategy,
            regions,
            kv_tile,
            block,
            micro_batches,
            max_length,
            compute_bw,
            fifo_depth,
            config,
        )
        phase(_BUILDING)
        return attention_case(choice, requests, target, memory_model)

    run_case(
        prepare,
        RunOptions(machine, overrides, memory_model, config, max_cycles, max_seconds, json, out),
    )


@app.command()
def swiglu(
    tile: TileRows,
    tile_inter: TileColumns,
    batch: SwigluBatch = None,
    hidden: Hidden = None,
    intermediate: Intermediate = None,
    compute_bw: ComputeBw = None,
    par_dispatch: ParDispatch = None,
    fifo_depth: SwigluDepth = None,
    dtype: DataType = "f32",
    machine: MachineName = None,
    overrides: Overrides = None,
    memory_model: MemoryModel = "published",
    config: Config = None,
    max_cycles: MaxCycles = None,
    max_seconds: MaxSeconds = None,
    json: Json = False,
    out: Out = None,
) -> None:
    """Simulate a gated feed-forward layer; --config published also takes machine sda-hdl."""
    from stepsim.cli.swiglu import PUBLISHED_MACHINE, SwigluChoice, swiglu_case

    def prepare(target: Machine, phase: Callable[[str], None]) -> Case:
        choice = SwigluChoice(
            tile,
            tile_inter,
            batch,
            hidden,
            intermediate,
            compute_bw,
            par_dispatch,
            fifo_depth,
            dtype,
            config,
        )
        phase(_BUILDING)
        return swiglu_case(choice, target, memory_model)

    run_case(
        prepare,
        RunOptions(machine, overrides, memory_model, config, max_cycles, max_seconds, json, out),
        DEFAULT_MACHINE if config is None else PUBLISHED_MACHINE,
    )


@app.command()
def decoder(
    model: ModelName,
    routing: Routing,
    kv_lengths: KvLengths,
    variant: Variant = None,
    batch: KvBatch = None,
    kv_column: KvColumn = None,
    kv_step: KvStep = None,
    kv_window: KvWindow = None,
    window: Window = None,
    tile: DecoderTile = None,
    strategy: DecoderStrategy = None,
    tile_inter: TileInter = None,
    expert_regions: ExpertRegions = None,
    attention_regions: AttentionRegions = None,
    kv_tile: KvTile = None,
    max_length: MaxLength = None,
    moe_bw: MoeBw = None,
    attention_bw: AttentionBw = None,
    qkv_bw: QkvBw = None,
    fifo_depth: FifoDepth = None,
    machine: MachineName = None,
    overrides: Overrides = None,
    memory_model: MemoryModel = "published",
    config: Config = None,
    layer: Layer = None,
    step: Step = None,
    max_cycles: MaxCycles = None,
    max_seconds: MaxSeconds = None,
    json: Json = False,
    out: Out = None,
) -> None:
    """Simulate a decoder layer: QKV generation, decode attention of all heads, experts."""

    def prepare(target: Machine, phase: Callable[[str], None]) -> Case:
        shape = find_model(model)
        from stepsim.cli.attention import requests_of
        from stepsim.cli.decoder import DecoderChoice, decoder_case
        from stepsim.cli.moe import read_tokens

        trace = read_tokens(routing, shape, layer, step, batch, window)
        requests = requests_of(kv_lengths, batch, kv_column, kv_step, kv_window)
        choice = DecoderChoice(
            model,
            variant,
            tile,
            tile_inter,
            strategy,
            expert_regions,
            attention_regions,
            kv_tile,
            max_length,
            moe_bw,
            attention_bw,
            qkv_bw,
            fifo_depth,
            config,
        )
        phase(_BUILDING)
        return decoder_case(choice, requests, trace, target, memory_model)

    run_case(
        prepare,
        RunOptions(machine, overrides, memory_model, config, max_cycles, max_seconds, json, out),
    )
