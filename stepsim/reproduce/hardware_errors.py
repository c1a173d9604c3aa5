"""Errors of models against the hardware of figure 8: the ladder to it, and small changes.

Errors found by others are in ``hardware_errors.csv`` next to this file, each row with its source.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from stepsim.reproduce.figures.hardware import layer_run
from stepsim.reproduce.points import Run
from stepsim.reproduce.published import HardwareRow
from stepsim.reproduce.runs import Outcome

_TURN: Final = "turn"
"""Kind of the models of the hardware with the first turn at another port."""


class Errors(NamedTuple):
    """Relative errors of cycles in percent: mean and largest absolute errors, and signed mean."""

    mean: float
    worst: float
    bias: float


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the hardware, and its errors as others found them.

    Attributes
    ----------
    kind : ``ladder``, ``turn`` or ``change``.
    step : name of a step of the ladder; empty for others.
    words : its description.
    level, machine, changes : the run.
    mean, worst, bias : as stated by the source, in percent; empty where it does not state them.
    source : origin of these numbers.
    """

    kind: str
    step: str
    words: str
    level: str
    machine: str
    changes: Mapping[str, int]
    mean: str
    worst: str
    bias: str
    source: str

    def run(self, tiling: tuple[int, int]) -> Run:
        """The layer with the given rows and inner columns per tile."""
        return layer_run(*tiling, machine=self.machine, level=self.level, changes=self.changes)


@cache
def models() -> tuple[Model, ...]:
    """The models of the shipped table, in its order."""
    file = resources.files("stepsim.reproduce").joinpath("hardware_errors.csv")
    rows = csv.DictReader(file.read_text("utf-8").splitlines(), strict=True)
    return tuple(
        Model(
            row["kind"], row["step"], row["model"], row["level"], row["machine"],
            _changes(row["changes"]),
            row["mean"], row["worst"], row["bias"], row["source"],
        )
        for row in rows
    )  # fmt: skip


def _changes(text: str) -> dict[str, int]:
    pairs = (change.partition("=") for change in text.split())
    return {key: int(value) for key, _, value in pairs}


def errors_of(
    model: Model, measured: Mapping[tuple[int, int], HardwareRow], outcomes: Mapping[Run, Outcome]
) -> Errors:
    """Errors of a model against hardware cycles, over all tilings with known cycles."""
    return _summed(_relative([model], measured, outcomes))


def noise(
    measured: Mapping[tuple[int, int], HardwareRow], outcomes: Mapping[Run, Outcome]
) -> Errors:
    """Effect of the arbiter's first turn: errors over all ports but the first, and all tilings."""
    turns = [model for model in models() if model.kind == _TURN]
    return _summed(_relative(turns, measured, outcomes))


def _relative(
    chosen: Iterable[Model],
    measured: Mapping[tuple[int, int], HardwareRow],
    outcomes: Mapping[Run, Outcome],
) -> list[float]:
    return [
        100 * (outcomes[model.run(tiling)].cycles / row.cycles - 1)
        for model in chosen
        for tiling, row in measured.items()
    ]


def _summed(errors: Sequence[float]) -> Errors:
    absolute = [abs(error) for error in errors]
    return Errors(math.fsum(absolute) / len(errors), max(absolute), math.fsum(errors) / len(errors))
