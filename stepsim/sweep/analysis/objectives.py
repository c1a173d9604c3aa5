"""Objectives of designs: metrics over their runs, and a cost that is a weighted sum of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stepsim.errors import ArgError, did_you_mean
from stepsim.results import EVERY_MEASURE
from stepsim.sweep.analysis.statistics import STATISTICS, Statistic, statistics
from stepsim.sweep.spec.filters import find_name

_SHORT: Final = {"energy": "energy_joules"}
"""Short names of metrics."""

COST: Final = "cost"
"""The metric that is the sum of weighted columns; smaller is better."""


class Objective(NamedTuple):
    """A metric, and the statistic over the runs by which a design is judged."""

    metric: str
    statistic: Statistic

    @property
    def title(self) -> str:
        """``mean cycles``."""
        return f"{self.statistic} {self.metric}"


def parse_objective(text: str, known: Iterable[str] = (*EVERY_MEASURE, COST)) -> Objective:
    """``cycles`` is the mean over the runs, ``p95_cycles`` the 95th percentile.

    ``energy`` is short for ``energy_joules``.

    Raises
    ------
    ArgError
        There is no such metric.
    """
    every = list(known)
    if _SHORT.get(text, text) in every:
        return Objective(_SHORT.get(text, text), "mean")
    head, _, metric = text.partition("_")
    metric = _SHORT.get(metric, metric)
    for statistic in STATISTICS:
        if head == statistic and metric in every:
            return Objective(metric, statistic)
    raise ArgError(
        f"objective '{text}' is unknown{did_you_mean(text, every)} Known are "
        f"{', '.join(every)}, and percentiles of them such as p95_cycles"
    )


def is_cost(text: str) -> bool:
    """Whether an objective is the cost, or a percentile of it."""
    return text == COST or text in {f"{statistic}_{COST}" for statistic in STATISTICS}


def statistic_names(metric: str, values: Sequence[float]) -> dict[str, float]:
    """Values of ``cycles``, ``p50_cycles`` and so on over runs, for conditions."""
    found = statistics(values)
    others = {f"{name}_{metric}": found.of(name) for name in STATISTICS}
    return {metric: found.mean, **others}


def parse_weights(text: str) -> dict[str, float]:
    """``hbm_channels=1,onchip_bytes=1e-6`` as a mapping.

    Raises
    ------
    ArgError
        A part is not a name with a number of at least 0.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (one.strip() for one in part.partition("="))
        try:
            weight = float(number)
        except ValueError:
            weight = -1.0
        if not (name and equals and 0 <= weight < float("inf")) or name in found:
            raise ArgError(
                f"--cost: expected weights such as hbm_channels=1,onchip_bytes=1e-6, found '{part}'"
            )
        found[name] = weight
    return found


PRICES: Final[Mapping[str, tuple[str, ...]]] = {
    "hbm_channel": ("machine.hbm.channels",),
    "hbm_bytes_per_cycle": ("peak_bandwidth",),
    "onchip_bytes_per_cycle": ("machine.onchip.bytes_per_cycle",),
    "onchip_byte": ("onchip_bytes", "fifo_bytes"),
    "flops_per_cycle": ("allocated_flops_per_cycle",),
}
"""Columns that the prices of a machine's section ``costs`` weigh."""


def priced_weights(values: Mapping[str, Any]) -> dict[str, float]:
    """The weights that the machine of a design states; ``values`` are those of the design.

    Raises
    ------
    ArgError
        The machine states no weights.
    """
    found = {
        column: float(price)
        for name, columns in PRICES.items()
        if (price := values.get(f"machine.costs.{name}")) is not None
        for column in columns
    }
    if not found:
        raise ArgError(
            "cost: the machine has no section costs; add one, or give weights such as "
            "hbm_channels=1,onchip_bytes=1e-6"
        )
    return found


def weighted_cost(
    weights: Mapping[str, float] | None,
    values: Mapping[str, Any],
    why_absent: Callable[[str], str] | None = None,
) -> float:
    """The sum of weight times value, in the unit of the weights; those of the machine if None.

    ``why_absent`` says of a metric why these values lack it.

    Raises
    ------
    ArgError
        A name is unknown, its value is not a number, or there are no weights.
    """
    total = 0.0
    for name, weight in (weights or priced_weights(values)).items():
        full = find_name(name, values, "cost")
        value = values[full]
        if isinstance(value, bool) or not isinstance(value, int | float):
            advice = "leave it out"
            if not weights:
                advice = (
                    "the machine has a price for it; give weights of other columns in place of its "
                    "prices, such as onchip_bytes=1e-6"
                )
            found = repr(value)
            if value is None and why_absent is not None and full in EVERY_MEASURE:
                found = f"not known ({why_absent(full)})"
            raise ArgError(f"cost: {full} is {found}, expected a number; {advice}")
        total += weight * value
    return total


def run_costs(
    weights: Mapping[str, float] | None,
    values: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
) -> list[float]:
    """The cost of every run of a design; ``values`` are those that all of its runs share.

    Raises
    ------
    ArgError
                As in :func:`weighted_cost`.
    """
    return [weighted_cost(weights, {**row, **values}) for row in rows]
