"""The tables of many runs of one program, from the records of the engine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import stepsim.results
from stepsim.arrow import pa
from stepsim.kernels import Status
from stepsim.lowering import Image, TimingParams
from stepsim.machine import Machine
from stepsim.results import ENERGY, ENERGY_OF_UNITS, RECEIVERS, field, schema, utilization
from stepsim.simulation.outcome.open_waits import open_cycles
from stepsim.simulation.outcome.tables import OFF_CHIP, STATES, wait_phrase
from stepsim.simulation.outcome.totals import peak_bandwidth, peak_bytes
from stepsim.simulation.running.batches import Ending, ManyRuns, Outcomes

_EXACT = 1 << 53
"""Below it floats hold every int, so that their quotient is that of the ints."""

_ROWS = 1 << 18
"""Of units in a piece of their table: the text of a column of a piece stays far below 2 GiB, which
is the most that Arrow takes, and what is made on the way is small."""

BYTES_PER_UNIT = 400
"""Memory for what a unit did in a run, in the engine's records and in the table, with its names."""

_COUNTED = (
    "cycles", "offchip_bytes", "memory_requests", "flops", "tokens", "undelivered_tokens",
    "engine_steps",
)  # fmt: skip
_RESULT = (
    "cycles", "milliseconds", "offchip_bytes", "bus_bytes", "memory_requests", "flops",
    "bandwidth_utilization", "peak_bandwidth", "tokens", "undelivered_tokens", "engine_steps",
    "wall_seconds",
)  # fmt: skip
_ENERGY = tuple(name for name in ENERGY if name != "tokens_per_second")
_OWN = {
    "number": ("int64", "", "number of the run, from 0, in the order of the table"),
    "machine_index": ("int64", "", "index of the machine of the run in the list given, from 0"),
    "fifo_depth": ("int64", "tokens", "depth of FIFOs that do not state their own"),
    "binding": ("int64", "", "index of the bindings of the run, from 0"),
    "variant": ("string", "", "name of the variant of the program"),
    "limit": ("string", "", "limit that ended the run; null if none did"),
    "reason": ("string", "", "why the run did not end well, in a sentence; null if it did"),
}
"""Columns that only these tables have: type, unit, definition. Workloads may have parameters of the
same names, so that they stand in no dictionary."""

_RUNS = (
    "number", "machine", "machine_index", "fifo_depth", "binding", "status", "limit", "reason",
    *_RESULT,
)  # fmt: skip
_NULLABLE = {"limit", "reason", "milliseconds", "bandwidth_utilization"}
_OF_VARIANTS = (*_RUNS[:5], "variant", *_RUNS[5:])


class Place(NamedTuple):
    """The place of runs in a table: the index of their machine, and the name of their variant.

    A variant with a machine of its own has no index; where there are no variants, it has no name.
    """

    machine_index: int | None
    variant: str | None = None


def _form(
    name: str, columns: Iterable[str], metadata: Mapping[str, str], nullable: Collection[str] = ()
) -> pa.Schema:
    fields: list[Any] = []
    for column in columns:
        if column in _OWN:
            kind, unit, definition = _OWN[column]
            fields.append(field(column, pa.type_for_alias(kind), unit, definition))
        else:
            fields.append(column)
    return schema(name, fields, set(columns) - _NULLABLE - set(nullable), metadata)


def runs_table(
    many: Iterable[tuple[ManyRuns, Outcomes]], places: Sequence[Place], metadata: Mapping[str, str]
) -> pa.Table:
    """One row for each run, numbered in order; ``places`` has one for each of ``many``."""
    many = list(many)
    named = places[0].variant is not None
    nullable = {"machine_index"} if named else set[str]()
    names = _OF_VARIANTS if named else _RUNS
    if any(outcomes.energy for _, outcomes in many):
        # Machines of one table may have energies or not.
        names, nullable = (*names, *_ENERGY), nullable | {*_ENERGY}
    form = _form("many", names, metadata, nullable)
    parts = []
    first = 0
    for (runs, outcomes), place in zip(many, places, strict=True):
        columns = _columns(runs, outcomes, first)
        columns |= _energies(runs, outcomes)
        index = pa.scalar(place.machine_index, pa.int64())
        columns["machine_index"] = pa.repeat(index, runs.count)
        columns["variant"] = pa.repeat(place.variant or "", runs.count)
        arrays = [_array(columns[one.name], one.type) for one in form]
        parts.append(pa.Table.from_arrays(arrays, schema=form))
        first += runs.count
    return pa.concat_tables(parts)


