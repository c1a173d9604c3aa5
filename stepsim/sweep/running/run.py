"""``run_sweep``: check, estimate, compute, save, summarize."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stepsim.arguments import shown
from stepsim.errors import OutputError, SweepError
from stepsim.simulation import ensure_compiled, warm_up
from stepsim.sweep.backends import BACKENDS, Backend, DaskBackend, LocalBackend, RayBackend
from stepsim.sweep.planning.plan import Chunk, Plan, make_plan
from stepsim.sweep.running.dispatch import dispatch
from stepsim.sweep.running.signals import ended_by_signals, signals_held
from stepsim.sweep.running.time_left import TimeLeft
from stepsim.sweep.running.work import ChunkRows
from stepsim.sweep.spec.reading import read_spec
from stepsim.sweep.spec.specification import SweepSpec
from stepsim.sweep.storage.saving import Saving
from stepsim.sweep.storage.store import Store
from stepsim.typed import typed, typed_but

_FORECASTS = 20
"""How many times as long as a forecast of the time left takes, no new one is made."""

_OF_THIS_START = ("damaged", "computed", "seconds")


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Progress of a running sweep.

    Attributes
    ----------
    done, total : number of runs, including those of an earlier start.
    seconds : time since this start.
    eta_seconds : estimate of the time left, None before the first chunk of this start.
    """

    done: int
    total: int
    seconds: float
    eta_seconds: float | None


@dataclass(frozen=True, slots=True)
class SweepSummary:
    """Outcome of a sweep.

    Attributes
    ----------
    runs : number of runs of the whole sweep; simulated : rows in ``runs``; failures : rows in
        ``failures``.
    errors : number of failures by kind of error.
    unfinished : reason by chunk that lost its worker again and again; empty when complete.
    damaged : errors of damaged chunks of an earlier start, which were run again.
    computed : number of runs of this start.
    seconds : time of this start.
    """

    runs: int
    simulated: int
    failures: int
    errors: Mapping[str, int]
    unfinished: Mapping[str, str]
    damaged: tuple[str, ...]
    computed: int
    seconds: float

    @property
    def complete(self) -> bool:
        return not self.unfinished

    @typed
    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@typed
def plan_sweep(spec: SweepSpec | Mapping[str, Any] | str | Path) -> Plan:
    """Read and check a whole specification: models, machines, parameters, traces.

    Raises
    ------
    SweepError
        The specification is invalid; all errors are listed together.
    """
    return make_plan(read_spec(spec))


@typed
def estimate_seconds(plan: Plan, jobs: int = 1) -> float:
    """Estimate the time of the sweep from ten runs: one run of five design points, made twice.

    The time that the second run saves is spent once for a program. The rows are dropped.

    Raises
    ------
    SweepError
        ``jobs`` is below 1, or the runs are services, whose time is known only from whole runs.
    """
    check_jobs(jobs)
    known = timed(plan)
    seconds = known.seconds(plan.chunks(), jobs)
    if seconds is None:
        raise SweepError(
            "estimate_seconds: the time of services is known only from whole runs; serve one of "
            "them alone, or run the sweep, which reports the time left after its first runs"
        )
    return seconds


def timed(plan: Plan) -> TimeLeft:
    """What a few runs of the sweep say about its time."""
    warm_up()
    known = TimeLeft(plan)
    known.probe()
    return known


_MOST_JOBS = 10_000


def check_jobs(jobs: int) -> None:
    if not 1 <= jobs <= _MOST_JOBS:
        raise SweepError(
            f"jobs is {shown(jobs)}; expected at least 1, and at most {_MOST_JOBS:,}, as every job "
            "is a process"
        )


def chunks_left(plan: Plan, out: str | Path, *, resume: bool = False) -> list[Chunk]:
    """The chunks left to do in a folder, which is not changed.

    Raises
    ------
    SweepError
        The folder holds a sweep and ``resume`` is false, or holds another one.
    """
    store = Store(Path(out), plan)
    store.check(resume=resume)
    finished = store.finished()
    return [chunk for chunk in plan.chunks() if chunk.key not in finished]


