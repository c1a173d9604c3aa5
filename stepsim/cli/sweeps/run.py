"""``stepsim sweep run``: every design point of a specification on every trace."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import stepsim.sweep
from stepsim.cli.console import note, print_json, show
from stepsim.cli.exit_codes import RUN_FAILED, SIGNAL
from stepsim.cli.heartbeat import Heartbeat
from stepsim.cli.options import Address, Backend, Jobs, Json
from stepsim.cli.panels import in_panels
from stepsim.cli.sweeps.notes import deadlock_fixes, failures_query
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.sweep import Chunk, Plan, SweepProgress, SweepSummary

_SHOWN_FAILURES = 5

_PANELS = {
    "Output": ("out", "json", "help"),
    "Run": ("dry_run", "resume", "jobs"),
    "Advanced": ("backend", "address"),
}
"""Options by panel, in the order of the help."""


@in_panels(_PANELS)
def run(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.yaml", help="Specification of the sweep.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the results; required without --dry-run."),
    ] = None,
    jobs: Jobs = 1,
    backend: Backend = "local",
    address: Address = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the sweep in DIR.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only check, count the runs to do and estimate the time."),
    ] = False,
    json: Json = False,
) -> None:
    """Run every design point of a specification on every trace."""
    if out is None and not dry_run:
        raise ArgError("--out: missing; name a folder for the results, or use --dry-run")
    if out is None and resume:
        raise ArgError("--resume: continues the sweep of a folder; name it with --out")
    stepsim.sweep.check_backend(backend, address)
    with signals_reported(None if dry_run else out):
        _run(spec, out, jobs, backend, address, resume=resume, dry_run=dry_run, json=json)


@contextmanager
def signals_reported(out: Path | None) -> Iterator[None]:
    """Report on stderr that a signal ended the command, and exit with its code.

    Raises
    ------
    typer.Exit : a signal ended it.
    """
    # A second signal must not interrupt the report of the first.
    with stepsim.sweep.ended_by_signals() as ending:
        try:
            yield
        except KeyboardInterrupt:
            ending.process_ends = True
            _report_end("interrupted", out)
            raise typer.Exit(SIGNAL + signal.SIGINT) from None
        except stepsim.sweep.Ended as ended:
            ending.process_ends = True
            _report_end(f"ended by {ended.signal.name}", out)
            raise typer.Exit(SIGNAL + ended.signal) from None


def _report_end(how: str, out: Path | None) -> None:
    """Report on stderr that a sweep ended early, and what is kept."""
    kept = ""
    if out is not None and (out / "sweep.json").exists():
        kept = f"; what was finished is kept, continue with --resume --out {out}"
    # The terminal is gone after a hangup.
    with suppress(OSError):
        note(how + kept)


def _run(
    spec: Path,
    out: Path | None,
    jobs: int,
    backend: Backend,
    address: str | None,
    *,
    resume: bool,
    dry_run: bool,
    json: bool,
) -> None:
    """Run the sweep into ``out``, or only plan and estimate."""
    with Heartbeat() as heartbeat:
        heartbeat.phase("reading the specification and the traces")
        plan = stepsim.sweep.plan_sweep(spec)
        chunks = [*plan.chunks()]
        if out is not None:
            chunks = stepsim.sweep.chunks_left(plan, out, resume=resume)
        heartbeat.phase("timing a few runs for an estimate")
        known = stepsim.sweep.timed(plan) if chunks else None
        estimate = 0.0 if known is None else known.seconds(chunks, jobs)
    _note_plan(plan, _runs(chunks), estimate, jobs if address is None else None)
    if dry_run or out is None:
        if json:
            print_json(_plan_record(plan, estimate))
        return
    with Heartbeat() as heartbeat:
        heartbeat.phase("starting")

        def report(progress: SweepProgress) -> None:
            heartbeat.phase("running")
            heartbeat.progress(_how_far(progress))

        summary = stepsim.sweep.run_sweep(
            plan, out, jobs=jobs, backend=backend, address=address, resume=resume,
            progress=report, known=known,
        )  # fmt: skip
    if json:
        print_json({**_plan_record(plan, estimate), **summary.to_dict(), "out": str(out)})
    else:
        left = _runs(stepsim.sweep.chunks_left(plan, out, resume=True))
        _show_summary(summary, out, left)
    if summary.failures or not summary.complete:
        raise typer.Exit(RUN_FAILED)


def _runs(chunks: Iterable[Chunk]) -> int:
    return sum(len(chunk.traces) for chunk in chunks)


def _how_far(progress: SweepProgress) -> str:
    share = f"{progress.done:,} of {progress.total:,} runs, {progress.seconds:.0f} s"
    left = progress.eta_seconds
    return share if left is None else f"{share}, about {left:.0f} s left"


def _note_plan(plan: Plan, left: int, estimate: float | None, jobs: int | None) -> None:
    bad = plan.unreadable
    unusable = f" ({len(bad):,} of them cannot be used)" if bad else ""
    done = "" if left == plan.runs else f"{left:,} of them left to do, "
    workers = "of compute time" if jobs is None else f"with {jobs} worker{'s' if jobs > 1 else ''}"
    seconds = "the time left is known after the first of them"
    if estimate is not None:
        seconds = f"about {estimate:.0f} s {workers}"
    note(f"{plan.size}{unusable}; {done}{seconds}{stepsim.sweep.listing(bad, _SHOWN_FAILURES)}")
    machines = (point.machine for point in plan.points if point.machine is not None)
    for sentence in dict.fromkeys(text for machine in machines for text in machine.notes):
        note(sentence)
    if plan.misfits:
        note(f"runs that become failures:{stepsim.sweep.listing(plan.misfits, _SHOWN_FAILURES)}")


def _plan_record(plan: Plan, estimate: float | None) -> dict[str, Any]:
    return {
        "name": plan.spec.name,
        "runs": plan.runs,
        "design_points": [point.label for point in plan.points],
        "traces": len(plan.traces),
        "estimated_seconds": estimate,
    }


def _show_summary(summary: SweepSummary, out: Path, left: int) -> None:
    kinds = "".join(f"\n  {count:,} x {error}" for error, count in summary.errors.items())
    lost = list(summary.unfinished.items())
    unfinished = "".join(f"\n  chunk {key}: {why}" for key, why in lost[:_SHOWN_FAILURES])
    well = summary.runs - left - summary.failures
    ends = f"{well:,} succeeded, {summary.failures:,} failed" + (f", {left:,} left" if left else "")
    before = "" if summary.computed == summary.runs else ", the others earlier"
    show(
        f"{summary.runs:,} runs: {ends}" + (f" (in the table failures):{kinds}" if kinds else ""),
        f"{summary.computed:,} runs computed in {summary.seconds:.1f} s{before}",
        f"results in {out}",
    )
    if "deadlock" in summary.errors:
        fixes = [f"{label}: {fix}" for label, fix in deadlock_fixes(out).items()]
        note(f"deadlocks, by design point:{stepsim.sweep.listing(fixes, _SHOWN_FAILURES)}")
    if summary.failures:
        note(f"to see the reasons: {failures_query(out)}")
    if summary.damaged:
        note(
            f"{len(summary.damaged):,} chunks of an earlier start were damaged and were run again; "
            f"check the disk:{stepsim.sweep.listing(summary.damaged, _SHOWN_FAILURES)}"
        )
    if lost:
        note(f"{len(lost)} chunks killed their worker in every attempt; try --resume:{unfinished}")
