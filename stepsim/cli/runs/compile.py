"""``stepsim compile``: from a model to a sized, simulated design in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import stepsim.design
import stepsim.machine
import stepsim.reproduce
import stepsim.simulation
import stepsim.workloads
from stepsim.cli.commands import ready
from stepsim.cli.console import note, number, print_json, show, show_table
from stepsim.cli.exit_codes import RUN_FAILED
from stepsim.cli.heartbeat import LOADING_ENGINE, Heartbeat
from stepsim.cli.options import Json, check_folder
from stepsim.cli.panels import PanelCommand
from stepsim.cli.runs.parameters import clash_of, given_of, options_of
from stepsim.cli.signature import takes
from stepsim.errors import ArgError, StepSimError
from stepsim.workloads import Field, fields_of

if TYPE_CHECKING:
    from stepsim.design import Compiled


_SIZES = fields_of(stepsim.design.ModelSizes)

_CHOICES = {
    name: field
    for name, field in fields_of(stepsim.design.Choices).items()
    if name in fields_of(stepsim.design.SearchedChoices) or name in ("fit", "effort", "placed")
}
"""Choices with an option; the others are arguments of ``stepsim.compile``."""


_MOST_ROUTINGS: Final = 8
"""Limit on the windows of routing traces, unless --routings is given."""


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The target of the design: the machine and the traces over which FIFOs are sized."""

    machine: Annotated[
        str, typer.Option(metavar="MACHINE", help="Name of a machine, or a YAML file of one.")
    ] = "u55c"
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a value of the machine; repeatable."
        ),
    ] = None
    routing: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Routing traces over which FIFOs of a model with experts are sized; repeatable. "
            "Every window of as many tokens as the model takes is one routing, up to --routings.",
        ),
    ] = None
    routings: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Limit on the windows of all routing traces together. "
            f"(default: {_MOST_ROUTINGS})",
        ),
    ] = None


_PANELS = {
    "Output": ("out", "json", "check", "help"),
    "Workload": (
        "phase", "tokens", "context", "batch", "attention_layer", "max_rows", "routing", "routings",
    ),
    "Machine": ("machine", "overrides"),
    "Design choices": (
        "config", "tile", "unroll", "order", "fusion", "vectors", "sizing", "max_slowdown", "fit",
    ),
    "Advanced": (
        "unrolling", "budget", "reuse_bytes", "packed", "folded", "shrink", "hidden", "inner",
        "heads", "kv_heads", "head_dim", "experts", "active", "effort", "seed", "keep_going",
        "passes", "fifo_table",
    ),
}  # fmt: skip
"""Options by panel, in the order of the help."""


def _compile(
    sizes: Any,
    options: TargetOptions,
    chosen: Any,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|FILE.py:NAME|FILE.onnx",
            help="Name of a model, a YAML file or a config.json; an ONNX file; or a file that "
            "makes an operator graph, a PyTorch module with its arguments, or a function that "
            "returns one of these, whose arguments are options, as `stepsim compile FILE.py:NAME "
            "--help` shows.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the plan, the FIFO depths and a picture to this folder."
        ),
    ] = None,
    passes: Annotated[
        bool,
        typer.Option("--passes", help="Print the graph before and after every pass."),
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(stepsim.design.CONFIGS),
            help="Take the options of a published design, and print its times beside the "
            "published ones.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Compare the values that the design computes with those of the model."
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Seed of the inputs that --check draws. (default: 0)"),
    ] = None,
    fifo_table: Annotated[
        bool,
        typer.Option("--fifo-table", help="Compare with other methods of sizing FIFOs."),
    ] = False,
    keep_going: Annotated[
        bool,
        typer.Option("--keep-going", help="Import unknown operators as opaque kernels."),
    ] = False,
    json: Json = False,
) -> None:
    """Compile a model to kernels, groups and sized FIFOs for a machine, and simulate it."""
    named = given_of(_CHOICES, chosen)
    if options.routings is not None and options.routing is None:
        raise ArgError("--routings: has an effect with --routing alone; give both or none")
    if seed is not None and not check:
        raise ArgError("--seed: has an effect with --check alone; give both or none")
    if passes and json:
        raise ArgError("--passes: prints text, which has no place in --json; leave one out")
    if out is not None:
        check_folder(out)
    with Heartbeat() as heartbeat:
        heartbeat.phase("loading")
        machine = stepsim.machine.load_machine(
            options.machine, stepsim.machine.parse_overrides(options.overrides or [])
        )
        own = stepsim.design.arguments_of(model)
        given = given_of(_SIZES if own is None else own, sizes)
        source = stepsim.design.find_model(model, machine, given, keep_going=keep_going)
        graph = source.graph
        for text in source.notes:
            note(text)
        most = named.get("tile", stepsim.design.Choices.tile)
        # A configuration has tiles and sizes of its own, which are known to be fast.
        thin = {} if config is not None else stepsim.design.thin_tiles(graph, most)
        for size, step in thin.items():
            note(
                f"dims of {size:,} have tiles of {step}, their largest divisor up to {most}: "
                "nothing is padded, and such a design is slow to simulate and to compile; as "
                f"{-(-size // most) * most:,} they would have tiles of {most}"
            )
        traces = None
        if options.routing is not None:
            windows = _MOST_ROUTINGS if options.routings is None else options.routings
            traces = stepsim.design.routing_windows(graph, options.routing, windows)
        heartbeat.phase(LOADING_ENGINE)
        stepsim.simulation.warm_up()
        compiled = stepsim.design.compile(
            source, machine, config=config, traces=traces, progress=heartbeat.phase, **named
        )
        written = () if out is None else compiled.save(out)
        rows_published: list[Any] = []
        if config is not None:
            heartbeat.phase("simulating the published requests")
            rows_published = stepsim.reproduce.published_rows(config)
            if named:
                changed = ", ".join(f"--{name.replace('_', '-')}" for name in named)
                note(f"the published requests are simulated with config {config} as it is, "
                     f"without {changed}")  # fmt: skip
        checked = None
        if check:
            heartbeat.phase("checking values")
            checked = compiled.check(seed=0 if seed is None else seed)
        tables: list[Any] = []
        if fifo_table:
            heartbeat.phase("comparing FIFO sizes")
            groups = [one.group for one in compiled.plan.groups]
            tables = [stepsim.reproduce.fifo_table(compiled, group) for group in groups]
    if json:
        rows = [[asdict(row) for row in table] for table in tables]
        more: dict[str, Any] = {"fifo_table": rows} if rows else {}
        if rows_published:
            more["published"] = [asdict(row) for row in rows_published]
        if checked is not None:
            more["check"] = checked.to_dict()
        print_json(compiled.to_dict() | more)
    else:
        if passes:
            show(compiled.passes_text())
        _show(compiled)
        for table in [*tables, *([rows_published] if rows_published else [])]:
            show("")
            show_table(
                [name.replace("_", " ") for name in asdict(table[0])],
                [[_cell(value) for value in asdict(row).values()] for row in table],
            )
        if checked is not None:
            show("", str(checked))
    for path in written:
        note(f"wrote {path}")
    if compiled.plan.infeasible is not None:
        note(f"infeasible: {compiled.plan.infeasible}")
    if compiled.plan.infeasible is not None or (checked is not None and not checked.ok):
        raise typer.Exit(RUN_FAILED)


