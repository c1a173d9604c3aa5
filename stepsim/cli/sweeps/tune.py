"""``stepsim sweep tune``: a search of a design space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import stepsim.sweep
from stepsim.arguments import counted
from stepsim.cli.console import note, number, print_json, show, show_table
from stepsim.cli.exit_codes import RUN_FAILED
from stepsim.cli.heartbeat import Heartbeat
from stepsim.cli.options import Address, Backend, Jobs, Json
from stepsim.cli.sweeps.run import signals_reported

if TYPE_CHECKING:
    from stepsim.sweep import Trial, TuneProgress, Tuning

_SHOWN_REASONS = 5


def tune(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.yaml", help="Specification of the search.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")],
    jobs: Jobs = 1,
    backend: Backend = "local",
    address: Address = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the search in DIR.")] = False,
    json: Json = False,
) -> None:
    """Search the design space of a specification for the Pareto-optimal designs."""
    with signals_reported(out), Heartbeat() as heartbeat:
        heartbeat.phase("reading the specification and the traces")

        def report(progress: TuneProgress) -> None:
            heartbeat.phase("searching")
            heartbeat.progress(
                f"{progress.trials:,} of {progress.limit:,} designs, "
                f"{progress.front:,} Pareto-optimal, {progress.seconds:.0f} s"
            )

        found = stepsim.sweep.tune(
            spec, out, jobs=jobs, backend=backend, address=address, resume=resume,
            progress=report,
        )  # fmt: skip
    if json:
        print_json({**found.to_dict(), "front": [t.number for t in found.front], "out": str(out)})
    else:
        _show(found, out)
    if found.unfinished or not found.front:
        raise typer.Exit(RUN_FAILED)


def _show(found: Tuning, out: Path) -> None:
    failed = [trial for trial in found.trials if trial.failure]
    violating = sum(bool(trial.violated) for trial in found.trials)
    show(
        f"{len(found.trials):,} designs of {found.space:,} simulated: {len(found.front):,} "
        f"Pareto-optimal, {violating:,} violate a constraint, {len(failed):,} failed",
        f"{found.computed:,} runs computed in {found.seconds:.1f} s; results in {out}\n",
    )
    front = found.front
    if front:
        show_front(front, found.objectives)
    else:
        note("no design succeeded and satisfies all constraints")
    reasons = [f"{_design(t.design)}: {t.failure}" for t in failed]
    if reasons:
        note(
            f"{counted(len(reasons), 'design')} failed:"
            f"{stepsim.sweep.listing(reasons, _SHOWN_REASONS)}"
        )
    refused = [f"{design}: {reason}" for design, reason in found.refused.items()]
    if refused:
        were = "was" if len(refused) == 1 else "were"
        note(
            f"{counted(len(refused), 'design')} {were} not simulated:"
            f"{stepsim.sweep.listing(refused, _SHOWN_REASONS)}"
        )
    if found.unfinished:
        lost = [f"chunk {key}: {why}" for key, why in found.unfinished.items()]
        note(
            f"{len(lost)} chunks killed their worker in every attempt; try --resume:"
            f"{stepsim.sweep.listing(lost)}"
        )


def show_front(front: Sequence[Trial], objectives: Sequence[str]) -> None:
    """A line for all designs with the same costs: their differences have no effect."""
    same: dict[tuple[float, ...], list[Trial]] = {}
    for trial in front:
        same.setdefault(tuple(trial.values[name] for name in objectives), []).append(trial)
    tied = ["designs"] if len(same) < len(front) else []
    show_table(
        [*front[0].design, *objectives, *tied],
        [
            [*own[0].design.values(), *map(number, values), *([_tied(own)] if tied else [])]
            for values, own in same.items()
        ],
    )


def _tied(own: Sequence[Trial]) -> str:
    return f"and {len(own) - 1} more with the same costs" if len(own) > 1 else ""


def _design(design: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in design.items())
