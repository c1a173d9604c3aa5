"""``stepsim inspect``: look at a workload without simulating it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepsim.cli.listing import ListOptions, list_case
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
    Every,
    ExpertRegions,
    FifoDepth,
    Graph,
    Hidden,
    Intermediate,
    Json,
    KvColumn,
    KvTile,
    Layer,
    MachineName,
    MaxLength,
    MemoryModel,
    MicroBatches,
    ModelName,
    MoeBw,
    MoeRegions,
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
    Variant,
    find_model,
    parse_tile,
    resolve_machine,
)
from stepsim.errors import ArgError

__all__ = ["app"]

app = typer.Typer(help="Show a workload's graph, shapes and metrics.", no_args_is_help=True)

Routing = Annotated[Path | None, typer.Option(metavar="FILE", help="Routing trace, for numbers.")]
KvLengths = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Cached tokens of each request, for numbers.")
]
Tokens = Annotated[
    int | None, typer.Option("--batch", help="Tokens, if no trace is given. (default: 64)")
]
RequestCount = Annotated[
    int | None,
    typer.Option(
        "--batch", metavar="N", help="Requests; only the first of a file. (default: all, or 64)"
    ),
]


@app.callback()
def _group() -> None:
    pass


@app.command()
def moe(
    model: ModelName,
    tile: Tile,
    routing: Routing = None,
    batch: Tokens = None,
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
    graph: Graph = None,
    every: Every = False,
    json: Json = False,
) -> None:
    """Show a mixture-of-experts layer: operators, symbolic shapes and metrics; no simulation."""
    rows = parse_tile(tile)
    options = ListOptions(memory_model, graph, every, json)
    if batch is not None and (batch < 1 or routing is not None):
        raise ArgError(
            f"--batch: expected a whole number from 1, found {batch}"
            if batch < 1
            else "--batch and --routing both give the number of tokens; leave one out"
        )
    shape = find_model(model)
    target = resolve_machine(machine, overrides)
    from stepsim.cli.moe import moe_case, resolve_settings

    trace = None
    if routing is not None:
        from stepsim.trace_io import read_routing

        trace = read_routing(routing, experts=shape.experts, k=shape.active, layer=layer, step=step)
    tokens = (batch or 64) if trace is None else trace.tokens
    settings = resolve_settings(
        shape,
        tokens,
        rows,
        target,
        config=config,
        tile_inter=tile_inter,
        compute_bw=compute_bw,
        fifo_depth=fifo_depth,
        regions=regions,
    )
    list_case(moe_case(shape, tokens, settings, trace, memory_model, symbolic=True), options)


@app.command()
def attention(
    model: ModelName,
    strategy: Strategy,
    kv_lengths: KvLengths = None,
    batch: RequestCount = None,
    kv_column: KvColumn = None,
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
    graph: Graph = None,
    every: Every = False,
    json: Json = False,
) -> None:
    """Show decode attention of one KV head; no simulation."""
    options = ListOptions(memory_model, graph, every, json)
    target = resolve_machine(machine, overrides)
    from stepsim.cli.attention import AttentionChoice, attention_case, requests_of

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
    requests = requests_of(kv_lengths, batch, kv_column)
    list_case(attention_case(choice, requests, target, memory_model), options)


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
    graph: Graph = None,
    every: Every = False,
    json: Json = False,
) -> None:
    """Show a gated feed-forward layer; no simulation."""
    options = ListOptions(memory_model, graph, every, json)
    from stepsim.cli.swiglu import PUBLISHED_MACHINE, SwigluChoice, swiglu_case

    default = DEFAULT_MACHINE if config is None else PUBLISHED_MACHINE
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
    list_case(
        swiglu_case(choice, resolve_machine(machine, overrides, default), memory_model), options
    )


@app.command()
def decoder(
    model: ModelName,
    routing: Routing = None,
    kv_lengths: KvLengths = None,
    variant: Variant = None,
    batch: RequestCount = None,
    kv_column: KvColumn = None,
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
    graph: Graph = None,
    every: Every = False,
    json: Json = False,
) -> None:
    """Show a decoder layer; no simulation. Numbers need --routing and --kv-lengths."""
    options = ListOptions(memory_model, graph, every, json)
    shape = find_model(model)
    target = resolve_machine(machine, overrides)
    from stepsim.cli.attention import requests_of
    from stepsim.cli.decoder import DecoderChoice, decoder_case

    trace = None
    if routing is not None:
        from stepsim.trace_io import read_routing

        trace = read_routing(routing, experts=shape.experts, k=shape.active, layer=layer, step=step)
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
    requests = requests_of(kv_lengths, batch, kv_column)
    list_case(decoder_case(choice, requests, trace, target, memory_model, symbolic=True), options)
