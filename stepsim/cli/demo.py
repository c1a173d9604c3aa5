"""``stepsim demo``: compare tilings of one layer on synthetic routing; needs no files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepsim._version import MODEL_VERSION, __version__
from stepsim.cli.console import note, show
from stepsim.errors import OutputError

if TYPE_CHECKING:
    from stepsim.cli.moe import MoeSettings
    from stepsim.report.summary import RunSummary

__all__ = ["demo"]

_MODEL = "qwen3-30b-a3b"
_TOKENS = 64
_TILES: tuple[int | str, ...] = (8, 16, 32, 64, "dynamic")


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write.")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Of the synthetic routing.")] = 0,
) -> None:
    """Simulate a Qwen3-30B-A3B layer with static tiles 8 to 64 and dynamic ones, and compare."""
    from stepsim.cli.heartbeat import LOADING_ENGINE, Heartbeat

    _make_folder(out)
    runs: list[tuple[MoeSettings, RunSummary]] = []
    with Heartbeat() as heartbeat:
        heartbeat.phase("loading")
        from stepsim.cli.moe import MoeChoice, build, program_numbers
        from stepsim.machine import load_machine
        from stepsim.report.figures import TilingPoint, draw_cycles_against_memory
        from stepsim.report.summary import summarize
        from stepsim.report.tables import comparison_table
        from stepsim.report.tilings import tilings_table
        from stepsim.results.writing import write_tables
        from stepsim.simulation import simulate, warm_up
        from stepsim.trace_io import synthetic_routing
        from stepsim.workloads import moe_shape

        shape = moe_shape(_MODEL)
        machine = load_machine("sda-1024")
        routing = synthetic_routing(
            _TOKENS, shape.experts, shape.active, seed=seed, model=shape.name
        )
        heartbeat.phase(LOADING_ENGINE)
        warm_up()
        for tile in _TILES:
            heartbeat.phase(f"tile {tile}")
            choice = MoeChoice(_MODEL, str(tile), config="published")
            settings = choice.resolve(_TOKENS, machine)
            workload = build(shape, _TOKENS, settings, routing)
            result = simulate(workload.program, machine=machine, progress=heartbeat.progress)
            runs.append(
                (settings, summarize(result, program_numbers(workload, routing, "published")))
            )
        heartbeat.phase("writing")
        table, picture = out / "tilings.parquet", out / "cycles-against-memory.png"
        rows = [{**settings.to_dict(), **summary.to_dict()} for settings, summary in runs]
        provenance = {
            "stepsim": __version__,
            "model_version": MODEL_VERSION,
            "machine": machine.to_dict(),
            "routing": routing.source,
            "routing_identity": routing.identity(),
            "seed": seed,
        }
        write_tables(table, {"": tilings_table(rows, json.dumps(provenance))})
        points = [
            TilingPoint(
                str(settings.tile),
                settings.tile == "dynamic",
                summary.program.onchip_bytes,
                summary.cycles,
            )
            for settings, summary in runs
        ]
        title = f"Qwen3-30B-A3B mixture-of-experts layer, {_TOKENS} tokens"
        draw_cycles_against_memory(points, title, picture)

    show(
        f"machine {machine.summary()}",
        f"routing {routing.source}\n",
        comparison_table({str(s.tile): summary for s, summary in runs}, "tile", title),
    )
    note("on-chip memory as published: of dynamic tiles, that of the experts in use")
    note(f"wrote {table} and {picture}")
    if any(summary.status != "ok" for _, summary in runs):
        from stepsim.cli.main import RUN_FAILED

        raise typer.Exit(RUN_FAILED)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be made a folder ({error.strerror}); choose another with --out"
        ) from error