def _columns(many: ManyRuns, outcomes: Outcomes, first: int) -> dict[str, Any]:
    count, prepared, totals = many.count, many.prepared, outcomes.batch.totals
    timing = prepared.timing
    return {
        **_ends(count, outcomes.stopped),
        **{name: np.ascontiguousarray(totals[name]) for name in _COUNTED},
        "number": first + np.arange(count),
        "machine": pa.repeat(prepared.machine.name, count),
        "fifo_depth": np.full(count, prepared.fifo_depth),
        "binding": np.arange(count),
        "milliseconds": _milliseconds(prepared.machine, totals["cycles"]),
        "bus_bytes": totals["memory_requests"] * timing.request_bytes,
        "bandwidth_utilization": _utilizations(totals, outcomes.stopped, timing),
        "peak_bandwidth": np.full(count, peak_bandwidth(timing)),
        "wall_seconds": outcomes.batch.wall_seconds,
    }


def _energies(many: ManyRuns, outcomes: Outcomes) -> dict[str, Any]:
    """Energies of the runs, null on a machine without a table of energies."""
    rows: dict[str, list[float | None]] = {name: [None] * many.count for name in _ENERGY}
    for run, energy in outcomes.energy.items():
        time = many.prepared.machine.milliseconds(int(outcomes.batch.totals["cycles"][run]))
        for name, value in energy.columns(None if time is None else time / 1e3).items():
            rows[name][run] = value
    return {name: pa.array(values, pa.float64()) for name, values in rows.items()}


def _milliseconds(machine: Machine, cycles: NDArray[np.int64]) -> Any:
    """Lengths of the runs in ms, or nothing where the machine states no clock."""
    if machine.clock_ghz is None:
        return pa.nulls(len(cycles), pa.float64())
    return np.array([machine.milliseconds(one) for one in cycles.tolist()])


def _ends(count: int, stopped: Mapping[int, Ending]) -> dict[str, Any]:
    """How the runs ended; most of them are ok."""
    if not stopped:
        nothing = pa.nulls(count, pa.string())
        return {"status": pa.repeat("ok", count), "limit": nothing, "reason": nothing}
    ends: dict[str, list[Any]] = {
        "status": ["ok"] * count, "limit": [None] * count, "reason": [None] * count,
    }  # fmt: skip
    for run, ended in stopped.items():
        for name, column in ends.items():
            column[run] = getattr(ended, name) or None
    return {name: pa.array(column, pa.string()) for name, column in ends.items()}


