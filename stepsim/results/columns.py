"""The one dictionary of columns: name, Arrow type, unit and definition of every number.

Every table and JSON object that stepsim writes takes its columns from here; parameters of workloads
come from their declarations. Quantities that can be counted in several ways are counted as the
column ``counting`` says, and where there is none, as executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from stepsim.deferred import deferred

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = deferred("pyarrow")

__all__ = [
    "COLUMNS",
    "COUNTED",
    "COUNTINGS",
    "MEASURES",
    "SCHEMA_VERSION",
    "TAKEN",
    "field",
    "schema",
]

SCHEMA_VERSION: Final = "2"
"""Raised when the name, type or meaning of a column changes."""

COUNTINGS: Final = ("executed", "published", "paper")
"""How bytes and FLOPs can be counted."""

_INT, _LONG, _REAL, _TEXT = "int32", "int64", "float64", "string"

_MEASURES: Final = (
    ("cycles", _LONG, "cycles", "length of the run"),
    ("milliseconds", _REAL, "ms", "cycles / clock of the machine; null where it states none"),
    (
        "offchip_bytes",
        _LONG,
        "bytes",
        "payload of off-chip loads and stores: rows x columns x element size",
    ),
    ("onchip_bytes", _LONG, "bytes", "on-chip memory that the operators need"),
    ("flops", _LONG, "FLOPs", "floating-point operations, including those on padding rows"),
    ("padded_flops", _LONG, "FLOPs", "part of flops that is spent on padding rows"),
    (
        "allocated_flops_per_cycle",
        _LONG,
        "FLOPs/cycle",
        "compute bandwidth of all operators that are counted as compute",
    ),
    ("compute_utilization", _REAL, "fraction", "flops / cycles / allocated_flops_per_cycle"),
    (
        "bandwidth_utilization",
        _REAL,
        "fraction",
        "offchip_bytes / (channels x request size x cycles / interval), cycles / interval rounded "
        "up unless counting is published",
    ),
    ("peak_bandwidth", _REAL, "bytes/cycle", "peak off-chip bandwidth of the machine"),
    ("memory_requests", _LONG, "requests", "off-chip requests"),
    ("bus_bytes", _LONG, "bytes", "off-chip requests x request size"),
    ("tokens", _LONG, "tokens", "tokens sent on all FIFOs"),
    ("engine_steps", _LONG, "firings", "unit firings executed"),
)

MEASURES: Final = tuple(name for name, *_ in _MEASURES)
"""What is measured of a run; a sweep can choose from these."""

COUNTED: Final = frozenset(
    {
        "offchip_bytes", "onchip_bytes", "flops", "padded_flops", "allocated_flops_per_cycle",
        "compute_utilization", "bandwidth_utilization",
    }
)  # fmt: skip
"""Those that depend on how bytes and FLOPs are counted."""

_OF_RUNS: Final = (
    # what was run
    ("run", _TEXT, "", "key of the run: workload, parameters, machine, trace"),
    ("point", _INT, "", "index of the design point"),
    ("design", _TEXT, "", "label of the design point"),
    ("program", _TEXT, "", "name of the program"),
    ("workload", _TEXT, "", "workload, or file and name of a user's"),
    (
        "workload_digest",
        _TEXT,
        "SHA-256",
        "code of a workload that is not of stepsim itself, with the modules beside it",
    ),
    ("model", _TEXT, "", "name of the model"),
    ("model_json", _TEXT, "JSON", "dimensions and types of every model given"),
    ("parameters", _TEXT, "JSON", "every parameter of the workload"),
    (
        "origins",
        _TEXT,
        "JSON",
        "where the value of each parameter comes from: given, machine, published, model, default, "
        "or like NAME, as that of another parameter",
    ),
    ("config", _TEXT, "", "published if settings were taken from the published experiment"),
    ("counting", _TEXT, "", "how bytes and FLOPs are counted: executed, published or paper"),
    ("machine", _TEXT, "", "name of the machine"),
    ("machine_json", _TEXT, "JSON", "the whole machine, changes included"),
    ("batch", _LONG, "tokens", "tokens or requests of the run"),
    ("regions_built", _LONG, "regions", "regions that were built because they have work"),
    # traces
    ("trace", _TEXT, "", "file of the trace, or parameters of a synthetic one"),
    ("trace_id", _TEXT, "SHA-256", "content of the trace"),
    ("layer", _INT, "", "layer of the trace"),
    ("step", _INT, "", "forward pass of the trace"),
    ("window", _INT, "", "batch of consecutive rows of the trace, from 0"),
    ("lengths", _TEXT, "", "file of the cache lengths of a decoder"),
    ("lengths_id", _TEXT, "SHA-256", "content of these lengths"),
    ("lengths_step", _INT, "", "decode step of these lengths"),
    ("lengths_window", _INT, "", "batch of consecutive requests, from 0"),
    ("active_experts", _LONG, "experts", "experts with at least one row"),
    ("max_load", _LONG, "rows", "rows of the busiest expert"),
    ("routing", _TEXT, "JSON", "source and load of the routing trace"),
    ("kv_lengths", _TEXT, "JSON", "source and spread of the cached lengths"),
    # how it ended
    ("status", _TEXT, "", "ok, deadlock, failed or limit"),
    ("stage", _TEXT, "", "trace, build or run: where a run failed"),
    ("error", _TEXT, "", "type of error, or the status of the run"),
    ("message", _TEXT, "", "error message"),
    ("diagnosis", _TEXT, "JSON", "why the run did not succeed; null if it did"),
    ("fix", _TEXT, "JSON", "FIFO depths that end a deadlock, or why none does; null without one"),
    ("undelivered_tokens", _LONG, "tokens", "tokens that were sent but not received"),
    ("wall_seconds", _REAL, "seconds", "simulation alone, without compilation"),
    ("busiest_units", _TEXT, "JSON", "the units that worked longest, with their stall breakdown"),
    ("why", _TEXT, "JSON", "what bounds the run and what would help, as `stepsim why` says"),
    ("provenance", _TEXT, "JSON", "program, machine, bindings, versions, seed"),
    ("program_hash", _TEXT, "SHA-256", "structure of the program"),
    ("image_hash", _TEXT, "SHA-256", "what the engine ran"),
    ("stepsim_version", _TEXT, "", "version of stepsim"),
    ("model_version", _TEXT, "", "version of the timing model"),
    ("versions", _TEXT, "JSON", "versions of Python and of the packages"),
    # figures of the paper
    ("figure", _TEXT, "", "number of the figure"),
    ("point_id", _TEXT, "", "name of the point; figures that share a run share it"),
    ("series", _TEXT, "", "series of the figure that the point belongs to"),
    ("kv_class", _TEXT, "", "spread of the KV lengths"),
    ("closure_slack", _LONG, "cycles", "how much earlier the end of a stream is noticed"),
    ("ratio", _REAL, "", "normalized value: see ratio_of"),
    ("ratio_of", _TEXT, "", "what ratio means"),
    ("seconds", _REAL, "seconds", "building, lowering, simulating and measuring"),
    ("published_cycles", _LONG, "cycles", "published value, as plotted"),
    ("cycles_difference", _LONG, "cycles", "ours - published"),
    ("cycles_relative", _REAL, "fraction", "ours / published - 1"),
    ("canonical_cycles", _LONG, "cycles", "cycles of an independent model with the same rules"),
    ("published_offchip_bytes", _LONG, "bytes", "published value, as plotted"),
    ("published_onchip_bytes", _LONG, "bytes", "published value, as plotted"),
    ("published_flops", _LONG, "FLOPs", "published value, as plotted"),
    ("published_padded_flops", _LONG, "FLOPs", "published value, as plotted"),
    ("published_allocated_flops_per_cycle", _LONG, "FLOPs/cycle", "published value, as plotted"),
    ("published_compute_utilization", _REAL, "fraction", "published value, as plotted and rounded"),
    (
        "published_bandwidth_utilization",
        _REAL,
        "fraction",
        "published value, as plotted and rounded",
    ),
    ("published_ratio", _REAL, "", "published value, as plotted"),
    ("ratio_relative", _REAL, "fraction", "ratio / published_ratio - 1"),
    ("hdl_cycles", _LONG, "cycles", "as simulated from the HDL of the hardware"),
    ("hdl_offchip_bytes", _LONG, "bytes", "as simulated from the HDL of the hardware"),
)
"""Beside the measures, columns of tables that also have the parameters of a workload."""

_OF_PARTS: Final = (
    # units and FIFOs
    ("unit", _INT, "", "index of the unit in construction order"),
    ("name", _TEXT, "", "unique name of the unit or FIFO"),
    ("operator", _TEXT, "", "operator of the unit"),
    ("state", _TEXT, "", "done, failed, or what an unfinished unit waits for"),
    ("firings", _LONG, "firings", "how often the unit fired"),
    ("final_clock", _LONG, "cycles", "local clock at the end"),
    ("busy", _LONG, "cycles", "compute, on-chip load and store, switching, pacing"),
    (
        "wait_input",
        _LONG,
        "cycles",
        "waiting for tokens after the first firing; to the end of the run where none came",
    ),
    (
        "wait_output",
        _LONG,
        "cycles",
        "waiting for a free slot of an output; to the end of the run where none came",
    ),
    ("wait_memory", _LONG, "cycles", "off-chip accesses, from issue to last response"),
    ("before", _LONG, "cycles", "waiting for tokens before the first firing"),
    (
        "after",
        _LONG,
        "cycles",
        "from its end, or from where a limit stopped it, to the end of the run",
    ),
    ("longest_wait", _TEXT, "", "neighbor that the unit waited for longest, with the FIFO"),
    ("longest_wait_cycles", _LONG, "cycles", "cycles of the longest wait"),
    ("requests", _LONG, "requests", "off-chip requests of the unit"),
    ("fifo", _INT, "", "index of the FIFO"),
    ("producer", _TEXT, "", "unit that sends"),
    ("consumer", _TEXT, "", "unit that receives"),
    ("depth", _LONG, "tokens", "capacity; null when unbounded"),
    ("sent", _LONG, "tokens", "tokens sent"),
    ("received", _LONG, "tokens", "tokens removed by the consumer"),
    ("producer_wait", _LONG, "cycles", "producer waiting for a free slot"),
    ("consumer_wait", _LONG, "cycles", "consumer waiting for a token"),
    # occupancy of recorded runs
    (
        "mean_tokens",
        _REAL,
        "tokens",
        "mean number of slots in use, from the cycle in which a token is sent to that in which its "
        "slot is free again; null when the run was not recorded",
    ),
    ("peak_tokens", _LONG, "tokens", "most slots in use at any one time"),
    (
        "mean_bytes",
        _REAL,
        "bytes",
        "mean payload of the tokens in these slots; references to buffers have none",
    ),
    ("peak_bytes", _LONG, "bytes", "most payload in these slots at any one time"),
    (
        "full_cycles",
        _LONG,
        "cycles",
        "with every slot in use; null when the FIFO is unbounded or the run was not recorded",
    ),
    ("empty_cycles", _LONG, "cycles", "with no slot in use"),
    (
        "onchip_peak_bytes",
        _LONG,
        "bytes",
        "most on-chip memory in use at any one time: buffers from their first tile to their last "
        "reader, and the working tiles of operators, at the sizes of the run; null when the run "
        "was not recorded",
    ),
    ("peak_buffers", _LONG, "buffers", "most buffers of the unit in use at any one time"),
    ("peak_buffer_bytes", _LONG, "bytes", "most bytes in buffers of the unit at any one time"),
    # recorded runs over time
    ("bin", _INT, "", "part of the run, from 0"),
    ("begin", _LONG, "cycles", "first cycle"),
    ("end", _LONG, "cycles", "first cycle after it"),
    ("event", _TEXT, "", "work, wait, access, token (in a slot) or buffer (in use)"),
    ("wait_cause", _TEXT, "", "token, slot, closure, memory or decision"),
    ("about", _TEXT, "", "FIFO that was waited for"),
    ("seen", _LONG, "cycles", "when the consumer can see the token, its stamp"),
    ("nbytes", _LONG, "bytes", "payload"),
    (
        "offchip_bytes_per_cycle",
        _REAL,
        "bytes/cycle",
        "payload of off-chip accesses, served in the order issued at the peak rate of the memory",
    ),
    ("offchip_share", _REAL, "fraction", "offchip_bytes_per_cycle / peak_bandwidth"),
    (
        "outstanding_requests",
        _REAL,
        "requests",
        "mean number of requests of accesses that are issued and not complete",
    ),
    (
        "queued_requests",
        _REAL,
        "requests",
        "part of outstanding_requests whose access has taken longer than it would alone",
    ),
    (
        "onchip_bytes_in_use",
        _LONG,
        "bytes",
        "most on-chip memory of operators in use, see onchip_peak_bytes",
    ),
    ("fifo_bytes_in_use", _LONG, "bytes", "most payload of tokens in all FIFOs, see mean_bytes"),
    ("fifo_slots_in_use", _LONG, "tokens", "most slots in use of all FIFOs, see mean_tokens"),
    (
        "flops_per_cycle",
        _REAL,
        "FLOPs/cycle",
        "floating-point operations, those of each unit spread evenly over the time it works",
    ),
    ("units_working", _REAL, "units", "mean number of units that work"),
    ("units_waiting_input", _REAL, "units", "mean number of units that wait for a token"),
    ("units_waiting_output", _REAL, "units", "mean number of units that wait for a slot"),
    ("units_waiting_memory", _REAL, "units", "mean number of units with an off-chip access"),
    # lower bounds
    ("resource_kind", _TEXT, "", "kind of the resource, as hbm_bandwidth or compute"),
    ("resource_target", _TEXT, "", "unit that needs it most; empty where all units share it"),
    ("resource_used", _REAL, "see resource_unit", "amount that the run used"),
    (
        "resource_peak",
        _REAL,
        "see resource_unit",
        "amount that the resource gives in a run of that length",
    ),
    ("resource_unit", _TEXT, "", "unit of resource_used and resource_peak"),
    ("resource_share", _REAL, "fraction", "resource_used / resource_peak"),
    ("bound_cycles", _LONG, "cycles", "what the resource takes alone: no run is shorter"),
    # stalls by operator
    ("stall_stage", _TEXT, "", "prefix of the layer, or how many lanes the operator has"),
    ("stall_group", _TEXT, "", "name of the operator, with * for its lane"),
    ("stall_lanes", _INT, "units", "units of the operator: experts, regions, lanes"),
    ("active_lanes", _INT, "units", "those that fired"),
    ("cause", _TEXT, "", "what cycles were spent on"),
    ("stall_peer", _TEXT, "", "operator that was waited for"),
    ("total_cycles", _LONG, "cycles", "of all lanes"),
    ("least_cycles", _LONG, "cycles", "of the lane with the fewest"),
    ("median_cycles", _LONG, "cycles", "of the median lane"),
    ("most_cycles", _LONG, "cycles", "of the lane with the most"),
    ("slowest_unit", _TEXT, "", "unit with the most"),
    # sizes of FIFOs
    ("token_bytes", _LONG, "bytes", "a token of the FIFO, with the buffer that it refers to"),
    ("uniform_depth", _LONG, "tokens", "one depth for all FIFOs that are looked at"),
    ("fifo_slots", _LONG, "tokens", "depth of the FIFOs together"),
    ("fifo_bytes", _LONG, "bytes", "depth x size of a token, of all FIFOs that are looked at"),
    ("bytes_saved", _LONG, "bytes", "how much less FIFO the depths that were found need"),
    ("unbounded_peak", _LONG, "tokens", "depth with which a run with unbounded FIFOs is the same"),
    ("slowdown_bound", _REAL, "fraction", "slowdown that was allowed"),
    (
        "slowdown",
        _REAL,
        "fraction",
        "cycles / cycles with unbounded FIFOs - 1, the largest of all bindings",
    ),
    ("fifo_depths", _TEXT, "JSON", "depth of every FIFO by name"),
)


def field(name: str, kind: pa.DataType | str, unit: str, definition: str) -> pa.Field:
    """A column of a table, with its unit and definition in the metadata."""
    if isinstance(kind, str):
        kind = pa.type_for_alias(kind)
    return pa.field(name, kind, metadata={"unit": unit, "definition": definition})


class _Columns(Mapping[str, "pa.Field"]):
    """Fields that are made when they are asked for, as runs without tables need none."""

    def __init__(self) -> None:
        self._declared = {name: rest for name, *rest in (*_MEASURES, *_OF_RUNS, *_OF_PARTS)}
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
"""Field of each name. Whatever is nested stands as JSON text."""

TAKEN: Final = frozenset(name for name, *_ in (*_MEASURES, *_OF_RUNS))
"""Columns of the tables that also have the parameters of a workload."""


def schema(
    name: str,
    columns: Iterable[str | pa.Field],
    required: Iterable[str] = (),
    metadata: Mapping[str, str] | None = None,
) -> pa.Schema:
    """The schema of a table; columns are names of the dictionary, or fields of their own.

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
