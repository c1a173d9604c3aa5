"""Whether a check holds, and if not, what changed, and how that affected the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stepsim.arguments import counted
from stepsim.pytest_plugin.entries import METRICS, Entry
from stepsim.report import change_text, number_text, stall_rows, text_table
from stepsim.results import BETTER, Tolerance, program_changes, settings_changes, stall_changes

_MOST_STALLS = 12
_MOST_DEPTHS = 8

_WORDS = {
    "cycles": "cycles",
    "offchip_bytes": "off-chip bytes",
    "onchip_bytes": "on-chip bytes",
    "flops": "FLOPs",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A check and its baseline.

    Attributes
    ----------
    worse, better : metrics beyond their tolerance, those that are incomparable among the worse.
    """

    before: Entry
    after: Entry
    tolerances: Mapping[str, Tolerance]
    worse: tuple[str, ...]
    better: tuple[str, ...]

    @property
    def headline(self) -> str:
        """A phrase such as ``slower than its baseline``."""
        if "cycles" in self.worse:
            return "slower than its baseline"
        if self.worse:
            return f"{_listed(self.worse)} changed beyond the baseline"
        if "cycles" in self.better:
            return "faster than its baseline"
        return f"less {_listed(self.better)} than in its baseline"

    @property
    def model_changed(self) -> bool:
        """Whether the baseline was recorded with another timing model."""
        return self.before.model_version != self.after.model_version

    def text(self) -> str:
        """Numbers, what changed between the two runs, and the stalls that explain it."""
        return "\n\n".join(
            part for part in (self._numbers(), self._causes(), self._stalls()) if part
        )

    def _numbers(self) -> str:
        rows = []
        for metric in METRICS:
            first, second = self.before.metric(metric), self.after.metric(metric)
            allowed = self.tolerances.get(metric)
            rows.append(
                [
                    _WORDS[metric],
                    number_text(first),
                    number_text(second),
                    change_text(first, second),
                    "not checked" if allowed is None else str(allowed),
                ]
            )
        return text_table(["", "baseline", "now", "change", "allowed"], rows)

    def _causes(self) -> str:
        changed, same = [], []
        for what, difference in self._inputs():
            if difference:
                changed.append(f"{what}: {difference}")
            else:
                same.append(what)
        if not changed:
            return (
                "what changed: no input of the run, so the simulator itself did. "
                "A different timing model with the same MODEL_VERSION is an error of stepsim, "
                "or of a package that adds to it"
            )
        lines = "\n".join(f"  {line}" for line in changed)
        equal = f"\nthe same as in the baseline: {', '.join(same)}" if same else ""
        several = "" if len(changed) == 1 or not self.model_changed else _SEPARATE
        return f"what changed:\n{lines}{equal}{several}"

    def _inputs(self) -> list[tuple[str, str]]:
        """All inputs of a run, with their differences; empty text for equal ones."""
        one, two = self.before, self.after
        return [
            ("program", "\n    ".join(self._program())),
            ("bindings", "; ".join(settings_changes(one.bindings, two.bindings))),
            ("machine", "; ".join(settings_changes(_settings(one), _settings(two)))),
            ("FIFO depth", "; ".join(_depth_changes(one, two))),
            ("plugins", "; ".join(settings_changes(one.plugins, two.plugins))),
            ("timing model", _difference(one.model_version, two.model_version, "MODEL_VERSION ")),
        ]

    def _program(self) -> list[str]:
        """What changed in the program, a line each."""
        one, two = self.before, self.after
        if one.program_hash == two.program_hash:
            return []
        return program_changes(one.listing, two.listing, ("the baseline", "this run"))

    def _stalls(self) -> str:
        changes = stall_changes(self.before.stalls, self.after.stalls)
        if not changes:
            return ""
        names, rows = stall_rows(changes, _MOST_STALLS, ("baseline", "now"))
        left = len(changes) - len(rows)
        more = f"\n  and {counted(left, 'smaller change')}" if left else ""
        return (
            "where the cycles went (average over the lanes of each operator, own work and accesses "
            "first):\n"
            f"{text_table(names, rows)}{more}"
        )


_SEPARATE = (
    "\nto separate the two, check the old program out with this stepsim and record its baselines "
    "with --update-cycles: the remaining difference is the program's"
)


def judge(before: Entry, after: Entry, tolerances: Mapping[str, Tolerance]) -> Verdict:
    """Compare the checked metrics of a run with its baseline."""
    sides = {
        metric: allowed.judge(before.metric(metric), after.metric(metric), BETTER[metric])
        for metric, allowed in tolerances.items()
    }
    worse, better = (
        tuple(metric for metric, side in sides.items() if side == wanted)
        for wanted in ("worse", "better")
    )
    return Verdict(before, after, tolerances, worse, better)


def _settings(entry: Entry) -> dict[str, object]:
    """The settings that times depend on: all of the machine except its name."""
    return {name: value for name, value in entry.machine.items() if name != "name"}


def _difference(before: object, after: object, prefix: str = "") -> str:
    return "" if before == after else f"{prefix}{before} -> {after}"


def _depth_changes(before: Entry, after: Entry) -> list[str]:
    """Differences in the default FIFO depth and in depths by name, the first few of many."""
    named = [
        {name: "unbounded" if depth is None else depth for name, depth in one.fifo_depths.items()}
        for one in (before, after)
    ]
    changes = settings_changes(*named)
    left = len(changes) - _MOST_DEPTHS
    default = _difference(before.fifo_depth, after.fifo_depth)
    more = [f"and {left:,} more FIFOs"] if left > 0 else []
    return [*([default] if default else []), *changes[:_MOST_DEPTHS], *more]


def _listed(metrics: tuple[str, ...]) -> str:
    return " and ".join(_WORDS[metric] for metric in metrics)
