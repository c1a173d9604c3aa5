"""Arrow schemas of a result: every column carries its unit and its definition."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

__all__ = ["CHANNELS_SCHEMA", "RUN_SCHEMA", "SCHEMA_VERSION", "UNITS_SCHEMA"]

SCHEMA_VERSION: Final = "1"


def _field(
    name: str, kind: pa.DataType, unit: str, definition: str, *, null: bool = False
) -> pa.Field:
    return pa.field(name, kind, nullable=null, metadata={"unit": unit, "definition": definition})


_CYCLES = pa.int64()

UNITS_SCHEMA: Final = pa.schema(
    [
        _field("unit", pa.int32(), "", "number of the unit in construction order"),
        _field("name", pa.string(), "", "unique name of the unit"),
        _field("operator", pa.string(), "", "kind of the unit"),
        _field("state", pa.string(), "", "done, failed, or what an unfinished unit waits for"),
        _field("firings", pa.int64(), "firings", "activations of the unit"),
        _field("final_clock", _CYCLES, "cycles", "local clock at the end"),
        _field("busy", _CYCLES, "cycles", "compute, on-chip load and store, switching, pacing"),
        _field("wait_input", _CYCLES, "cycles", "waiting for tokens after the first firing"),
        _field("wait_output", _CYCLES, "cycles", "waiting for a free slot of an output"),
        _field("wait_memory", _CYCLES, "cycles", "off-chip accesses, from issue to last response"),
        _field("before", _CYCLES, "cycles", "waiting for tokens before the first firing"),
        _field("after", _CYCLES, "cycles", "from the last token to the end of the run"),
        _field(
            "longest_wait", pa.string(), "", "peer waited for longest, with the channel", null=True
        ),
        _field("longest_wait_cycles", _CYCLES, "cycles", "cycles of that wait", null=True),
        _field("requests", pa.int64(), "requests", "off-chip requests issued"),
        _field("traffic_bytes", pa.int64(), "bytes", "useful off-chip bytes: rows x cols x width"),
        _field("flops", pa.int64(), "FLOPs", "floating-point operations, padding rows included"),
    ],
    metadata={"schema": "stepsim.units", "schema_version": SCHEMA_VERSION},
)

CHANNELS_SCHEMA: Final = pa.schema(
    [
        _field("channel", pa.int32(), "", "number of the channel"),
        _field("name", pa.string(), "", "name of the channel"),
        _field("producer", pa.string(), "", "unit that sends"),
        _field("consumer", pa.string(), "", "unit that receives"),
        _field("depth", pa.int64(), "tokens", "capacity; null when unbounded", null=True),
        _field("sent", pa.int64(), "tokens", "tokens sent"),
        _field("received", pa.int64(), "tokens", "tokens removed by the consumer"),
        _field("producer_wait", _CYCLES, "cycles", "producer waiting for a free slot"),
        _field("consumer_wait", _CYCLES, "cycles", "consumer waiting for a token"),
    ],
    metadata={"schema": "stepsim.channels", "schema_version": SCHEMA_VERSION},
)

RUN_SCHEMA: Final = pa.schema(
    [
        _field("program", pa.string(), "", "name of the program"),
        _field("status", pa.string(), "", "ok, deadlock, failed or limit"),
        _field("cycles", _CYCLES, "cycles", "length of the run"),
        _field("traffic_bytes", pa.int64(), "bytes", "useful off-chip bytes"),
        _field("bus_bytes", pa.int64(), "bytes", "off-chip requests x request size"),
        _field("memory_requests", pa.int64(), "requests", "off-chip requests"),
        _field("flops", pa.int64(), "FLOPs", "floating-point operations, padding rows included"),
        _field(
            "bandwidth_utilization", pa.float64(), "fraction", "traffic / cycles / peak", null=True
        ),
        _field("peak_bandwidth", pa.float64(), "bytes/cycle", "off-chip peak of the machine"),
        _field("tokens", pa.int64(), "tokens", "tokens sent on all channels"),
        _field("undelivered_tokens", pa.int64(), "tokens", "tokens sent that no one took"),
        _field("engine_steps", pa.int64(), "firings", "unit firings executed"),
        _field("wall_seconds", pa.float64(), "seconds", "simulation alone, without compilation"),
        _field("provenance", pa.string(), "JSON", "program, machine, versions, seed"),
    ],
    metadata={"schema": "stepsim.run", "schema_version": SCHEMA_VERSION},
)
