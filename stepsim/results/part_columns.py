"""Columns of tables about parts of a run: units, FIFOs, operators, intervals of time.

They are part of the dictionary `stepsim.results.columns`, which has those of whole runs.
"""

from __future__ import annotations

from typing import Final

INT, LONG, REAL, TEXT = "int32", "int64", "float64", "string"

OF_PARTS: Final = (
    # units and FIFOs
    ("unit", INT, "", "index of the unit in construction order"),
    ("name", TEXT, "", "unique name of the unit or FIFO"),
    ("operator", TEXT, "", "operator of the unit"),
    ("state", TEXT, "", "done, failed, or what an unfinished unit waits for"),
    ("firings", LONG, "firings", "how often the unit fired"),
    ("final_clock", LONG, "cycles", "local clock at the end"),
    ("busy", LONG, "cycles", "compute, on-chip load and store, switching, pacing"),
    (
        "wait_input",
        LONG,
        "cycles",
        "waiting for tokens after the first firing; to the end of the run where none came",
    ),
    (
        "wait_output",
        LONG,
        "cycles",
        "waiting for a free slot of an output; to the end of the run where none came",
    ),
    ("wait_memory", LONG, "cycles", "off-chip accesses, from issue to last response"),
    ("before", LONG, "cycles", "waiting for tokens before the first firing"),
    (
        "after",
        LONG,
        "cycles",
        "from its end, or from where a limit stopped it, to the end of the run",
    ),
    ("longest_wait", TEXT, "", "neighbor that the unit waited for longest, with the FIFO"),
    ("longest_wait_cycles", LONG, "cycles", "cycles of the longest wait"),
    ("requests", LONG, "requests", "off-chip requests of the unit"),
    ("fifo", INT, "", "index of the FIFO"),
    ("producer", TEXT, "", "unit that sends"),
    ("consumer", TEXT, "", "unit that receives"),
    ("depth", LONG, "tokens", "capacity; null when unbounded"),
    ("sent", LONG, "tokens", "tokens sent"),
    ("received", LONG, "tokens", "tokens removed by the consumer"),
    ("producer_wait", LONG, "cycles", "producer waiting for a free slot"),
    ("consumer_wait", LONG, "cycles", "consumer waiting for a token"),
    # occupancy of recorded runs
    (
        "mean_tokens",
        REAL,
        "tokens",
        "mean number of slots in use, from the cycle in which a token is sent to that in which its "
        "slot is free again; null when the run was not recorded",
    ),
    ("peak_tokens", LONG, "tokens", "most slots in use at any one time"),
    (
        "mean_bytes",
        REAL,
        "bytes",
        "mean payload of the tokens in these slots; references to buffers have none",
    ),
    ("peak_bytes", LONG, "bytes", "most payload in these slots at any one time"),
    (
        "full_cycles",
        LONG,
        "cycles",
        "with every slot in use; null when the FIFO is unbounded or the run was not recorded",
    ),
    ("empty_cycles", LONG, "cycles", "with no slot in use"),
    (
        "onchip_peak_bytes",
        LONG,
        "bytes",
        "most on-chip memory in use at any one time: buffers from their first tile to their last "
        "reader, and the working tiles of operators, at the sizes of the run; null when the run "
        "was not recorded",
    ),
    ("peak_buffers", LONG, "buffers", "most buffers of the unit in use at any one time"),
    ("peak_buffer_bytes", LONG, "bytes", "most bytes in buffers of the unit at any one time"),
    # recorded runs over time
    ("bin", INT, "", "part of the run, from 0"),
    ("begin", LONG, "cycles", "first cycle"),
    ("end", LONG, "cycles", "first cycle after it"),
    ("event", TEXT, "", "work, wait, access, token (in a slot) or buffer (in use)"),
    ("wait_cause", TEXT, "", "token, slot, closure, memory or decision"),
    ("about", TEXT, "", "FIFO that was waited for"),
    ("seen", LONG, "cycles", "when the consumer can see the token, its stamp"),
    ("nbytes", LONG, "bytes", "payload"),
    (
        "offchip_bytes_per_cycle",
        REAL,
        "bytes/cycle",
        "payload of off-chip accesses, served in the order issued at the peak rate of the memory",
    ),
    ("offchip_share", REAL, "fraction", "offchip_bytes_per_cycle / peak_bandwidth"),
    (
        "outstanding_requests",
        REAL,
        "requests",
        "mean number of requests of accesses that are issued and not complete",
    ),
    (
        "queued_requests",
        REAL,
        "requests",
        "part of outstanding_requests whose access has taken longer than it would alone",
    ),
    (
        "onchip_bytes_in_use",
        LONG,
        "bytes",
        "most on-chip memory of operators in use, see onchip_peak_bytes",
    ),
    ("fifo_bytes_in_use", LONG, "bytes", "most payload of tokens in all FIFOs, see mean_bytes"),
    ("fifo_slots_in_use", LONG, "tokens", "most slots in use of all FIFOs, see mean_tokens"),
    (
        "flops_per_cycle",
        REAL,
        "FLOPs/cycle",
        "floating-point operations, those of each unit spread evenly over the time it works",
    ),
    ("units_working", REAL, "units", "mean number of units that work"),
    ("units_waiting_input", REAL, "units", "mean number of units that wait for a token"),
    ("units_waiting_output", REAL, "units", "mean number of units that wait for a slot"),
    ("units_waiting_memory", REAL, "units", "mean number of units with an off-chip access"),
    # lower bounds
    ("resource_kind", TEXT, "", "kind of the resource, as hbm_bandwidth or compute"),
    ("resource_target", TEXT, "", "unit that needs it most; empty where all units share it"),
    ("resource_used", REAL, "see resource_unit", "amount that the run used"),
    (
        "resource_peak",
        REAL,
        "see resource_unit",
        "amount that the resource gives in a run of that length",
    ),
    ("resource_unit", TEXT, "", "unit of resource_used and resource_peak"),
    ("resource_share", REAL, "fraction", "resource_used / resource_peak"),
    ("bound_cycles", LONG, "cycles", "what the resource takes alone: no run is shorter"),
    # stalls by operator
    ("stall_stage", TEXT, "", "prefix of the layer, or how many lanes the operator has"),
    ("stall_group", TEXT, "", "name of the operator, with * for its lane"),
    ("stall_lanes", INT, "units", "units of the operator: experts, regions, lanes"),
    ("active_lanes", INT, "units", "those that fired"),
    ("cause", TEXT, "", "what cycles were spent on"),
    ("stall_peer", TEXT, "", "operator that was waited for"),
    ("total_cycles", LONG, "cycles", "of all lanes"),
    ("least_cycles", LONG, "cycles", "of the lane with the fewest"),
    ("median_cycles", LONG, "cycles", "of the median lane"),
    ("most_cycles", LONG, "cycles", "of the lane with the most"),
    ("slowest_unit", TEXT, "", "unit with the most"),
    # sizes of FIFOs
    ("token_bytes", LONG, "bytes", "a token of the FIFO, with the buffer that it refers to"),
    ("uniform_depth", LONG, "tokens", "one depth for all FIFOs that are looked at"),
    ("fifo_slots", LONG, "tokens", "depth of the FIFOs together"),
    ("fifo_bytes", LONG, "bytes", "depth x size of a token, of all FIFOs that are looked at"),
    ("bytes_saved", LONG, "bytes", "how much less FIFO the depths that were found need"),
    ("unbounded_peak", LONG, "tokens", "depth with which a run with unbounded FIFOs is the same"),
    ("slowdown_bound", REAL, "fraction", "slowdown that was allowed"),
    (
        "slowdown",
        REAL,
        "fraction",
        "cycles / cycles with unbounded FIFOs - 1, the largest of all bindings",
    ),
    ("fifo_depths", TEXT, "JSON", "depth of every FIFO by name"),
)