def _command(own: Mapping[str, Field]) -> Any:
    """The command for a function of the user, whose arguments are options."""
    clash = clash_of(own, _command({}), "stepsim compile") if own else None
    if clash is not None:
        name, other = clash
        raise ArgError(
            f"the argument {name} of the function clashes with the {other}; choose another "
            f"name, such as my_{name}"
        )
    panels = {**_PANELS, "Workload": (*own, "routing", "routings")}
    app = typer.Typer(add_completion=False)
    app.command(name="compile", cls=type("Command", (PanelCommand,), {"panels": panels}))(
        takes(options_of(own), TargetOptions, options_of(_CHOICES))(_compile)
    )
    return ready(typer.main.get_command(app))


class _CompileCommand(PanelCommand):
    """The command for models that are named or imported; that for a function has its options."""

    panels = _PANELS

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        with_value = {
            name for one in self.params if not getattr(one, "is_flag", False) for name in one.opts
        }
        helps = ["--help"] if parent is None else parent.help_option_names
        for before, text in pairwise(["", *args]):
            file, name = stepsim.workloads.split_target(text)
            if before not in with_value and file is not None and file.endswith(".py"):
                if not name and not set(args).isdisjoint(helps):
                    shown = copy(self)
                    shown.epilog = _unnamed(text)
                    return super(_CompileCommand, shown).make_context(
                        info_name, args, parent, **extra
                    )
                own = stepsim.design.arguments_of(text)
                if own is not None:
                    return _command(own).make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def _unnamed(file: str) -> str:
    """How to name a function of a file, or why its functions are not known."""
    try:
        stepsim.design.arguments_of(file)
    except StepSimError as error:
        return f"{error}. Arguments of the function are options, shown by --help after its name."
    return ""


compile_model = takes(options_of(_SIZES), TargetOptions, options_of(_CHOICES))(_compile)
vars(compile_model)["command_class"] = _CompileCommand


def _show(compiled: Compiled) -> None:
    plan = compiled.plan
    show(f"{plan.name} on {plan.machine.name}", "")
    for rows in (
        stepsim.design.kernel_rows(plan),
        stepsim.design.group_rows(compiled),
        stepsim.design.converter_rows(plan),
        stepsim.design.fifo_rows(compiled),
        stepsim.design.memory_rows(plan),
    ):
        if rows:
            show_table(
                [name.replace("_", " ") for name in rows[0]],
                [[_cell(value) for value in row.values()] for row in rows],
            )
            show("")
    show(
        "on chip bytes are buffer bytes, which runs report as on-chip memory, and FIFO bytes",
        *stepsim.design.order_text(plan),
        *stepsim.design.tile_text(plan),
        *stepsim.design.times_text(plan),
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return number(float(value)) if isinstance(value, int | float) else str(value)
