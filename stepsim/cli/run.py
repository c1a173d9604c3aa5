"""``stepsim run``: simulate a workload."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepsim.cli.console import note, print_json, show
from stepsim.cli.options import (
    ComputeBw,
    Config,
    FifoDepth,
    Json,
    Layer,
    MachineName,
    MemoryModel,
    ModelName,
    Overrides,
    Step,
    Tile,
    TileInter,
    check_output,
    find_model,
    parse_tile,
    resolve_machine,
)

if TYPE_CHECKING:
    from stepsim.cli.moe import MoeSettings
    from stepsim.machine import Machine
    from stepsim.report.summary import RunSummary
    from stepsim.results import Result

__all__ = ["app", "run_record"]

app = typer.Typer(help="Simulate a workload.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command()
def moe(
    model: ModelName,
    routing: Annotated[Path, typer.Option(metavar="FILE", help="Routing trace of the batch.")],
    tile: Tile,
    tile_inter: TileInter = None,
    compute_bw: ComputeBw = None,
    fifo_depth: FifoDepth = None,
    machine: MachineName = "sda-1024",
    overrides: Overrides = None,
    memory_model: MemoryModel = "published",
    config: Config = None,
    layer: Layer = None,
    step: Step = None,
    max_cycles: Annotated[int | None, typer.Option(help="Stop after this many cycles.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop after this wall time.")] = None,
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.parquet", help="Write the result's tables.")
    ] = None,
) -> None:
    """Simulate a mixture-of-experts layer on recorded or synthetic routing."""
    from stepsim.cli.heartbeat import LOADING_ENGINE, Heartbeat

    rows = parse_tile(tile)
    limits = _check_limits(max_cycles, max_seconds)
    if out is not None:
        check_output(out)
    with Heartbeat() as heartbeat:
        heartbeat.phase("loading")
        shape = find_model(model)
        target = resolve_machine(machine, overrides)
        from stepsim.cli.moe import build, program_numbers, resolve_settings, routing_facts
        from stepsim.report.summary import summarize
        from stepsim.simulation import Limits, simulate, warm_up
        from stepsim.trace_io import read_routing

        trace = read_routing(routing, experts=shape.experts, k=shape.active, layer=layer, step=step)
        settings = resolve_settings(
            shape,
            trace.tokens,
            rows,
            target,
            config=config,
            tile_inter=tile_inter,
            compute_bw=compute_bw,
            fifo_depth=fifo_depth,
        )
        heartbeat.phase("building the program")
        workload = build(shape, trace.tokens, settings, trace)
        numbers = program_numbers(workload, trace, memory_model)
        heartbeat.phase(LOADING_ENGINE)
        warm_up()
        heartbeat.phase("simulating")
        result = simulate(
            workload.program, machine=target, limits=Limits(**limits), progress=heartbeat.progress
        )
        if out is not None:
            heartbeat.phase("writing")
            result.to_parquet(out)

    summary = summarize(result, numbers)
    title = f"{shape.name}, {trace.tokens} tokens, tile {tile}"
    if json:
        note(f"machine {target.summary()}")
        print_json(
            {
                **summary.to_dict(),
                **run_record(result, settings, target),
                "workload": "moe",
                "model": shape.name,
                "memory_model": memory_model,
                "config": config,
                "routing": routing_facts(trace, shape),
                "busiest_units": [asdict(unit) for unit in summary.busiest],
            }
        )
    else:
        _show_run(summary, target, settings, title)
    if result.status != "ok":
        from stepsim.cli.main import RUN_FAILED

        note(f"run failed, status {result.status}: {result.diagnosis}")
        raise typer.Exit(RUN_FAILED)


def run_record(result: Result, settings: MoeSettings, machine: Machine) -> dict[str, Any]:
    """What a run depended on, for JSON."""
    return {
        "machine": {**machine.to_dict(), "peak_bandwidth": machine.peak_bandwidth},
        **settings.to_dict(),
        "diagnosis": None if result.diagnosis is None else result.diagnosis.to_dict(),
        "provenance": dict(result.provenance),
    }


def _check_limits(max_cycles: int | None, max_seconds: float | None) -> dict[str, Any]:
    from stepsim.errors import ArgError

    if max_cycles is not None and max_cycles < 1:
        raise ArgError(f"--max-cycles: expected a whole number from 1, found {max_cycles}")
    if max_seconds is not None and not max_seconds > 0:
        raise ArgError(f"--max-seconds: expected a number above 0, found {max_seconds:g}")
    given = {"max_cycles": max_cycles, "max_wall_seconds": max_seconds}
    return {name: value for name, value in given.items() if value is not None}


def _show_run(summary: RunSummary, machine: Machine, settings: MoeSettings, title: str) -> None:
    from stepsim.report.tables import run_table, units_table

    show(
        f"machine {machine.summary()}",
        f"tile-inter {settings.tile_inter}, compute {settings.compute_bw} FLOPs/cycle "
        f"(packing {settings.pack_bw}), FIFO depth {settings.fifo_depth}\n",
        run_table(summary, title),
        "",
        units_table(summary.busiest, summary.cycles),
    )
