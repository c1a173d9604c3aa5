"""``stepsim size``: the smallest FIFOs of a workload that keep the speed of unbounded ones."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

import stepsim.results
import stepsim.simulation
import stepsim.sizing
import stepsim.workloads
from stepsim.cli.console import note, print_json, show, show_table
from stepsim.cli.heartbeat import Heartbeat
from stepsim.cli.options import Config, Json, check_counts, check_output
from stepsim.cli.runs.fifo_depths import WrittenFix, check_written
from stepsim.cli.runs.placing import TakenPlace, read_place
from stepsim.cli.runs.ready_case import ready_case
from stepsim.cli.runs.workload_group import workload_app

if TYPE_CHECKING:
    import pyarrow as pa

    from stepsim.cli.runs.workload import Choice
    from stepsim.sizing import FifoSizes

_DEEPEST = 10


def _fraction(text: object) -> float:
    try:
        return float(stepsim.workloads.plain_share(str(text)))
    except ValueError:
        raise typer.BadParameter(f"expected a number, as 0.01 or 1%, found '{text}'") from None


@dataclass(frozen=True, slots=True)
class SizeOptions:
    """The requirements on the depths, as given."""

    takes_fifo_depths: ClassVar[bool] = False
    finds_fifo_depths: ClassVar[bool] = True

    config: Config = None
    place: TakenPlace = None
    slowdown: Annotated[
        float,
        typer.Option(
            metavar="FRACTION",
            parser=_fraction,
            help="Slowdown allowed against unbounded FIFOs, as 0.01 or 1%.",
        ),
    ] = 0.01
    stated: Annotated[
        bool,
        typer.Option("--stated", help="Also size FIFOs whose depth the program states."),
    ] = False
    pareto: Annotated[
        bool,
        typer.Option("--pareto", help="Also find the least bytes for other slowdowns."),
    ] = False
    max_cycles: Annotated[
        int | None, typer.Option(metavar="N", help="Give up a run after this many cycles.")
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.yaml",
            help="Write the depths, for --fifo-depth, and next to them as Parquet the tables of "
            "FIFOs, of uniform depths and of --pareto.",
        ),
    ] = None
    write_fix: WrittenFix = None
    json: Json = False


def size_choice(choice: Choice, options: SizeOptions) -> None:
    """Find, write and print depths for the chosen workload."""
    check_counts(max_cycles=options.max_cycles)
    if options.out is not None:
        check_output(options.out, ".yaml")
    check_written(options.write_fix)
    place = read_place(options.place)
    curve = None
    with Heartbeat() as heartbeat:
        case, traces = ready_case(choice, heartbeat, config=options.config, place=place)
        heartbeat.phase("sizing FIFOs")
        sizes = stepsim.sizing.sized(
            case.unsized,
            case.bound(traces.data),
            slowdown=options.slowdown,
            stated=options.stated or case.sizes_stated,
            limits=stepsim.simulation.Limits(max_cycles=options.max_cycles),
        )
        uniform = sizes.uniform()
        if options.pareto:
            heartbeat.phase("finding the Pareto curve")
            curve = sizes.pareto()
        if options.out is not None:
            _write(options.out, sizes, uniform, curve)
        if options.write_fix is not None:
            sizes.save(options.write_fix)
    if options.json:
        tables = {"uniform": uniform, **({} if curve is None else {"pareto": curve})}
        print_json(sizes.to_dict() | {name: _plain(table) for name, table in tables.items()})
    else:
        _show(sizes, uniform, curve)
    for sentence in case.built.notes:
        note(sentence)


def _write(out: Path, sizes: FifoSizes, uniform: pa.Table, curve: pa.Table | None) -> None:
    beside = {"fifos": sizes.table, "uniform": uniform}
    if curve is not None:
        beside["pareto"] = curve
    stepsim.results.write_tables(out.with_suffix(".parquet"), beside, optional=["pareto"])
    sizes.save(out)


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with values that JSON can represent."""
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        if "fifo_depths" in row:
            row["fifo_depths"] = json.loads(row["fifo_depths"])
        if math.isinf(row.get("slowdown_bound", 0.0)):
            row["slowdown_bound"] = None
    return rows


def _show(sizes: FifoSizes, uniform: pa.Table, curve: pa.Table | None) -> None:
    show(str(sizes), "")
    deepest = sorted(sizes.table.to_pylist(), key=lambda row: -row["fifo_bytes"])[:_DEEPEST]
    show_table(
        ["largest FIFOs", "line", "depth", "bytes of a token", "bytes"],
        [
            [
                stepsim.results.flow_of(r["name"], r["consumer"]),
                stepsim.results.line_of(r["source"]) or "-",
                r["depth"],
                r["token_bytes"],
                f"{r['fifo_bytes']:,}",
            ]
            for r in deepest
        ],
    )
    show("")
    show_table(
        ["depth of all", "status", "cycles", "slowdown", "bytes", "bytes saved"],
        [
            [
                row["uniform_depth"], row["status"], _number(row["cycles"]),
                _share(row["slowdown"]), _number(row["fifo_bytes"]), _number(row["bytes_saved"]),
            ]
            for row in uniform.to_pylist()
        ],
    )  # fmt: skip
    if curve is not None:
        show("")
        show_table(
            ["slowdown allowed", "slowdown", "cycles", "slots", "bytes"],
            [
                [
                    "any" if math.isinf(row["slowdown_bound"]) else _share(row["slowdown_bound"]),
                    _share(row["slowdown"]), _number(row["cycles"]), _number(row["fifo_slots"]),
                    _number(row["fifo_bytes"]),
                ]
                for row in curve.to_pylist()
            ],
        )  # fmt: skip


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"


app = workload_app(
    "Find the smallest FIFOs that keep a workload about as fast as unbounded ones.\n\nEvery FIFO "
    "gets its own depth. WORKLOAD and its parameters are those of `stepsim run`; "
    "`stepsim size moe --help` lists all options.",
    SizeOptions,
    size_choice,
)
