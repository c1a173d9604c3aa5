"""``stepsim serve``: a service under load, its metrics, and the rate that it can bear."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import stepsim.machine
import stepsim.serving
from stepsim.cli.console import note, print_json, show
from stepsim.cli.exit_codes import RUN_FAILED
from stepsim.cli.heartbeat import Heartbeat
from stepsim.cli.options import Json
from stepsim.cli.panels import in_panels
from stepsim.cli.runs.parameters import given_of, option_name, options_of
from stepsim.cli.serving.pictures import PictureOptions
from stepsim.cli.signature import takes
from stepsim.errors import ArgError
from stepsim.workloads import ParameterError

_FIELDS = stepsim.serving.serve_fields()

_SHOWN = {
    "Requests": (
        "trace", "first", "requests", "output_tokens", "source", "arrivals", "rate", "speedup",
        "burstiness", "users", "think", "seed",
    ),
    "Service": (
        "model", "machine", "overrides", "steps", "error", "host", "memory_bytes", "slo",
        "max_steps",
    ),
    "Scheduler": (
        "scheduler", "max_num_batched_tokens", "max_num_seqs", "num_blocks", "block_size",
        "max_model_len", "policy",
    ),
    "Engines": (
        "replicas", "router", "split",
    ),
}  # fmt: skip

_PANELS = {
    "Output": ("out", "resume", "plot", "perfetto", "find", "tolerance", "json", "help"),
    **_SHOWN,
    "Mapping of a step": tuple(stepsim.serving.mapping_fields()),
    "Advanced": (),
}
"""Options by panel, in the order of the help."""


@dataclass(frozen=True, slots=True)
class MachineChanges:
    """Changes of the machine."""

    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a value of the machine; repeatable."
        ),
    ] = None


@in_panels(_PANELS)
@takes(options_of(_FIELDS), MachineChanges, PictureOptions)
def serve(
    parameters: Any,
    changes: MachineChanges,
    pictures: PictureOptions,
    spec: Annotated[
        Path | None,
        typer.Argument(
            metavar="SPEC.yaml", help="Parameters of the service; options take precedence."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the results to this folder.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", metavar="", help="Continue the service or search in DIR.")
    ] = False,
    find: Annotated[
        Literal["rate"] | None,
        typer.Option(help="Find the largest rate at which the share of --slo meets its limits."),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Largest relative error of the rate that is found. (default: 0.02)"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Serve requests with a model on a machine, and measure latencies and throughput."""
    given: dict[str, Any] = given_of(_FIELDS, parameters)
    if changes.overrides:
        given["overrides"] = stepsim.machine.parse_overrides(changes.overrides)
    if resume and out is None:
        raise ArgError("--resume: has no effect without --out; name the folder of the service")
    if tolerance is not None and find is None:
        raise ArgError("--tolerance: has an effect with --find alone; give both or none")
    if pictures.given and find is not None:
        raise ArgError(
            f"{pictures.given[0]}: has no effect with --find; add --out DIR, then stepsim report "
            f"DIR {pictures.given[0]} FILE"
        )
    pictures.check()
    try:
        if find is not None:
            _find(spec, given, out, tolerance, resume=resume, json=json)
            return
        _serve(spec, given, out, pictures, resume=resume, json=json)
    except ParameterError as error:
        if spec is not None:
            raise
        raise ArgError(error.text(option_name)) from error


def _serve(
    spec: Path | None,
    given: dict[str, Any],
    out: Path | None,
    pictures: PictureOptions,
    *,
    resume: bool,
    json: bool,
) -> None:
    with Heartbeat() as heartbeat:
        heartbeat.phase("serving")
        result = stepsim.serving.serve(
            spec, out=out, resume=resume, progress=heartbeat.progress, **given
        )
    if json:
        print_json(result.summary)
    else:
        show(str(result))
    if out is not None:
        note(f"results in {out}")
    place = spec if out is None else out
    pictures.write({"service" if place is None else place.stem: result})
    if result.status != "ok":
        note("the service was stopped at a limit, with requests left")
        raise typer.Exit(RUN_FAILED)


def _find(
    spec: Path | None, given: dict[str, Any], out: Path | None, tolerance: float | None, *,
    resume: bool, json: bool,
) -> None:  # fmt: skip
    more = {} if tolerance is None else {"tolerance": tolerance}
    with Heartbeat() as heartbeat:
        heartbeat.phase("searching the largest rate")
        found = stepsim.serving.find_rate(
            spec, out=out, resume=resume, progress=heartbeat.progress, **more, **given
        )
    if json:
        print_json(found.to_dict())
    else:
        show(str(found))
    if out is not None:
        note(f"results at the best rate in {out}")
