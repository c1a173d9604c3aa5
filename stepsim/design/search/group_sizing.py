"""FIFO depths of the program of a group: planned, repaired by runs, and shrunk."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
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


_NARROW = 12
"""The first bound of bytes of a FIFO within a kernel is 2 to the power of this."""

HELD = (1 << 12, 1 << 16, 1 << 20)
"""Bytes that FIFOs between kernels hold at least, up to their peaks, where planned ones are not
enough and must be small."""

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
    room : bytes of on-chip memory for all FIFOs of the group; None is any number.
    """

    def __init__(
        self,
        made: GroupProgram,
        prepared: Prepared,
        plan: FifoPlan,
        slowdown: float,
        *,
        timetables: bool = True,
        room: int | None = None,
    ) -> None:
        self.made, self.plan, self.slowdown = made, plan, slowdown
        fifos = prepared.wiring.fifos
        self.slots = {fifo.name: slot_bytes(fifo.stream.type) for fifo in fifos}
        known = fifos_of(made.streams, prepared.wiring)
        self.streams, self.names = tuple(known), tuple(known.values())
        sized = np.array([prepared.fifo_numbers[name] for name in self.names], np.int64)
        self.unbounded, self.inner, open_ = self._with_inner(prepared, room)
        kinds = [re.sub(r"\d+", "#", name) for name in self.names]
        first = {kind: number for number, kind in reversed(list(enumerate(kinds)))}
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

    def _with_inner(
        self, prepared: Prepared, room: int | None
    ) -> tuple[int, dict[str, int], Prepared]:
        """Cycles without bounds, depths of FIFOs within kernels, and the program with them.

        Where one depth for all takes more than the room, wide FIFOs, those of whole buffers, hold
        fewer tokens: as many as the least bound of bytes has room for that costs no more time.
        """
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
        if room is None or self._bytes_of(inner) <= room:
            return run.cycles, inner, made
        widest = max(self.slots[name] for name in within)
        for bit in range(_NARROW, (depth * widest).bit_length()):
            bounded = {
                name: max(1, min(depth, (1 << bit) // max(1, self.slots[name]))) for name in within
            }
            fewer = all_open.changed(fifo_depths=bounded)
            tried = fewer.run(limits=limits)
            if tried.status in ENDED and tried.cycles <= most:
                return run.cycles, bounded, fewer
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

    def shallow(self, planned: Depths | None, room: int | None) -> list[Depths]:
        """Smaller depths to try in place of planned ones that need more than ``room`` bytes."""
        if room is None or planned is None or self._bytes(planned) + self._inner_bytes <= room:
            return []
        tried = self.plan.shallow(dict(zip(self.streams, planned.tolist(), strict=True)))
        found = [np.array([depths[name] for name in self.streams], np.int64) for depths in tried]
        weights = self.runs.token_bytes[self.runs.sized]
        found += [
            np.maximum(found[0], np.minimum(self._raised(planned), held // weights))
            for held in HELD
        ]
        return [
            depths
            for depths in found
            if (depths < planned).any() and self._bytes(depths) < self._bytes(planned)
        ]

    def _raised(self, planned: Depths) -> Depths:
        """Depths with which no FIFO but one behind a load holds a run up."""
        raised = self.runs.peaks.copy()
        for number, name in enumerate(self.streams):
            if name in self.plan.loaded:
                raised[number] = min(planned[number], self.plan.loaded_depth(name))
        return raised

    def _bytes_of(self, depths: Mapping[str, int]) -> int:
        return sum(depth * self.slots[name] for name, depth in depths.items())

    @property
    def _inner_bytes(self) -> int:
        return self._bytes_of(self.inner)

    def _bytes(self, depths: Depths) -> int:
        weights = [self.slots[name] for name in self.names]
        return int((depths * np.array(weights, np.int64)).sum())

    def solved(
        self,
        sizing: Sizing,
        *,
        shrink: bool = True,
        runs: int | None = None,
        room: int | None = None,
    ) -> SizedGroup:
        """Depths with which a run takes at most ``1 + slowdown`` times as long as without bounds.

        Parameters
        ----------
        shrink : make them smaller by runs, too.
        runs : that shrinking makes at most.
        room : bytes of on-chip memory for all FIFOs of the group. Where planned depths need more,
            smaller ones are tried first; None is any number of bytes.
        """
        budget = runs if shrink and sizing != "unbounded" else 0
        planned = self.planned(sizing)
        shallow = [] if sizing == "unbounded" else self.shallow(planned, room)
        found = self.runs.solved(
            self.left, budget=budget, planned=planned, shallow=shallow,
            raised=self._raised(planned) if shallow and planned is not None else None,
        )  # fmt: skip
        return self.sized(found)

    def cut(self, made: SizedGroup, room: int) -> SizedGroup | None:
        """Depths for which there is room where those within the slowdown need too much.

        What loads hold ahead is what can be left off chip: their FIFOs get one bound of bytes, the
        largest for which there is room. None where the others leave no room, or the run does not
        end.
        """
        loaded = np.array([name in self.plan.loaded for name in self.streams])
        weights = np.array([self.slots[name] for name in self.names], np.int64)
        least = np.where(loaded, np.minimum(made.found.depths, 2), made.found.depths)

        def bounded(most: int) -> Depths:
            even: Depths = np.clip(most // np.maximum(weights, 1), least, made.found.depths)
            return even

        left = room - self._inner_bytes
        if self._bytes(bounded(0)) > left:
            return None
        # The bytes of the last bound that fits; every step doubles or halves the precision.
        most = 0
        for bit in reversed(range(room.bit_length())):
            if self._bytes(bounded(most + (1 << bit))) <= left:
                most += 1 << bit
        depths = bounded(most)
        (run,) = self.runs.run([depths])
        if run.status[0] not in ENDED:
            return None
        found = replace(
            made.found, depths=depths, cycles=(int(run.cycles[0]),), proved=False, complete=False,
            simulations=made.found.simulations + 1,
        )  # fmt: skip
        return self.sized(found)

    def sized(self, found: Found) -> SizedGroup:
        """Costs of depths, by name."""
        depths = found.depths.tolist()
        named = {**self.inner, **dict(zip(self.names, depths, strict=True))}
        return SizedGroup(
            named,
            dict(zip(self.streams, depths, strict=True)),
            found,
            self.unbounded,
            self._bytes_of(named),
        )
