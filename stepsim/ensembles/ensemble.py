"""The spread of the cycles of a program over disturbed runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

import stepsim.results
from stepsim.arrow import pa
from stepsim.ensembles.disturbances import Bounds
from stepsim.errors import ArgError
from stepsim.typed import typed


@dataclass(frozen=True)
class Ensemble:
    """Cycles of a program and of disturbed runs of it.

    Attributes
    ----------
    program, machine : names.
    nominal : cycles of the undisturbed run, which is not a member.
    cycles : cycles of every member, by its number; None if it did not complete.
    statuses : how every member ended: "ok" (also where the program does not fit the machine),
        "deadlock", "failed" or "limit".
    seed : seed of the members.
    bounds : least and largest change by disturbance.
    about : description of each disturbance, by its name.
    """

    program: str
    machine: str
    nominal: int
    cycles: tuple[int | None, ...]
    statuses: tuple[str, ...]
    seed: int
    bounds: Mapping[str, Bounds]
    about: Mapping[str, str]

    @cached_property
    def _ended(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array([one for one in self.cycles if one is not None], np.int64)

    @typed
    def percentile(self, share: float) -> float | None:
        """The cycles below which ``share`` percent of the members lie, interpolated between
        members.

        None if no member completed.

        Raises
        ------
        ArgError : ``share`` is not a number from 0 to 100.
        """
        if not 0 <= share <= 100:
            raise ArgError(f"percentile: share must be from 0 to 100 (percent), found {share}")
        return float(np.percentile(self._ended, share)) if len(self._ended) else None

    @property
    def median(self) -> float | None:
        """Median cycles of the members."""
        return self.percentile(50)

    @property
    def p5(self) -> float | None:
        """5th percentile of their cycles."""
        return self.percentile(5)

    @property
    def p95(self) -> float | None:
        """95th percentile of their cycles."""
        return self.percentile(95)

    @property
    def least(self) -> int | None:
        """Cycles of the shortest member."""
        return int(self._ended.min()) if len(self._ended) else None

    @property
    def most(self) -> int | None:
        """Cycles of the longest member."""
        return int(self._ended.max()) if len(self._ended) else None

    @property
    def spread(self) -> float | None:
        """The distance from p5 to p95, as a fraction of the median."""
        if self.p5 is None or self.p95 is None or not self.median:
            return None
        return (self.p95 - self.p5) / self.median

    @property
    def lost(self) -> int:
        """Number of members that did not complete."""
        return len(self.cycles) - len(self._ended)

    def columns(self) -> dict[str, float | None]:
        """The measures of runs with an ensemble."""
        return {"cycles_p5": self.p5, "cycles_median": self.median, "cycles_p95": self.p95}

    @typed
    def and_then(self, last: Ensemble) -> Ensemble:
        """The ensemble of programs that run one after another: members are added by their number.

        The first program that did not complete gives a member its status.
        """
        pairs = zip(self.cycles, last.cycles, strict=True)
        ended = zip(self.statuses, last.statuses, strict=True)
        return replace(
            last,
            nominal=self.nominal + last.nominal,
            cycles=tuple(None if a is None or b is None else a + b for a, b in pairs),
            statuses=tuple(b if a == "ok" else a for a, b in ended),
            bounds={**self.bounds, **last.bounds},
            about={**self.about, **last.about},
        )

    @typed
    def is_within(self, other: Ensemble) -> bool:
        """Whether the difference to another is within the noise, that is, p5 to p95 overlap."""
        return bool(stepsim.results.within_spread(self.columns(), other.columns()))

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values for JSON."""
        return {
            "nominal": self.nominal,
            "median": self.median,
            "p5": self.p5,
            "p95": self.p95,
            "least": self.least,
            "most": self.most,
            "cycles": list(self.cycles),
            "statuses": list(self.statuses),
            "seed": self.seed,
            "bounds": {name: list(pair) for name, pair in self.bounds.items()},
        }

    def to_arrow(self) -> pa.Table:
        """One row for each member: its number, how it ended, and its cycles."""
        form = stepsim.results.schema(
            "ensemble",
            [
                stepsim.results.field("member", "int64", "", "number of the member, from 0"),
                "status",
                "cycles",
            ],
            ["member", "status"],
        )
        columns = [range(len(self.cycles)), self.statuses, self.cycles]
        arrays = [pa.array(list(one), each.type) for one, each in zip(columns, form, strict=True)]
        return pa.Table.from_arrays(arrays, schema=form)

    def __str__(self) -> str:
        bounds = ", ".join(
            f"{name} {low:+d}..{high:+d}" for name, (low, high) in self.bounds.items()
        )
        count = len(self.cycles)
        if self.median is None:
            return f"none of {count} disturbed runs ({bounds}; seed {self.seed}) completed"
        lost = f"; {self.lost} did not complete" if self.lost else ""
        return (
            f"{count} disturbed runs ({bounds}; seed {self.seed}): median {self.median:,.0f} "
            f"cycles, p5 {self.p5:,.0f}, p95 {self.p95:,.0f}, from {self.least:,} to "
            f"{self.most:,}; nominal {self.nominal:,}{lost}"
        )

    __repr__ = __str__
