"""FIFO depths of the program of a group: planned, repaired by runs, and shrunk."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Literal

import numpy as np

from stepsim.design.choices import Sizing
from stepsim.design.programs.group_program import GroupProgram, fifos_of
from stepsim.design.search.fifo_planning import FifoPlan
from stepsim.errors import CompileError
from stepsim.results import ENDED
from stepsim.simulation import Limits, Prepared
from stepsim.sizing import Depths, Found, ProgramRuns, slot_bytes

_INTERVALS: Mapping[str, Literal["effective", "normal", "conservative"]] = {
    "lp": "effective", "normal": "normal", "conservative": "conservative",
}  # fmt: skip


INNER = (2, 4, 8, 16, 64, 256, 1024, 1 << 20)
"""Depths of FIFOs within kernels, loads and converters, of which the least that does is taken."""


@dataclass(frozen=True)
class SizedGroup:
    """Depths of all FIFOs of a program, by name, with their costs and cycles.

    Attributes
    ----------
    streams : depths of the FIFOs between kernels, loads and converters, by name of the stream.
    unbounded : cycles without bounds.
    """

    depths: Mapping[str, int]
    streams: Mapping[str, int]
    found: Found
    unbounded: int
    fifo_bytes: int


class GroupSizing:
    """The FIFOs of one group.

    Those between kernels, loads and converters are sized. Those within are part of them and have
    one depth, the least of :data:`INNER` with which they cost next to no time.

    Attributes
    ----------
    runs : what runs the program with other depths.
    names : of the FIFOs that are sized, in the order of the runs.
    inner : depth of all others, by name.
    unbounded : cycles of a run in which all FIFOs are unbounded.

    Parameters
    ----------
    timetables : keep what depths by ``recorded`` need.
    """

    def __init__(
        self,
        made: GroupProgram,
        prepared: Prepared,
        plan: FifoPlan,
        slowdown: float,
        *,
        timetables: bool = True,
    ) -> None:
        self.made, self.plan, self.slowdown = made, plan, slowdown
        fifos = prepared.wiring.fifos
        known = fifos_of(made.streams, prepared.wiring)
        self.streams, self.names = tuple(known), tuple(known.values())
        sized = np.array([prepared.fifo_numbers[name] for name in self.names], np.int64)
        self.unbounded, self.inner, open_ = self._with_inner(prepared)
        kinds = [re.sub(r"\d+", "#", name) for name in self.names]
        first = {kind: number for number, kind in reversed(list(enumerate(kinds)))}
        self.slots = {fifo.name: slot_bytes(fifo.stream.type) for fifo in fifos}
        self.runs = ProgramRuns(
            name=made.program.name,
            images=[open_.image()],
            timing=prepared.timing,
            sized=sized,
            alike=np.array([first[kind] for kind in kinds]),
            bounds=np.array(list(self.slots.values()), np.int64),
            checks=[prepared.check({})],
            keep=prepared.keep,
            timetables=timetables,
        )

    def _with_inner(self, prepared: Prepared) -> tuple[int, dict[str, int], Prepared]:
        """Cycles without bounds, depths of FIFOs within kernels, and the program with them."""
        all_open = prepared.changed(fifo_depths=dict.fromkeys(prepared.fifo_numbers))
        run = all_open.run()
        if run.status not in ENDED:
            raise CompileError(
                f"{self.made.program.name}: with unbounded FIFOs the run ends with "
                f"'{run.status}': {run.reason}"
            )
        within = [name for name in prepared.fifo_numbers if name not in set(self.names)]
        most = run.cycles * (1 + self.slowdown / 2)
        limits = Limits(max_cycles=max(1, int(most)) if isfinite(most) else None)
        for depth in INNER:
            inner = dict.fromkeys(within, depth)
            made = all_open.changed(fifo_depths=inner)
            tried = made.run(limits=limits)
            # A limit stops what begins after it, so that a run may still end a few cycles later.
            if tried.status in ENDED and tried.cycles <= most:
                break
        return run.cycles, inner, made

    @property
    def left(self) -> float:
        """The slowdown left to the sized FIFOs, as a fraction of the cycles of its runs."""
        return max(0.0, self.unbounded * (1 + self.slowdown) / self.runs.cycles[0] - 1)

    def planned(self, sizing: Sizing) -> Depths | None:
        """Depths before any run with them; None leaves the plan to the recorded stamps."""
        if sizing == "recorded":
            return None
        if sizing == "unbounded":
            most: Depths = np.maximum(self.runs.peaks, self.runs.most)
            return most
        planned = self.plan.depths(_INTERVALS[sizing])
        return np.array([planned[name] for name in self.streams], np.int64)

    def solved(self, sizing: Sizing, *, shrink: bool = True, runs: int | None = None) -> SizedGroup:
        """Depths with which a run takes at most ``1 + slowdown`` times as long as without bounds.

        Parameters
        ----------
        shrink : make them smaller by runs, too.
        runs : that shrinking makes at most.
        """
        budget = runs if shrink and sizing != "unbounded" else 0
        return self.sized(self.runs.solved(self.left, budget=budget, planned=self.planned(sizing)))

    def sized(self, found: Found) -> SizedGroup:
        """Costs of depths, by name."""
        depths = found.depths.tolist()
        named = {**self.inner, **dict(zip(self.names, depths, strict=True))}
        return SizedGroup(
            named,
            dict(zip(self.streams, depths, strict=True)),
            found,
            self.unbounded,
            sum(depth * self.slots[name] for name, depth in named.items()),
        )
