"""The critical path of a run: what every cycle up to the last event was spent on.

Every cycle belongs to one operator and one cause, and the segments add up to the length of the run;
:mod:`stepsim.explain.walk` finds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepsim.arguments import Range, shown
from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.explain.crossings import PortName, by_number
from stepsim.explain.repeats import folded_lines
from stepsim.explain.walk import Walk
from stepsim.graph import check_bindings
from stepsim.simulation import (
    Prepared,
    as_prepared,
)
from stepsim.typed import typed_but

if TYPE_CHECKING:
    from stepsim.graph import Program
    from stepsim.lowering import TimingParams
    from stepsim.machine import Machine
    from stepsim.noc import Placement
    from stepsim.simulation import FifoDepth, ImageRun, Limits

pa: Any = deferred("pyarrow")

_KEYS: Final = ("operator", "op", "cause", "fifo", "link")
"""Columns by which segments can be summed."""
_LINES: Final = Range(2**31 - 1, "lines of repeats and segments")


@dataclass(frozen=True)
class CriticalPath:
    """The chain of operators and causes that accounts for every cycle of a run.

    Attributes
    ----------
    cycles : length of the run, which is the sum of the segments.
    status : status of the run. If it is not "ok", the path leads to the last event before the end.
    segments : Arrow table, in the order of time: ``begin``, ``end``, ``cycles``, ``operator``,
        ``op``, ``cause`` (of `stepsim.explain.walk.CAUSES`), ``fifo``, the FIFO that was waited
        for or that a packet belongs to, and ``link``, the link that a packet waited for; null for
        none.
    """

    cycles: int
    status: str
    segments: pa.Table

    @typed_but("by")
    def totals(self, by: Sequence[str] = ("operator", "cause")) -> pa.Table:
        """Cycles, segments and share by these columns, most cycles first.

        Raises
        ------
        ArgError
            ``by`` is not a list of the columns operator, op, cause, fifo and link.
        """
        keys = [by] if isinstance(by, str) else list(by) if isinstance(by, Iterable) else [by]
        known = all(isinstance(key, str) and key in _KEYS for key in keys)
        if not keys or not known or len({*keys}) < len(keys):
            raise ArgError(
                f"critical path, totals: by must be a list of distinct columns among "
                f"{', '.join(_KEYS)}, found {shown(by)}"
            )
        table = self.segments.group_by(keys).aggregate([("cycles", "sum"), ("cycles", "count")])
        table = table.rename_columns([*keys, "cycles", "segments"])
        table = table.sort_by([("cycles", "descending"), *((key, "ascending") for key in keys)])
        share = np.asarray(table["cycles"]) / max(1, self.cycles)
        return table.append_column("share", pa.array(share, pa.float64()))

    def folded(self, max_lines: int = 40) -> str:
        """The path as text; repeated sequences are one line with their count.

        Raises
        ------
        ArgError
            ``max_lines`` is not an int from 1.
        """
        max_lines = _LINES.checked("critical path, folded: max_lines", max_lines)
        head = f"critical path of {self.cycles:,} cycles, {self.segments.num_rows:,} segments"
        if self.status != "ok":
            head += f" (the run ended with {self.status}: the path leads to its last event)"
        names = ("begin", "cycles", "operator", "cause")
        begins, cycles, operators, causes = (self.segments[name].to_pylist() for name in names)
        causes = [
            cause if link is None else f"{cause}: {link}"
            for cause, link in zip(causes, self.segments["link"].to_pylist(), strict=True)
        ]
        lines = folded_lines(begins, cycles, operators, causes, max_lines=max_lines)
        return "\n".join([head, *lines])

    def __str__(self) -> str:
        return self.folded()


def critical_path(
    program: Program | Prepared,
    machine: Machine | str | None = None,
    *,
    bindings: Mapping[Any, Any] | None = None,
    fifo_depth: FifoDepth = None,
    limits: Limits | None = None,
    place: Placement | str | PathLike[str] | None = None,
) -> CriticalPath:
    """Run a program, recorded, and find its critical path.

    Parameters
    ----------
    program, machine, bindings, fifo_depth, limits, place : as in :func:`~stepsim.simulate`; a
        prepared program already has its machine, depth and places.

    Raises
    ------
    ArgError, LoweringError, MachineError
        As for :func:`~stepsim.simulate`, and if the record does not fit in memory.
    """
    program = as_prepared("critical_path", program, machine, fifo_depth, place)
    indices = check_bindings(program.program, bindings)
    run = program.execute(indices, limits=limits, record="paces")
    return path_of(run, program.timing, port_names(program, run))


def port_names(program: Prepared, run: ImageRun) -> PortName:
    """Words for the links that a placed program, or one on several chips, ran on."""
    loads = program.loads(run)
    return by_number if loads is None else loads.port_name


def path_of(run: ImageRun, timing: TimingParams, port_name: PortName = by_number) -> CriticalPath:
    """The critical path of a run that was recorded with paces.

    ``port_name`` has the words for ports of a network on chip.

    Raises
    ------
    ValueError
        It was not recorded so.
    """
    if run.record is None or not run.record.has_paces:
        raise ValueError("a critical path needs a run with record='paces'")
    walk = Walk(run, run.record, timing, port_name)
    walk.back()
    return CriticalPath(run.totals.cycles, run.totals.status, walk.table())
