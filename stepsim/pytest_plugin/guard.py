"""The fixture ``cycles``: simulate a program and compare the numbers with their baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepsim.arguments import flag, is_number, label_of, shown
from stepsim.errors import ArgError, did_you_mean
from stepsim.graph import check_program
from stepsim.pytest_plugin.baselines import Baselines, read_baselines
from stepsim.pytest_plugin.entries import METRICS, Entry, measured
from stepsim.pytest_plugin.judging import judge
from stepsim.pytest_plugin.places import baseline_file, relative_to, update_command
from stepsim.report import number_text
from stepsim.results import Tolerance
from stepsim.simulation import simulate

if TYPE_CHECKING:
    from stepsim.graph import Program
    from stepsim.machine import Machine
    from stepsim.results import Result
    from stepsim.simulation import FifoDepth, Limits

PerMetric = float | Mapping[str, float]


class CyclesCheckFailed(AssertionError):
    """A run is not ok, has no baseline, or differs from its baseline."""


class Cycles:
    """The value of the fixture ``cycles`` of a test: its checks, and their baselines.

    Parameters
    ----------
    test_file : the file of the test; its baselines are next to it.
    test : name of the test in the file, with its class and parameters.
    root : folder that files are named from.
    invoked_from : folder that pytest was started in, from which commands name files.
    updating : whether checks record baselines instead of comparing with them.
    """

    def __init__(
        self, test_file: Path, test: str, *, root: Path, invoked_from: Path, updating: bool
    ) -> None:
        self._path = baseline_file(test_file)
        self._file = relative_to(self._path, root)
        self._command = update_command(test_file, invoked_from)
        self._test = test
        self._updating = updating
        self._checks: dict[str, Entry] = {}
        self._notes: list[str] = []
        self._known: Baselines | None = None

    def check(
        self,
        program: Program,
        machine: Machine | str = "sda-1024",
        *,
        name: str | None = None,
        bindings: Mapping[Any, Any] | None = None,
        fifo_depth: FifoDepth = None,
        limits: Limits | None = None,
        rtol: PerMetric = 0.0,
        atol: PerMetric = 0.0,
        metrics: Iterable[str] = METRICS,
        allow_less: bool = False,
    ) -> Result:
        """Simulate a program and compare the run with its baseline.

        Parameters
        ----------
        program, machine, bindings, fifo_depth, limits : as for :func:`stepsim.simulate`.
        name : distinguishes several checks of a test; by default the name of the program.
        rtol : share of the baseline by which a metric may differ, as in 0.01, for all metrics or by
            metric.
        atol : amount by which it may differ: a number of cycles, or a mapping by metric. The larger
            one of both counts.
        metrics : metrics to compare, among cycles, offchip_bytes, onchip_bytes and flops. By
            default all of them, where on-chip bytes that are not known are noted instead.
        allow_less : a run that needs less of something than the baseline, beyond the tolerance,
            passes with a note. Otherwise it fails, so that the improvement is recorded and cannot
            be lost again unseen.

        Returns
        -------
        Result
            The run, for assertions of your own.

        Raises
        ------
        CyclesCheckFailed : the run ended in a deadlock, with a failed unit or at a limit; it has no
            baseline; a metric that was asked for is not known; or one is beyond its tolerance. The
            message has the differences, which of program, machine and timing model changed, and the
            stalls that explain it.
        ArgError : an argument is wrong, or two checks of a test have one name.
        BaselineError : the file of baselines is damaged.
        """
        __tracebackhide__ = True
        check_program("cycles.check", program)
        label = label_of("cycles.check: name", name)
        label = program.name if label is None else label
        allow_less = flag("cycles.check: allow_less", allow_less)
        tolerances = _tolerances(metrics, rtol, atol)
        result = simulate(program, machine, bindings=bindings, fifo_depth=fifo_depth, limits=limits)
        title = f"{program.name} on {result.provenance['machine']['name']}"
        if label != program.name:
            title = f"{label}: {title}"
        if result.status != "ok":
            raise CyclesCheckFailed(
                f"{title}: the run ended with status {result.status}, which is not a baseline and "
                f"cannot be compared with one: {result.diagnosis}"
            )
        entry = measured(program, result, bindings)
        self._record(label, entry)
        self._must_know(title, entry, metrics, tolerances)
        if not self._updating:
            self._hold(title, label, entry, tolerances, allow_less)
        return result

    def measured(self) -> dict[str, Any]:
        """What the test measured, as plain values, for the process that writes files."""
        return {
            "checks": {name: entry.to_dict() for name, entry in self._checks.items()},
            "notes": self._notes,
        }

    def _record(self, label: str, entry: Entry) -> None:
        # A check that is merely repeated, as by pytest-benchmark, adds nothing.
        if self._checks.setdefault(label, entry) != entry:
            raise ArgError(
                f"cycles.check: this test has two checks named '{label}' of different runs; pass "
                "name= to distinguish them"
            )

    def _must_know(
        self, title: str, entry: Entry, metrics: object, tolerances: Mapping[str, Tolerance]
    ) -> None:
        """Refuse to check a metric that is not known, or note it where nobody asked for it.

        Two runs without a number are not two equal runs.
        """
        __tracebackhide__ = True
        unknown = [name for name in tolerances if entry.metric(name) is None]
        if not unknown:
            return
        text = (
            f"{' and '.join(unknown)} not known, since the program has sizes that only a run "
            "decides"
        )
        if metrics is not METRICS:
            others = [name for name in tolerances if name not in unknown]
            raise CyclesCheckFailed(
                f"{title}: {text}, so that no baseline can hold; leave it out of metrics"
                + (f", as in metrics={others}" if others else "")
            )
        self._notes.append(f"{self._test}: {title}: {text}, and not checked")

    def _hold(
        self,
        title: str,
        label: str,
        entry: Entry,
        tolerances: Mapping[str, Tolerance],
        allow_less: bool,
    ) -> None:
        __tracebackhide__ = True
        if self._known is None:
            self._known = read_baselines(self._path)
        checks = self._known.get(self._test, {})
        before = checks.get(label)
        if before is None:
            raise CyclesCheckFailed(f"{title}: {self._missing(label, checks, entry)}")
        verdict = judge(before, entry, tolerances)
        if verdict.worse or (verdict.better and not allow_less):
            advice = "if this is meant" if verdict.worse else "to keep what was gained"
            raise CyclesCheckFailed(
                f"{title}: {verdict.headline} in {self._file}\n\n{verdict.text()}\n\n"
                f"{advice}, record it: {self._command}"
            )
        if verdict.better:
            self._notes.append(
                f"{self._test}: {title} is {verdict.headline}; {self._command} records it"
            )
        if verdict.model_changed:
            self._notes.append(
                f"{self._test}: the baseline of '{label}' is of MODEL_VERSION "
                f"{before.model_version} and still holds with {entry.model_version}"
            )

    def _missing(self, label: str, checks: Mapping[str, Entry], entry: Entry) -> str:
        others = f"; the test has {', '.join(map(repr, sorted(checks)))}" if checks else ""
        values = ", ".join(f"{metric} {number_text(entry.metric(metric))}" for metric in METRICS)
        return (
            f"no baseline of '{label}' for {self._test} in {self._file}{others}. Measured: "
            f"{values}. To make these the baseline: {self._command}, and commit the file"
        )


def _tolerances(metrics: object, rtol: object, atol: object) -> dict[str, Tolerance]:
    if isinstance(metrics, str) or not isinstance(metrics, Iterable):
        raise ArgError(
            f"cycles.check: metrics must be a list of names, found {shown(metrics)}; known are "
            f"{', '.join(METRICS)}"
        )
    chosen = list(metrics)
    for metric in chosen:
        _check_metric("metrics", metric)
    if not chosen:
        raise ArgError("cycles.check: metrics is empty, so that nothing would be checked")
    shares = _by_metric("rtol", rtol, chosen, of_number=chosen)
    amounts = _by_metric("atol", atol, chosen, of_number=["cycles"])
    return {
        metric: Tolerance(shares.get(metric, 0.0), amounts.get(metric, 0.0)) for metric in chosen
    }


def _by_metric(
    argument: str, value: object, chosen: list[str], *, of_number: list[str]
) -> dict[str, float]:
    """A tolerance by metric; a plain number is that of the metrics ``of_number``."""
    if isinstance(value, Mapping):
        for metric in value:
            _check_metric(argument, metric)
            if metric not in chosen:
                raise ArgError(
                    f"cycles.check: {argument} has '{metric}', which is not among metrics"
                )
        given = dict(value)
    else:
        given = dict.fromkeys(of_number, value)
    for metric, amount in given.items():
        if not is_number(amount) or not 0 <= amount < math.inf:
            raise ArgError(
                f"cycles.check: {argument} of {metric} must be a number from 0, found "
                f"{shown(amount)}"
            )
    if given.get("cycles") and "cycles" not in chosen:
        raise ArgError(f"cycles.check: {argument} is given for cycles, which are not among metrics")
    return given


def _check_metric(argument: str, metric: object) -> None:
    if metric not in METRICS:
        near = did_you_mean(metric, METRICS)
        raise ArgError(
            f"cycles.check: {argument} has {shown(metric)}{near} Known: {', '.join(METRICS)}"
        )