def _utilizations(
    totals: NDArray[np.void], stopped: Mapping[int, Ending], timing: TimingParams
) -> Any:
    """The same numbers as `utilization`, for the runs that are ok."""
    cycles, moved = totals["cycles"], totals["offchip_bytes"]
    most = peak_bytes(int(cycles.max()), timing)
    if most is None:
        return pa.nulls(len(totals), pa.float64())
    none = cycles == 0
    none[[run for run, ended in stopped.items() if ended.status != "infeasible"]] = True
    if max(most, int(moved.max())) >= _EXACT:
        pairs = zip(none.tolist(), moved.tolist(), cycles.tolist(), strict=True)
        shares = [
            None if without else utilization("ok", part, peak_bytes(length, timing))
            for without, part, length in pairs
        ]
        return pa.array(shares, pa.float64())
    starts = -(-cycles // timing.hbm_interval)
    room = timing.hbm_channels * timing.request_bytes * np.maximum(starts, 1)
    return pa.array(moved / room, pa.float64(), mask=none)


def units_table(many: Iterable[tuple[ManyRuns, Outcomes]], metadata: Mapping[str, str]) -> pa.Table:
    """The stall breakdown of every unit of every run, with the number of the run in front."""
    many = list(many)
    own = _stalls_schema(any(outcomes.energy for _, outcomes in many))
    form = _form("many.units", ["number"], metadata)
    form = pa.schema([*form, *own], metadata=form.metadata)
    parts = []
    for place, (runs, outcomes) in enumerate(many):
        image, batch = runs.image, outcomes.batch
        units = batch.units.shape[1]
        each = max(1, _ROWS // max(1, units))
        for first in range(0, runs.count, each):
            part = batch.part(first, first + each)
            columns = _unit_columns(image, part.units, part.totals["cycles"])
            columns |= _unit_energies(outcomes, range(first, first + len(part.totals)), units)
            number = place * runs.count + first + np.arange(len(part.totals))
            columns["number"] = np.repeat(number, units)
            arrays = [_array(columns[one.name], one.type) for one in form]
            parts.append(pa.Table.from_arrays(arrays, schema=form))
    return pa.concat_tables(parts)


def run_units(many: ManyRuns, outcomes: Outcomes, run: int) -> pa.Table:
    """The stall breakdown of every unit of one run."""
    chosen = slice(run, run + 1)
    batch = outcomes.batch
    columns = _unit_columns(many.image, batch.units[chosen], batch.totals["cycles"][chosen])
    columns |= _unit_energies(outcomes, range(run, run + 1), batch.units.shape[1])
    own = _stalls_schema(bool(outcomes.energy))
    arrays = [_array(columns[one.name], one.type) for one in own]
    return pa.Table.from_arrays(arrays, schema=own)


def _stalls_schema(energy: bool) -> pa.Schema:
    """Columns of units; on machines without a table of energies there are none for it."""
    return stepsim.results.ENERGY_STALLS_SCHEMA if energy else stepsim.results.STALLS_SCHEMA


def _unit_energies(outcomes: Outcomes, runs: range, units: int) -> dict[str, Any]:
    """Energies of the units of these runs, one run after another; null where they have none."""
    if not outcomes.energy:
        return dict.fromkeys(ENERGY_OF_UNITS, pa.nulls(len(runs) * units, pa.float64()))
    each = [outcomes.unit_energy[run].columns() for run in runs]
    return {name: np.concatenate([one[name] for one in each]) for name in ENERGY_OF_UNITS}


def _unit_columns(
    image: Image, records: NDArray[np.void], cycles: NDArray[np.int64]
) -> dict[str, Any]:
    """Columns of STALLS_SCHEMA of UNIT_TOTALS ``[runs, units]``."""
    runs, count = records.shape
    flat = records.ravel()
    unit = np.tile(np.arange(count, dtype=np.int32), runs)
    clock = flat["clk"]
    waited = flat["longest"] > 0
    ends = np.repeat(cycles, count)
    idle = np.maximum(ends, clock) - clock - open_cycles(flat["state"], clock, ends)
    return {
        "unit": unit,
        "name": _texts(image.unit_names).take(pa.array(unit)),
        "operator": _texts(image.unit_ops).take(pa.array(unit)),
        "state": _texts(tuple(STATES[code] for code in sorted(Status))).take(
            pa.array(np.ascontiguousarray(flat["state"]))
        ),
        "firings": flat["fires"],
        "final_clock": clock,
        "busy": flat["busy"],
        "wait_input": flat["wait_in"],
        "wait_output": flat["wait_out"],
        "wait_memory": flat["memory"],
        "before": flat["before"],
        "after": flat["after"] + idle,
        "longest_wait": _wait_names(image, unit, flat["longest_at"], waited),
        "longest_wait_cycles": pa.array(
            np.ascontiguousarray(flat["longest"]), pa.int64(), mask=~waited
        ),
        "requests": flat["requests"],
        "offchip_bytes": flat["traffic"],
        "flops": flat["flops"],
    }


def _array(column: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(column, np.ndarray):
        return pa.array(np.ascontiguousarray(column), kind)
    return column


def _texts(texts: tuple[str, ...]) -> pa.Array:
    return pa.array(texts, pa.string())


_MEMORIES: Final = (OFF_CHIP, *RECEIVERS.values())
"""What units wait for in place of neighbors."""


def _wait_names(
    image: Image, unit: NDArray[np.int32], codes: NDArray[np.int64], waited: NDArray[np.bool_]
) -> pa.Array:
    """The longest wait of units; codes as in UNIT_TOTALS."""
    kinds = [_MEMORIES.index(RECEIVERS.get(op, OFF_CHIP)) for op in image.unit_ops]
    codes = np.where(codes < 0, -1 - np.array(kinds, np.int64)[unit], codes)
    different, which = np.unique(codes, return_inverse=True)
    texts = pa.array([_wait_name(image, int(code)) for code in different], pa.string())
    return texts.take(pa.array(which.astype(np.int64), pa.int64(), mask=~waited))


def _wait_name(image: Image, code: int) -> str:
    if code < 0:
        return _MEMORIES[-1 - code]
    channel, slot = divmod(code, 2)
    record = image.channels[channel]
    peer = image.unit_names[int(record["consumer" if slot else "producer"])]
    return wait_phrase(peer, "to make room" if slot else "to send", image.channel_names[channel])
