"""The one dictionary of columns: name, Arrow type, unit and definition of every number.

Every table and JSON object that stepsim writes takes its columns from here; parameters of workloads
come from their declarations. The column ``counting`` states how quantities that can be counted in
several ways are counted; without that column they are counted as executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal

from stepsim.deferred import deferred
from stepsim.results.part_columns import INT, LONG, OF_PARTS, REAL, TEXT

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = deferred("pyarrow")

SCHEMA_VERSION: Final = "2"
"""Raised when the name, type or meaning of a column changes."""

COUNTINGS: Final = ("executed", "published", "paper")
"""How bytes and FLOPs can be counted."""

_MEASURES: Final = (
    ("cycles", LONG, "cycles", "length of the run"),
    ("milliseconds", REAL, "ms", "cycles / clock of the machine; null where it states none"),
    (
        "offchip_bytes",
        LONG,
        "bytes",
        "payload of off-chip loads and stores: rows x columns x element size",
    ),
    (
        "onchip_bytes",
        LONG,
        "bytes",
        "on-chip memory that the operators need: tiles, buffers, accumulators; FIFOs are not in "
        "it, their bytes are in the sizes of FIFOs and in plans",
    ),
    ("flops", LONG, "FLOPs", "floating-point operations, including those on padding rows"),
    ("padded_flops", LONG, "FLOPs", "part of flops that is spent on padding rows"),
    (
        "allocated_flops_per_cycle",
        LONG,
        "FLOPs/cycle",
        "compute bandwidth of all operators that are counted as compute",
    ),
    ("compute_utilization", REAL, "fraction", "flops / cycles / allocated_flops_per_cycle"),
    (
        "bandwidth_utilization",
        REAL,
        "fraction",
        "offchip_bytes / (channels x request size x cycles / interval), cycles / interval rounded "
        "up unless counting is published",
    ),
    ("peak_bandwidth", REAL, "bytes/cycle", "peak off-chip bandwidth of the machine"),
    ("memory_requests", LONG, "requests", "off-chip requests"),
    ("bus_bytes", LONG, "bytes", "off-chip requests x request size"),
    ("tokens", LONG, "tokens", "tokens sent on all FIFOs"),
    ("engine_steps", LONG, "firings", "unit firings executed"),
)

MEASURES: Final = tuple(name for name, *_ in _MEASURES)
"""Measures of a run; a sweep can choose from these."""

_J: Final = "J"

_OPTIONAL: Final = (
    ("energy_joules", REAL, _J, "energy of the run: that of all units, and static"),
    ("energy_offchip_joules", REAL, _J, "part of energy_joules for off-chip requests"),
    (
        "energy_onchip_joules",
        REAL,
        _J,
        "part of energy_joules for reads and writes of on-chip memory",
    ),
    ("energy_fifo_joules", REAL, _J, "part of energy_joules for tokens through FIFOs"),
    ("energy_compute_joules", REAL, _J, "part of energy_joules for FLOPs"),
    ("energy_static_joules", REAL, _J, "part of energy_joules that is drawn all the time"),
    ("edp", REAL, "J s", "energy-delay product: energy_joules x length of the run in seconds"),
    ("tokens_per_second", REAL, "tokens/s", "tokens of the workload / length of the run"),
    ("cycles_p5", REAL, "cycles", "5th percentile of cycles over an ensemble of disturbed runs"),
    ("cycles_median", REAL, "cycles", "median of cycles over an ensemble of disturbed runs"),
    ("cycles_p95", REAL, "cycles", "95th percentile of cycles over an ensemble of disturbed runs"),
)

ENERGY: Final = tuple(name for name, *_ in _OPTIONAL[:8])
"""Measures of runs on machines with a table of energies; other machines have no such columns."""

ENERGY_OF_UNITS: Final = ENERGY[:5]
"""The energies that the table of units has as well."""

SPREAD: Final = tuple(name for name, *_ in _OPTIONAL[8:])
"""Measures of runs with an ensemble."""

EVERY_MEASURE: Final = (*MEASURES, *ENERGY, *SPREAD)
"""All measures of runs, including those that only some runs have."""

Direction = Literal["smaller", "larger"]

_LARGER: Final = ("compute_utilization", "bandwidth_utilization", "tokens_per_second")
_NEITHER: Final = ("peak_bandwidth", "tokens", "engine_steps")

# Of the same workload, what is more FLOPs is padding.
BETTER: Final[Mapping[str, Direction]] = {
    name: "larger" if name in _LARGER else "smaller"
    for name in EVERY_MEASURE
    if name not in _NEITHER
}
"""Which values of a measure are better; of others neither is known to be."""

COUNTED: Final = frozenset(
    {
        "offchip_bytes", "onchip_bytes", "flops", "padded_flops", "allocated_flops_per_cycle",
        "compute_utilization", "bandwidth_utilization",
    }
)  # fmt: skip
"""Measures that depend on how bytes and FLOPs are counted."""

_OF_RUNS: Final = (
    # what was run
    ("run", TEXT, "", "key of the run: workload, parameters, machine, trace"),
    ("point", INT, "", "index of the design point"),
    ("design", TEXT, "", "label of the design point"),
    ("program", TEXT, "", "name of the program"),
    ("workload", TEXT, "", "workload, or file and name of a user's"),
    (
        "workload_digest",
        TEXT,
        "SHA-256",
        "code of a workload that is not of stepsim itself, with the modules beside it",
    ),
    ("model", TEXT, "", "name of the model"),
    ("model_json", TEXT, "JSON", "dimensions and types of every model given"),
    ("parameters", TEXT, "JSON", "every parameter of the workload"),
    (
        "origins",
        TEXT,
        "JSON",
        "where the value of each parameter comes from: given, machine, published, model, default, "
        "or like NAME, as that of another parameter",
    ),
    ("config", TEXT, "", "published if settings were taken from the published experiment"),
    ("counting", TEXT, "", "how bytes and FLOPs are counted: executed, published or paper"),
    ("machine", TEXT, "", "name of the machine"),
    ("machine_json", TEXT, "JSON", "the whole machine, changes included"),
    ("batch", LONG, "tokens", "tokens or requests of the run"),
    ("regions_built", LONG, "regions", "regions that were built because they have work"),
    # traces
    ("trace", TEXT, "", "file of the trace, or parameters of a synthetic one"),
    ("trace_id", TEXT, "SHA-256", "content of the trace"),
    ("layer", INT, "", "layer of the trace"),
    ("step", INT, "", "forward pass of the trace"),
    ("window", INT, "", "batch of consecutive rows of the trace, from 0"),
    ("lengths", TEXT, "", "file of the cache lengths of a decoder"),
    ("lengths_id", TEXT, "SHA-256", "content of these lengths"),
    ("lengths_step", INT, "", "decode step of these lengths"),
    ("lengths_window", INT, "", "batch of consecutive requests, from 0"),
    ("active_experts", LONG, "experts", "experts with at least one row"),
    ("max_load", LONG, "rows", "rows of the busiest expert"),
    ("routing", TEXT, "JSON", "source and load of the routing trace"),
    ("kv_lengths", TEXT, "JSON", "source and spread of the cached lengths"),
    # how it ended
    ("status", TEXT, "", "ok, infeasible, deadlock, failed or limit"),
    ("stage", TEXT, "", "trace, build or run: where a run failed"),
    ("error", TEXT, "", "type of error, or the status of the run"),
    ("message", TEXT, "", "error message"),
    ("diagnosis", TEXT, "JSON", "why the run did not succeed; null if it did"),
    ("fix", TEXT, "JSON", "FIFO depths that end a deadlock, or why none does; null without one"),
    ("undelivered_tokens", LONG, "tokens", "tokens that were sent but not received"),
    ("wall_seconds", REAL, "seconds", "simulation alone, without compilation"),
    ("busiest_units", TEXT, "JSON", "the units that worked longest, with their stall breakdown"),
    ("ensemble", TEXT, "JSON", "disturbed runs: their cycles, seed and bounds; as --ensemble"),
    ("why", TEXT, "JSON", "what bounds the run and what would help, as `stepsim why` says"),
    ("provenance", TEXT, "JSON", "program, machine, bindings, versions, seed"),
    ("program_hash", TEXT, "SHA-256", "structure of the program"),
    ("image_hash", TEXT, "SHA-256", "what the engine ran"),
    ("stepsim_version", TEXT, "", "version of stepsim"),
    ("model_version", TEXT, "", "version of the timing model"),
    ("versions", TEXT, "JSON", "versions of Python and of the packages"),
    # figures of the paper
    ("figure", TEXT, "", "number of the figure"),
    ("point_id", TEXT, "", "name of the point; figures that share a run share it"),
    ("series", TEXT, "", "series of the figure that the point belongs to"),
    ("kv_class", TEXT, "", "spread of the KV lengths"),
    ("closure_slack", LONG, "cycles", "how much earlier the end of a stream is noticed"),
    ("ratio", REAL, "", "normalized value: see ratio_of"),
    ("ratio_of", TEXT, "", "what ratio means"),
    ("seconds", REAL, "seconds", "building, lowering, simulating and measuring"),
    ("published_cycles", LONG, "cycles", "published value, as plotted"),
    ("cycles_difference", LONG, "cycles", "ours - published"),
    ("cycles_relative", REAL, "fraction", "ours / published - 1"),
    ("canonical_cycles", LONG, "cycles", "cycles of an independent model with the same rules"),
    ("published_offchip_bytes", LONG, "bytes", "published value, as plotted"),
    ("published_onchip_bytes", LONG, "bytes", "published value, as plotted"),
    ("published_flops", LONG, "FLOPs", "published value, as plotted"),
    ("published_padded_flops", LONG, "FLOPs", "published value, as plotted"),
    ("published_allocated_flops_per_cycle", LONG, "FLOPs/cycle", "published value, as plotted"),
    ("published_compute_utilization", REAL, "fraction", "published value, as plotted and rounded"),
    (
        "published_bandwidth_utilization",
        REAL,
        "fraction",
        "published value, as plotted and rounded",
    ),
    ("published_ratio", REAL, "", "published value, as plotted"),
    ("ratio_relative", REAL, "fraction", "ratio / published_ratio - 1"),
    ("hdl_cycles", LONG, "cycles", "as simulated from the HDL of the hardware"),
    ("hdl_offchip_bytes", LONG, "bytes", "as simulated from the HDL of the hardware"),
)
"""Columns besides the measures, of tables that also have the parameters of a workload."""


def field(name: str, kind: pa.DataType | str, unit: str, definition: str) -> pa.Field:
    """A column of a table, with its unit and definition in the metadata."""
    if isinstance(kind, str):
        kind = pa.type_for_alias(kind)
    return pa.field(name, kind, metadata={"unit": unit, "definition": definition})


_DECLARED: Final = (*_MEASURES, *_OPTIONAL, *_OF_RUNS, *OF_PARTS)


class _Columns(Mapping[str, "pa.Field"]):
    """Fields that are created on demand, as runs without tables need none."""

    def __init__(self) -> None:
        self._declared = {name: rest for name, *rest in _DECLARED}
        self._made: dict[str, pa.Field] = {}

    def __getitem__(self, name: str) -> pa.Field:
        if name not in self._made:
            self._made[name] = field(name, *self._declared[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._declared

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


COLUMNS: Final[Mapping[str, pa.Field]] = _Columns()
"""Field of each name. Nested values are stored as JSON text."""

TAKEN: Final = frozenset(name for name, *_ in (*_MEASURES, *_OPTIONAL, *_OF_RUNS))
"""Columns of the tables that also have the parameters of a workload."""


def schema(
    name: str,
    columns: Iterable[str | pa.Field],
    required: Iterable[str] = (),
    metadata: Mapping[str, str] | None = None,
) -> pa.Schema:
    """The schema of a table; columns are names of the dictionary, or separate fields.

    Columns that are ``required`` hold no nulls.
    """
    never_null = frozenset(required)
    fields = [COLUMNS[one] if isinstance(one, str) else one for one in columns]
    return pa.schema(
        [one.with_nullable(one.name not in never_null) for one in fields],
        metadata={
            "schema": f"stepsim.{name}",
            "schema_version": SCHEMA_VERSION,
            **(metadata or {}),
        },
    )