@typed_but("out")
def run_sweep(
    spec: SweepSpec | Mapping[str, Any] | str | Path | Plan,
    out: str | Path,
    *,
    jobs: int = 1,
    backend: str | Backend = "local",
    address: str | None = None,
    resume: bool = False,
    progress: Callable[[SweepProgress], None] | None = None,
    known: TimeLeft | None = None,
) -> SweepSummary:
    """Run a sweep into a folder.

    Rows do not depend on ``jobs``, the backend, or on how often the sweep was interrupted.

    Parameters
    ----------
    spec : YAML file, mapping, :class:`SweepSpec`, or the plan that :func:`plan_sweep` made of one.
    out : folder for the results; a new one, unless ``resume``.
    jobs : worker processes; ignored for a scheduler that runs elsewhere.
    backend : "local", "dask", "ray", or an object that computes chunks, which stays open.
    address : address of a running dask scheduler or ray cluster.
    resume : continue in a folder that holds this sweep.
    progress : called after every chunk.
    known : what `timed` found, for the time left; else only what the sweep's own runs take.

    Raises
    ------
    SweepError
        The specification is wrong, or the folder holds something else; nothing has run then.
    OutputError
        A chunk cannot be written, or memory runs out. Saved runs stay; ``resume`` continues.
    WorkerError
        Workers cannot be started, or the scheduler was lost. Saved runs stay.
    Ended
        SIGTERM or SIGHUP arrived in the main thread, which had no handler for it. It is
        a ``SystemExit``. Saved runs stay, and the workers have ended.
    """
    plan = spec if isinstance(spec, Plan) else plan_sweep(spec)
    check_jobs(jobs)
    if not isinstance(out, str | os.PathLike):
        raise SweepError(f"out: expected a folder, found {shown(out)}")
    if isinstance(backend, str):
        check_backend(backend, address)
    with ended_by_signals(), ExitStack() as closing:
        try:
            store = Store(Path(out), plan)
            store.check(resume=resume)
            # The folder is changed only once the backend works: a scheduler may not respond.
            if isinstance(backend, str):
                backend = start_backend(backend, jobs, address)
                closing.callback(close_backend, backend)
            ensure_compiled()
            with store.open(resume=resume):
                workers = jobs if address is None else None
                return _run(plan, store, backend, progress, known or TimeLeft(plan), workers)
        except MemoryError as error:
            raise OutputError(
                f"{out}: not enough memory; what was finished is kept: end other programs, or use "
                "fewer workers, and continue with --resume"
            ) from error


def check_backend(name: str, address: str | None) -> None:
    """Refuse an unknown backend or a useless address, before anything is started.

    Raises
    ------
    SweepError
        The backend is unknown, or takes no address.
    """
    if name not in BACKENDS:
        raise SweepError(f"unknown backend '{name}'; known are {', '.join(BACKENDS)}")
    if name == "local" and address is not None:
        raise SweepError("address: the local backend takes none; use --backend dask or ray")


def start_backend(name: str, jobs: int, address: str | None) -> Backend:
    if name == "local":
        return LocalBackend(jobs)
    return (DaskBackend if name == "dask" else RayBackend)(jobs, address)


def close_backend(backend: Backend) -> None:
    # If interrupted halfway, workers and their temporary folders would stay.
    with signals_held():
        backend.close()


def _run(
    plan: Plan,
    store: Store,
    backend: Backend,
    progress: Callable[[SweepProgress], None] | None,
    known: TimeLeft,
    jobs: int | None,
) -> SweepSummary:
    """Run what is left; with ``jobs`` None, as many at a time as turns out."""
    begin = time.perf_counter()
    saving = Saving(plan, store)
    before = plan.runs - saving.left
    left = {chunk.key: chunk for chunk in saving.missing()}
    busy, again = 0.0, 0.0
    eta: float | None = None

    def save(rows: ChunkRows) -> None:
        nonlocal busy, eta, again
        saving.save(rows)
        busy += rows.timing["seconds"]
        known.add(left.pop(rows.key).point.index, rows.timing)
        if progress is not None:
            now = time.perf_counter()
            seconds = now - begin
            if now >= again or not left:
                workers = max(1, round(busy / seconds)) if jobs is None else jobs
                eta = known.seconds(left.values(), workers)
                again = now + _FORECASTS * (time.perf_counter() - now)
            progress(SweepProgress(plan.runs - saving.left, plan.runs, seconds, eta))

    lost = dispatch([*left.values()], backend, save)
    unfinished = {chunk.key: reason for chunk, reason in lost}
    return sum_up(plan, store, unfinished, plan.runs - saving.left - before, begin)


def sum_up(
    plan: Plan, store: Store, unfinished: Mapping[str, str], computed: int, begin: float
) -> SweepSummary:
    """The summary of a folder; it is written to the folder if the sweep is complete."""
    errors = _errors(store)
    summary = SweepSummary(
        runs=plan.runs,
        simulated=store.count("runs"),
        failures=sum(errors.values()),
        errors=errors,
        unfinished=unfinished,
        damaged=store.damaged,
        computed=computed,
        seconds=time.perf_counter() - begin,
    )
    if summary.complete:
        store.write_summary({k: v for k, v in summary.to_dict().items() if k not in _OF_THIS_START})
    return summary


def _errors(store: Store) -> dict[str, int]:
    """Number of failures by kind of error."""
    found: Counter[str] = Counter()
    for table in store.tables("failures"):
        found.update(table["error"].to_pylist())
    return dict(sorted(found.items()))
