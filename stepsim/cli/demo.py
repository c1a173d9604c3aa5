"""``stepsim demo``: compare tilings of one layer on synthetic routing, without any input files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import stepsim.machine
import stepsim.report
import stepsim.results
import stepsim.simulation
import stepsim.trace_io
import stepsim.workloads
from stepsim._version import MODEL_VERSION, __version__
from stepsim.cli.console import note, show
from stepsim.cli.exit_codes import RUN_FAILED
from stepsim.cli.heartbeat import LOADING_ENGINE, Heartbeat
from stepsim.cli.runs.fifo_depths import machine_text
from stepsim.deferred import deferred, install_extra, is_installed, missing_extras
from stepsim.errors import OutputError

if TYPE_CHECKING:
    import pyarrow as pa

    from stepsim.machine import Machine
    from stepsim.simulation import Case
    from stepsim.workloads import Data
else:
    pa = deferred("pyarrow")

_MODEL = "qwen3-30b-a3b"
_TOKENS = 64
_COUNTING = "executed"
_TILES: tuple[int | str, ...] = (8, 16, 32, 64, "dynamic")


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write to.")] = Path(
        "demo-out"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the synthetic routing.")] = 0,
) -> None:
    """A first example: compare static tiles of 8 to 64 rows with dynamic tiling on a Qwen3-30B-A3B
    layer.
    """
    _make_folder(out)
    with Heartbeat() as heartbeat:
        heartbeat.phase("loading")
        shape = stepsim.workloads.Model.parse(_MODEL).moe
        machine = stepsim.machine.load_machine("sda-1024")
        routing = stepsim.trace_io.synthetic_routing(
            _TOKENS, shape.experts, shape.active, seed=seed, model=shape.name
        )
        data = stepsim.workloads.Data.of(routing=routing.experts)
        heartbeat.phase(LOADING_ENGINE)
        stepsim.simulation.warm_up()
        rows: list[dict[str, Any]] = []
        machines: dict[str, None] = {}
        for tile in _TILES:
            heartbeat.phase(f"tile {tile}")
            case = _case(tile, data, machine)
            machines[machine_text(case)] = None
            rows.append(_simulated(case, data))
        heartbeat.phase("writing")
        table, picture = out / "tilings.parquet", out / "cycles-against-memory.png"
        provenance = {
            "stepsim": __version__,
            "model_version": MODEL_VERSION,
            "machine": machine.to_dict(),
            "routing": routing.source,
            "routing_identity": routing.identity(),
            "seed": seed,
        }
        stepsim.results.write_tables(table, {"": _table(rows, provenance)})
        points = [
            stepsim.report.TilingPoint(
                row["tile"], row["tile"] == "dynamic", row["onchip_bytes"], row["cycles"]
            )
            for row in rows
        ]
        title = f"Qwen3-30B-A3B mixture-of-experts layer, {_TOKENS} tokens"
        drawn = is_installed("matplotlib")
        if drawn:
            stepsim.report.draw_tilings(points, title, picture, counting=_COUNTING)

    show(
        *(f"machine {text}" for text in machines),
        f"routing {routing.source}\n",
        stepsim.report.comparison_table({row["tile"]: row for row in rows}, "tile", title),
    )
    note("bytes and FLOPs are those that each run executed")
    note(f"wrote {table} and {picture}" if drawn else f"wrote {table}, and no picture")
    missing = "; ".join(f"{extra} ({need})" for extra, need in missing_extras().items())
    if missing:
        first = install_extra(next(iter(missing_extras())))
        note(f"extras that are not installed; {first} adds the first: {missing}")
    if any(row["status"] != "ok" for row in rows):
        raise typer.Exit(RUN_FAILED)


def _case(tile: int | str, data: Data, machine: Machine) -> stepsim.simulation.Case:
    """The case of one tiling, with the compute bandwidths of the published experiment."""
    given = {"model": _MODEL, "tile": tile}
    resolved = stepsim.workloads.resolve(
        stepsim.workloads.Moe, given, machine=machine, config="published", data=[data]
    )
    return stepsim.simulation.Case(
        stepsim.workloads.find_workload("moe"), resolved, data, machine, _COUNTING
    )


def _simulated(case: Case, data: Data) -> dict[str, Any]:
    """The row of one tiling."""
    done = case.run(data)
    return {
        **case.describe(data),
        "status": done.status,
        **case.measures(done, data),
        "wall_seconds": done.wall_seconds,
    }


def _table(rows: list[dict[str, Any]], provenance: dict[str, Any]) -> pa.Table:
    """One run per row; the provenance is in the file's metadata."""
    known = stepsim.simulation.parameter_columns(stepsim.workloads.Moe)
    columns = [known.get(name, name) for name in rows[0]]
    own = stepsim.results.schema(
        "tilings", columns, metadata={"provenance": json.dumps(provenance)}
    )
    return pa.Table.from_pylist(rows, schema=own)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{path}: the folder cannot be created ({error.strerror}); choose another with --out"
        ) from error
