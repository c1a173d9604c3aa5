"""Good arguments of everything that is not the language and not the compiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import stepsim as st
from tests.boundary import instances as some

__all__ = ["CALLS"]

Given = dict[str, Any]


def _picture() -> Path:
    return some.new_file(".png")


def _tensors() -> Given:
    return {"a": np.ones((16, 8))}


def _array(*numbers: int) -> Any:
    return np.array(numbers)


def _unit(**more: Any) -> Given:
    """A unit of a hardware network behind a source."""
    return {"name": "u", "source": some.fifo(), **more}


HARDWARE: dict[str, Callable[[], Given]] = {
    "Network.accumulator": lambda: _unit(rank=1),
    "Network.buffer": lambda: _unit(rank=1),
    "Network.fork": _unit,
    "Network.inner_sum": _unit,
    "Network.map": lambda: {"name": "u", "sources": (some.fifo(),)},
    "Network.matmul": lambda: {
        "name": "u", "a": some.fifo(), "b": some.fifo(), "repeat_a": 1, "repeat_b": 1,
    },
    "Network.printer": _unit,
    "Network.promote": lambda: _unit(rank=1),
    "Network.reader": lambda: {"name": "u", "dims": (2, 2)},
    "Network.repeat": lambda: _unit(times=2),
    "Network.sink": lambda: {"fifo": some.fifo()},
    "Network.source": lambda: {"fifo": "f", "messages": [0, 1]},
    "Network.wire": lambda: {"source": some.fifo(), "fifo": "g"},
    "Network.writer": _unit,
    "ensemble": lambda: {"program": some.hardware_program(), "runs": 2},
    "network_of": lambda: {"program": some.hardware_program()},
    "parse_overrides": lambda: {"items": []},
    "reference": lambda: {"number": 1, "release": 1, "stop": 1},
    "simulate": lambda: {"program": some.hardware_program()},
    "swiglu": lambda: {"B": 16, "D": 16, "F": 16, "tile_b": 16, "tile_inter": 16},
}  # fmt: skip

SWEEPS: dict[str, Callable[[], Given]] = {
    "BaselineComparison.judged": lambda: {"row": some.baseline().rows[0]},
    "Curves.title": lambda: {"metric": "cycles"},
    "DesignCosts.title": lambda: {"metric": "cycles"},
    "LocalBackend": lambda: {"jobs": 1},
    "Statistics.of": lambda: {"statistic": "mean"},
    "SweepSpec": lambda: some.SWEEP,
    "TuneSpec": lambda: some.TUNE,
    "best": lambda: {"folder": some.folder()},
    "compare": lambda: {"before": some.folder(), "after": some.folder()},
    "compare_baseline": lambda: {"before": some.folder(), "after": some.folder()},
    "curves": lambda: {"folder": some.folder(), "x": "tile", "y": ["cycles"]},
    "design_costs": lambda: {"folder": some.folder(), "x": "onchip_bytes", "y": "cycles"},
    "dominates": lambda: {"p": (1.0, 2.0), "q": (2.0, 2.0)},
    "estimate_seconds": lambda: {"plan": some.sweep_plan()},
    "frontier": lambda: {"points": [(1.0, 2.0), (2.0, 1.0)]},
    "load_spec": lambda: {"source": some.SWEEP},
    "open_table": lambda: {"folder": some.folder()},
    "pareto_improvement_distance": lambda: {"point": (1.0, 2.0), "baseline": [(2.0, 2.0)]},
    "plan_sweep": lambda: {"spec": some.SWEEP},
    "query": lambda: {"folder": some.folder(), "sql": "select 1"},
    "read_designs": lambda: {"folder": some.folder()},
    "read_failures": lambda: {"folder": some.folder(), "columns": ["run"]},
    "read_runs": lambda: {"folder": some.folder(), "columns": ["cycles"]},
    "run_sweep": lambda: {"spec": some.SWEEP, "out": some.new_file()},
    "runs_schema": lambda: {"parameters": {}},
    "tune": lambda: {"spec": some.TUNE, "out": some.new_file()},
}

TRACES: dict[str, Callable[[], Given]] = {
    "Format": lambda: {
        "name": "f", "holds": "routing", "read": iter, "recognizes": bool,
    },
    "ImportJob": lambda: {"path": some.file("routing.parquet")},
    "Content": lambda: {"path": some.file("routing.parquet")},
    "ImportJob.table": lambda: {"ids": np.array([[0, 1]]), "place": st.traces.Place("here")},
    "ImportJob.check_layers": lambda: {"layers": 2, "shape": (2, 2), "source": "s", "field": "f"},
    "RequestTrace": lambda: {"context_tokens": _array(1, 2)},
    "RequestTrace.window": lambda: {"first": 1, "last": 1},
    "RoutingSummary.with_experts": lambda: {"experts": 8},
    "RoutingTable": lambda: {"experts": np.array([[0, 1]], np.int32)},
    "RoutingTable.counts": lambda: {"experts": 4},
    "Window.lengths": lambda: {"lengths": _array(1, 2, 3)},
    "detect_trace_format": lambda: {"path": some.file("routing.parquet")},
    "import_trace": lambda: {
        "source": some.file("routing.parquet"), "out": some.new_file(".parquet"),
    },
    "load_requests": lambda: {"source": some.file("requests.parquet")},
    "nearest_windows": lambda: {
        "windows": [st.traces.Window(0, 2, 1.0)], "stdev": 1.0,
    },
    "read_kv_lengths": lambda: {"source": _array(1, 2)},
    "read_requests": lambda: {"source": some.file("requests.parquet")},
    "read_routing": lambda: {"source": np.array([[0, 1]])},
    "read_routing_batches": lambda: {"source": np.array([[0, 1]])},
    "routing_statistics": lambda: {"table": some.routing_table(), "experts": 4},
    "select_windows": lambda: {"lengths": np.arange(1, 40), "size": 4},
    "summarize_routing": lambda: {"source": some.file("routing.parquet")},
    "synthetic_kv_lengths": lambda: {"requests": 2, "seed": 1},
    "synthetic_routing": lambda: {"tokens": 2, "experts": 2, "k": 1, "seed": 1},
    "window_at": lambda: {"lengths": _array(1, 2, 3), "size": 2, "first": 1},
    "write_routing": lambda: {
        "tables": [some.routing_table()], "path": some.new_file(".parquet"),
    },
}  # fmt: skip

SIMULATION: dict[str, Callable[[], Given]] = {
    "Case.measures": lambda: {"done": some.totals(), "data": some.data(), "wanted": ("cycles",)},
    "Case.tokens_per_second": lambda: {"done": some.totals(), "data": some.data()},
    "Case.with_fifo_depths": lambda: {"depths": {}},
    "Case.with_fix": lambda: {"fix": some.file("fix.yaml")},
    "Case.together": lambda: {"last": some.totals()},
    "Prepared.edited": lambda: {"edit": lambda image: image},
    "Prepared.run_depths": lambda: {"fifo_depths": [{}]},
    "Prepared.run_many": lambda: {"bindings": [{}]},
    "make_case": lambda: {
        "workload": "moe",
        "data": some.data(),
        "model": "qwen3-30b-a3b",
        "tile": 8,
    },
}

WORKLOADS: dict[str, Callable[[], Given]] = {
    "Attention.of": lambda: {"model": "qwen3-30b-a3b"},
    "Data.missing": lambda: {"inputs": [st.workloads.ROUTING]},
    "Decoder": lambda: {
        "model": some.model(), "tile": 8, "strategy": "dynamic", "variant": None,
    },
    "Decoder.of": lambda: {"model": "qwen3-30b-a3b", "tile": 8, "strategy": "dynamic"},
    "Step": lambda: {"model": some.model()},
    "Step.of": lambda: {"model": "qwen3-30b-a3b"},
    "Model.of": lambda: {"shapes": (some.moe_shape(),)},
    "Model.parse": lambda: {"value": "qwen3-30b-a3b"},
    "Moe": lambda: {"model": some.model(), "tile": 8},
    "Attention": lambda: {"model": some.model()},
    "Moe.of": lambda: {"model": "qwen3-30b-a3b", "tile": 8},
    "MoEShape": lambda: {
        "name": "m", "model_dim": 64, "experts": 4, "active": 2, "inner_dim": 64,
    },
    "Swiglu": lambda: some.SWEEP["parameters"] | {"tile": 4},
    "Swiglu.of": lambda: some.SWEEP["parameters"] | {"tile": 4},
    "find_workload": lambda: {"text": "moe"},
}  # fmt: skip

SERVING: dict[str, Callable[[], Given]] = {
    "ServeResult.read": lambda: {"folder": some.service_folder()},
    "compare_services": lambda: {"before": some.service(), "after": some.service()},
    "find_rate": lambda: {
        "spec": some.SERVICE
        | {"arrivals": "even", "rate": 1, "max_num_seqs": 1, "slo": "ttft=2ms"},
        "tolerance": 0.9,
    },
    "serve": lambda: {"spec": some.SERVICE},
    "what_if_served": lambda: {"result": some.service(), "change": "max_num_seqs=2"},
    "why_served": lambda: {"result": some.service()},
}

OTHERS: dict[str, Callable[[], Given]] = {
    "Machine": lambda: some.machine().to_dict(),
    "hardware.Machine": lambda: st.hardware.load_machine().to_dict(),
    "machine.Chips": lambda: some.chips().to_dict(),
    "machine.Energy": lambda: {"sources": "a paper"},
    "machine.Hbm": lambda: {
        "model": "interleaved", "request_bytes": 64, "channels": 2, "latency": 1, "interval": 1,
        "startup": 0,
    },
    "machine.OnChip": lambda: {"bytes_per_cycle": 1},
    "machine.parse_overrides": lambda: {"items": []},
    "machine.provenance": lambda: {"machine": "wormhole"},
    "Variant.applied": lambda: {"prepared": some.prepared()},
    "data.choose": lambda: {"names": ["step"]},
    "data.fetch_datasets": lambda: {"chosen": []},
    "data.is_fetched": lambda: {"dataset": some.dataset()},
    "dram.simulate": lambda: {"addresses": [0, 32]},
    "dram.spec_of": lambda: {"dram": "hbm2-hdl"},
    "machine.Latencies": lambda: {
        "same_node": 1, "same_column": 1, "same_row": 1, "other": 1, "write": 1, "write_per_hop": 1,
    },
    "machine.Network": lambda: some.mesh().to_dict(),
    "machine.PortRates": lambda: {"worker": 8.0},
    "machine.Rates": lambda: {
        "link": 8.0, "source": {"worker": 8.0}, "sink": {"worker": 8.0},
    },
    "noc.NocRun.cycles_of": lambda: {"first": 0, "last": 10},
    "noc.NocRun.ends_of": lambda: {"link": 0},
    "noc.NocTrace.cycles": lambda: {"run": some.network_run()},
    "noc.NocTrace.traffic": lambda: {"network": "wormhole"},
    "noc.Placement": lambda: {
        "program": some.program(), "network": some.tall(),
        "operators": dict(some.placement().operators), "ports": {}, "per_tile": 1,
    },
    "noc.Placement.from_yaml": lambda: {
        "path": some.placement_file(), "program": some.program(), "network": some.tall(),
    },
    "noc.Placement.on": lambda: {"program": some.program(), "network": some.tall()},
    "design.Compiled.place": lambda: {"effort": 0.01},
    "noc.Placement.tiles_of_units": lambda: {"wiring": st.graph.wire(some.program())},
    "noc.Placement.of_units": lambda: {"wiring": st.graph.wire(some.program())},
    "noc.Placement.place_of": lambda: {"operator": next(iter(some.placement().operators))},
    "noc.Placement.row_major": lambda: {
        "program": some.program(), "network": some.tall(), "per_tile": 1,
    },
    "noc.Placement.save": lambda: {"path": some.new_file(".yaml")},
    "place": lambda: {"program": some.program(), "machine": some.on_network()},
    "report.draw_placement": lambda: {
        "found": some.found_placement(), "path": some.new_file(".svg"),
    },
    "noc.read_traces": lambda: {"path": some.noc_events()},
    "noc.simulate": lambda: {"traffic": some.TRANSFERS, "network": some.mesh()},
    "report.draw_network": lambda: {
        "run": some.network_run(), "path": some.new_file(".svg"),
    },
    "ensembles.Ensemble.percentile": lambda: {"share": 50},
    "explain.stall_changes": lambda: {"before": some.stalls(), "after": some.stalls()},
    "explain.stall_tree": lambda: {
        "units": some.result().units, "fifos": some.result().fifos,
    },
    "functional.evaluate": lambda: {"program": some.program(), "tensors": _tensors()},
    "functional.FunctionalResult.array": lambda: {"stream": some.stream()},
    "functional.FunctionalResult.nested": lambda: {"stream": some.stream()},
    "functional.FunctionalResult.shape": lambda: {"stream": some.stream()},
    "functional.FunctionalResult.stream": lambda: {"stream": some.stream()},
    "functional.TileValue.of": lambda: {"data": np.ones((2, 2))},
    "graph.Wiring.fifo_of": lambda: {"stream": some.stream()},
    "report.draw_curves": lambda: {"shown": [some.panel()], "x": "rate", "path": _picture()},


    "noc.simulate_chips": lambda: {"messages": some.messages(), "chips": some.chips()},
    "noc.simulate_collective": lambda: {
        "kind": "all-gather", "nbytes": 64, "chips": some.chips(),
    },
    "report.draw_designs": lambda: {
        "points": some.costs().points, "x": "onchip_bytes", "y": "cycles", "path": _picture(),
    },
    "report.draw_requests": lambda: {
        "trace": some.requests(), "title": "t", "path": _picture(),
    },
    "report.draw_routing": lambda: {
        "summary": some.summary(), "title": "t", "path": _picture(),
    },
    "report.draw_tilings": lambda: {
        "points": [st.report.TilingPoint("a", False, 1, 2)], "title": "t", "path": _picture(),
        "counting": "executed",
    },
    "report.draw_services": lambda: {
        "results": {"a": some.service()}, "title": "t", "path": _picture(),
    },
    "report.service_document": lambda: {"results": {"a": some.service()}},
    "report.write_service_perfetto": lambda: {
        "result": some.service(), "path": some.new_file(".pftrace"),
    },
    "report.read_run": lambda: {"path": some.file("run.parquet")},
    "report.write_page": lambda: {
        "path": some.new_file(".html"), "document": {"kind": "run", "title": "t"},
    },
    "results.Diagnosis.from_dict": lambda: {"found": some.diagnosis().to_dict()},
    "run_functional": lambda: {"program": some.program(), "tensors": _tensors()},
    "Result.recorded": lambda: {"what": "timeline"},
    "ensemble": lambda: {"program": some.program(), "runs": 2},
    "sizing.FifoNetwork": lambda: {
        "kernels": some.fifo_network().kernels, "fifos": some.fifo_network().fifos,
    },
    "sizing.FifoNetwork.title": lambda: {"kernel": 0},
    "sizing.planned_depths": lambda: {"network": some.fifo_network()},
    "what_if": lambda: {"program": some.program(), "changes": [st.Variant("v", 4)]},
}  # fmt: skip

CALLS: dict[str, Callable[[], Given]] = (
    {
        f"{room}.{name}": make
        for room, table in (
            ("hardware", HARDWARE),
            ("sweep", SWEEPS),
            ("traces", TRACES),
            ("simulation", SIMULATION),
            ("workloads", WORKLOADS),
            ("serving", SERVING),
        )
        for name, make in table.items()
    }
    | OTHERS
    | {"serve": SERVING["serve"]}
)
