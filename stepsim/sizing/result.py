"""The FIFO depths found: their cost, comparisons with other depths, and their file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from stepsim.arguments import counted, shown
from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.graph import FIFO_DEPTH
from stepsim.results import ENDED, schema
from stepsim.simulation import Prepared, machine_hash, save_depths
from stepsim.sizing.program_runs import ProgramRuns, checked_slowdown
from stepsim.sizing.search import Found
from stepsim.typed import typed

pa: Any = deferred("pyarrow")

SLOWDOWNS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, math.inf)
"""Slowdowns of the points of a Pareto curve; the last gives the least depths that run at all."""

UNIFORM = (2, 8, 1024)
"""Uniform depths that the sizes are compared with."""

_FIFOS = (
    "fifo",
    "name",
    "producer",
    "consumer",
    "source",
    "depth",
    "token_bytes",
    "fifo_bytes",
    "unbounded_peak",
)
_UNIFORM = (
    "uniform_depth",
    "status",
    "cycles",
    "slowdown",
    "fifo_slots",
    "fifo_bytes",
    "bytes_saved",
)
_PARETO = ("slowdown_bound", "slowdown", "cycles", "fifo_slots", "fifo_bytes", "fifo_depths")


class FifoSizes:
    """The FIFO depths of least bytes found for a program. Made by :func:`size_fifos`.

    Attributes
    ----------
    bytes, slots : totals of all sized FIFOs.
    cycles, unbounded_cycles : of the runs with these depths and with unbounded FIFOs, one for each
        of the bindings.
    slowdown_bound : largest fraction by which the runs may be longer than the unbounded ones.
    simulations_before, simulations : runs made until the depths were enough, and in all.
    proved : whether it is proved that no smaller depths are enough, given that deeper FIFOs never
        make a run slower; units that merge by arrival or share the memory may break that premise.
    program, program_hash, machine : the program and machine that were sized.
    runs : runs of the program with other depths.
    """

    def __init__(
        self,
        prepared: Prepared,
        names: tuple[str, ...],
        runs: ProgramRuns,
        slowdown_bound: float,
        found: Found,
    ) -> None:
        self._prepared, self._names, self._found = prepared, names, found
        self.runs = runs
        self.slowdown_bound = slowdown_bound
        self.program = prepared.program.name
        self.program_hash = prepared.program_hash
        self.machine = prepared.machine.name
        self.slots, self.bytes = self._cost(found.depths)
        self.cycles, self.unbounded_cycles = found.cycles, runs.cycles
        self.simulations_before, self.simulations = found.before, found.simulations
        self.proved = found.proved

    @property
    def depths(self) -> dict[str, int | None]:
        """Depth in tokens by name of every sized FIFO and of those that kept theirs.

        A new dictionary every time.
        """
        return self._by_name(self._found)

    @property
    def prepared(self) -> Prepared:
        """The prepared program with these depths."""
        return self._prepared.changed(fifo_depths=self.depths)

    @property
    def slowdown(self) -> float:
        """Slowdown against unbounded runs, as a fraction; the largest of all bindings."""
        return self._slowdown(self.cycles)

    @cached_property
    def table(self) -> pa.Table:
        """One row for each sized FIFO: depth, size of its tokens, bytes, line of its producer."""
        wiring, sized = self._prepared.wiring, self.runs.sized
        sizes = self.runs.token_bytes[sized]
        # Of the program: in the image of a placed one, carriers are at the ends of FIFOs.
        producers = {c: unit for unit in wiring.units for c in unit.outputs}
        consumers = {c: unit for unit in wiring.units for c in unit.inputs}
        columns = {
            "fifo": sized,
            "name": self._names,
            "producer": [producers[c].name for c in sized.tolist()],
            "consumer": [consumers[c].name for c in sized.tolist()],
            "source": [producers[c].source or None for c in sized.tolist()],
            "depth": self._found.depths,
            "token_bytes": sizes,
            "fifo_bytes": sizes * self._found.depths,
            "unbounded_peak": self.runs.peaks,
        }
        form = schema("fifo_sizes", _FIFOS, {*_FIFOS} - {"source"}, self._provenance())
        arrays = [pa.array(columns[one.name], one.type) for one in form]
        return pa.Table.from_arrays(arrays, schema=form)

    def uniform(self, depths: Iterable[int] = UNIFORM) -> pa.Table:
        """Bytes and cycles with one depth for all these FIFOs, one row for each depth."""
        given = _listed("uniform: depths must be a list of ints, as (2, 8)", depths)
        chosen = [FIFO_DEPTH.checked(f"uniform: depths[{i}]", d) for i, d in enumerate(given)]
        vectors = [np.full(len(self._names), depth) for depth in chosen]
        runs = self.runs.run(vectors)
        rows = []
        for place, (depth, vector) in enumerate(zip(chosen, vectors, strict=True)):
            ends = [each.status[place] for each in runs]
            status = next((one for one in ends if one not in ENDED), "ok")
            cycles = [int(each.cycles[place]) for each in runs]
            slots, size = self._cost(vector)
            row = {
                "uniform_depth": depth, "status": status, "fifo_slots": slots, "fifo_bytes": size,
                "bytes_saved": size - self.bytes,
            }  # fmt: skip
            if status == "ok":
                row |= {"cycles": sum(cycles), "slowdown": self._slowdown(tuple(cycles))}
            rows.append(row)
        nullable = {"cycles", "slowdown"}
        form = schema("fifo_uniform", _UNIFORM, set(_UNIFORM) - nullable)
        return pa.Table.from_pylist(rows, schema=form)

    def pareto(self, slowdowns: Iterable[float] = SLOWDOWNS) -> pa.Table:
        """Bytes against cycles: the least depths for several slowdowns, one row for each.

        Rows no better than an earlier one are left out. ``math.inf`` asks for the least depths
        with which the program completes at all.
        """
        rows: list[dict[str, Any]] = []
        found: Found | None = None
        given = _listed("pareto: slowdowns must be a list of numbers, as (0.01, 0.1)", slowdowns)
        bounds = [checked_slowdown(f"pareto: slowdowns[{i}]", one) for i, one in enumerate(given)]
        for bound in sorted(set(bounds)):
            if bound == self.slowdown_bound:
                found = self._found
            else:
                found = self.runs.solved(bound, None if found is None else found.depths)
            slots, size = self._cost(found.depths)
            if rows and size >= rows[-1]["fifo_bytes"]:
                continue
            rows.append(
                {
                    "slowdown_bound": bound,
                    "slowdown": self._slowdown(found.cycles),
                    "cycles": sum(found.cycles),
                    "fifo_slots": slots,
                    "fifo_bytes": size,
                    "fifo_depths": json.dumps(self._by_name(found)),
                }
            )
        form = schema(
            "fifo_pareto",
            _PARETO,
            _PARETO,
            self._provenance(),
        )
        return pa.Table.from_pylist(rows, schema=form)

    @typed
    def save(self, path: str | PathLike[str]) -> None:
        """Write the depths as YAML, for ``fifo_depth=`` or ``fix=`` of :func:`simulate`.

        What else was changed of the program before it was sized, such as its places, is in the
        file too, which ``fix=`` then takes: the run has exactly the cycles that the file states.

        Raises
        ------
        OutputError
            The file cannot be written.
        """
        save_depths(path, self._prepared, self._about(), self.depths)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, for JSON."""
        return {**self._about(), "depths": self.depths}

    def __str__(self) -> str:
        longer = f"{self.slowdown:+.2%} of {sum(self.unbounded_cycles):,} unbounded"
        sized = zip(self._names, self._found.depths.tolist(), strict=True)
        deepest = sorted(sized, key=lambda item: -item[1])[:5]
        lines = [
            f"{counted(len(self._names), 'FIFO')} of '{self.program}' on {self.machine}: "
            f"{counted(self.slots, 'slot')}, {self.bytes:,} bytes",
            f"cycles {sum(self.cycles):,} ({longer}), found by {self.simulations:,} simulations",
            "deepest: " + ", ".join(f"{name} {depth:,}" for name, depth in deepest),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        slots = counted(self.slots, "slot")
        return f"<FifoSizes of '{self.program}': {slots}, {self.bytes:,} bytes>"

    def _provenance(self) -> dict[str, str]:
        return {"provenance": json.dumps(self._about(), allow_nan=False)}

    def _about(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "program_hash": self.program_hash,
            "program_fifo_depth": self._prepared.program.fifo_depth,
            "machine": self.machine,
            "machine_hash": machine_hash(self._prepared.machine),
            # JSON has no infinity.
            "slowdown_bound": None if math.isinf(self.slowdown_bound) else self.slowdown_bound,
            "slowdown": self.slowdown,
            "cycles": list(self.cycles),
            "unbounded_cycles": list(self.unbounded_cycles),
            "fifo_slots": self.slots,
            "fifo_bytes": self.bytes,
            "simulations_before": self.simulations_before,
            "simulations": self.simulations,
            "proved": self.proved,
        }

    def _by_name(self, found: Found) -> dict[str, int | None]:
        """All depths of the program for ``found``, including those that were kept."""
        sized = zip(self._names, found.depths.tolist(), strict=True)
        return {**self._prepared.fifo_depths, **dict(sized)}

    def _cost(self, depths: Any) -> tuple[int, int]:
        """Slots and bytes of given depths of all sized FIFOs."""
        sizes = self.runs.token_bytes[self.runs.sized]
        return int(depths.sum()), int((depths * sizes).sum())

    def _slowdown(self, cycles: tuple[int, ...]) -> float:
        pairs = zip(cycles, self.unbounded_cycles, strict=True)
        return max(a / b - 1 if b else 0.0 for a, b in pairs)


def _listed(expected: str, given: object) -> list[Any]:
    if not isinstance(given, Iterable) or isinstance(given, str | Mapping):
        raise ArgError(f"{expected}, found {shown(given)}")
    return list(given)
