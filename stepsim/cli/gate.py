"""``compare --fail-above``: whether runs became worse than allowed, and the exit code."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import typer

import stepsim.report
import stepsim.results
import stepsim.sweep
from stepsim.arguments import counted
from stepsim.cli.console import note
from stepsim.cli.exit_codes import REGRESSED
from stepsim.errors import ArgError, did_you_mean

if TYPE_CHECKING:
    from stepsim.results import RunComparison
    from stepsim.sweep import BaselineComparison, Comparison

_PERCENTAGE: Final = re.compile(r"(\d{1,18}(\.\d{0,18})?|\.\d{1,18})%", re.ASCII)


class Gate:
    """How much worse a metric may be.

    Parameters
    ----------
    metric : column of the runs; for groups of runs also ``p95_cycles`` or ``cost``.
    above : a percentage, as in ``1%``; None lets everything pass.
    allow_missing : whether runs of A that B lacks, or has not finished, may pass.
    ensemble : whether a difference within the spread of both runs is noise, and passes.

    Raises
    ------
        ArgError : ``above`` is not a percentage, it is unknown which values of the metric are
        better, or an ensemble does not cover the metric.
    """

    def __init__(
        self,
        metric: str,
        above: str | None,
        *,
        grouped: bool = False,
        allow_missing: bool = False,
        ensemble: bool = False,
    ) -> None:
        self.metric = metric
        self.ensemble = ensemble
        if ensemble and metric not in stepsim.results.OF_CYCLES:
            raise ArgError(
                "--ensemble compares the spread of cycles; choose --metric among "
                f"{', '.join(stepsim.results.OF_CYCLES)}"
            )
        judged = stepsim.sweep.parse_objective(metric).metric if grouped else metric
        self.above = above
        self.allow_missing = allow_missing
        if above is None:
            if allow_missing:
                raise ArgError("--allow-missing: has an effect only with --fail-above; give it too")
            return
        if _PERCENTAGE.fullmatch(above) is None:
            raise ArgError(f"--fail-above: expected a percentage such as 1%, found '{above}'")
        known = stepsim.results.BETTER
        self.better = known.get(judged, "smaller")
        if judged not in (*known, stepsim.sweep.COST):
            raise ArgError(
                f"--fail-above: it is unknown which values of {metric} are better"
                f"{did_you_mean(metric, known)} Choose --metric among {', '.join(known)}"
            )
        self.most = stepsim.results.Tolerance(float(Fraction(above[:-1]) / 100))

    def exceeded(self, before: float | None, after: float | None) -> bool:
        """Whether the metric became worse by more than allowed, or only one of the two has it."""
        return self.above is not None and self.most.judge(before, after, self.better) == "worse"

    def of_sweeps(self, found: Comparison) -> str:
        """A sentence on the regressions of a sweep; empty without regressions or without a gate."""
        if self.above is None:
            return ""
        worse = sum(
            self.exceeded(change.before, change.after)
            for change in found.changes
            if not (self.ensemble and change.noise)
        )
        failing = len(found.new_failures)
        parts = [f"{worse:,} of {len(found.changes):,} runs worse by more than {self.above}"]
        parts += [f"{failing:,} newly failing"] * bool(failing)
        missing = [] if self.allow_missing else absent_from_b(found)
        return f"{self.metric}: {', '.join(parts + missing)}" if worse or failing or missing else ""

    def of_groups(self, found: BaselineComparison) -> str:
        """Like `of_sweeps`, for designs against their baselines in groups of runs."""
        if self.above is None:
            return ""
        pairs = [found.judged(row) for row in found.rows]
        worse = sum(self.exceeded(*pair) for pair in pairs)
        failing = len(found.newly_failing)
        parts = [f"{worse:,} of {len(pairs):,} rows worse by more than {self.above}"]
        parts += [f"{counted(failing, 'run')} newly failing"] * bool(failing)
        missing = [] if self.allow_missing else absent_designs(found)
        title = found.objective.title
        return f"{title}: {', '.join(parts + missing)}" if worse or failing or missing else ""

    def of_runs(self, found: RunComparison) -> str:
        """Like `of_sweeps`, for two runs."""
        if self.above is None:
            return ""
        status, metric = found.status, self.metric
        if status != ("infeasible", "infeasible"):
            if status.after != "ok":
                return f"B ended with status {status.after}"
            if status.before != "ok":
                return ""
        first, second = found.numbers[metric]
        if second is None:
            return f"{metric} is unknown in B"
        if not self.exceeded(first, second) or (self.ensemble and found.noise):
            return ""
        if first is None:
            return f"{metric} is unknown in A"
        return (
            f"{metric} {stepsim.report.change_text(first, second)}, worse by more than {self.above}"
        )

    def close(self, regression: str) -> None:
        """End the command with `REGRESSED` if there is a regression."""
        if regression:
            note(f"regression: {regression}")
            raise typer.Exit(REGRESSED)


def absent_from_b(found: Comparison) -> list[str]:
    """The runs of A that were not compared, in words."""
    gone, missing = found.only_before, found.missing_after
    parts = [f"{counted(gone, 'run')} of A not in B"] * bool(gone)
    return parts + [f"{counted(missing, 'run')} of B not done yet"] * bool(missing)


def absent_designs(found: BaselineComparison) -> list[str]:
    """Like `absent_from_b`, for designs and their baselines."""
    designs, runs = len(found.lost), found.lost_runs
    parts = [f"{counted(designs, 'baseline')} without a design in B"] * bool(designs)
    parts += [f"{counted(runs, 'run')} of baselines without one of the design"] * bool(runs)
    return parts + [f"{counted(found.missing, 'run')} not done yet"] * bool(found.missing)
