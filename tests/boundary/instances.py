"""An example of every class whose methods are called, and of what functions take."""

from __future__ import annotations

import contextvars
import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import stepsim as st
from stepsim.graph import fn
from stepsim.placement import FoundPlacement
from tests.design.search.small import SIZES, small
from tests.language_calls import deep, here, tiles, x

__all__ = ["EXAMPLES", "INSTANCES", "Current"]

_numbers = itertools.count()


def kept(make: Callable[..., Any]) -> Callable[..., Any]:
    """What ``make`` makes, once, outside of any open program."""
    return functools.cache(lambda *given: contextvars.Context().run(make, *given))


def new_file(suffix: str = "") -> Path:
    """A path in the working directory at which there is no file."""
    return Path(f"new-{next(_numbers)}{suffix}")


@kept
def program() -> st.Program:
    """A small program with data for its only table."""
    with st.Program("small", compute_bw=8) as made:
        a = st.linear_load(st.spec(16, 8, name="a", dtype="f32"), (4, 8)).flatten(0, 1)
        st.linear_store(a.map(fn.silu), "b")
    return made


@kept
def stuck() -> st.Program:
    """A program that needs deeper FIFOs than it has."""
    with st.Program("stuck", compute_bw=8, fifo_depth=1) as made:
        whole = st.linear_load(st.spec(16, 8), (1, 8)).flatten(0, 1).reshape(4)
        total = whole.accum(fn.add, 1, fn.zero((1, 8)))
        st.linear_store(whole.flatten(0, 1).map(fn.add, st.repeat(total, 4).flatten(0, 1)))
    return made


@kept
def result() -> st.Result:
    return st.simulate(program(), on_network(), place="row-major", record=True)


SERVICE = {
    "source": "fixed:count=4,prompt_tokens=8,output_tokens=3", "arrivals": "at-once",
    "steps": "linear:1000000,1000", "num_blocks": 64,
}  # fmt: skip
"""Parameters of a small service."""


@kept
def service() -> st.serving.ServeResult:
    return st.serve(SERVICE)


@kept
def service_folder() -> Path:
    path = new_file()
    st.serve(SERVICE, out=path)
    return path


@kept
def prepared() -> st.simulation.Prepared:
    return st.prepare(program())


@kept
def functional() -> st.functional.FunctionalResult:
    return st.run_functional(program(), {"a": np.ones((16, 8))})


@kept
def ensemble() -> st.ensembles.Ensemble:
    return st.ensemble(program(), runs=2)


@kept
def why() -> st.explain.Why:
    return st.why(program())


@kept
def sizes() -> Any:
    return st.size_fifos(program())


@kept
def case() -> st.simulation.Case:
    return st.simulation.make_case("moe", data(), model="qwen3-30b-a3b", tile=8)


@kept
def data() -> st.workloads.Data:
    return st.workloads.Data.of(routing=[[0, 1, 2, 3, 4, 5, 6, 7]] * 2)


@kept
def totals() -> Any:
    return prepared().run()


@kept
def plan(phase: str = "prefill") -> st.design.Plan:
    return small(phase).plan


def dataflow() -> st.design.DataflowGraph:
    return plan().graph


def operators() -> st.design.OperatorGraph:
    return dataflow().operators


@kept
def untiled() -> st.design.OperatorGraph:
    build = st.design.GraphBuilder("small", "f32")
    y = build.linear(build.input("x", (16, 16)), build.weight("w", (16, 16)))
    build.output(build.gelu(y), "y")
    return build.graph()


@kept
def group() -> st.design.GroupProgram:
    return plan().programs()[0]


@kept
def tiled() -> st.design.OperatorGraph:
    return st.design.unroll(st.design.permute(st.design.tile(untiled(), 16)), 64)


@kept
def kernels() -> st.design.DataflowGraph:
    return st.design.fuse_kernels(st.design.kernels_of(tiled()), 1 << 20)


def machine() -> st.Machine:
    return st.load_machine("u55c")


@kept
def network() -> st.hardware.Network:
    return st.hardware.swiglu(16, 16, 16, 16, 16)


@kept
def hardware_program() -> st.Program:
    with st.Program("unit") as made:
        st.linear_store(st.linear_load(st.spec(32, 16, dtype="f32"), (16, 16)).flatten(0, 1), "b")
    return made


@kept
def hardware_result() -> Any:
    return st.hardware.simulate(network())


@kept
def itensor(chunk: int = 2) -> st.itensor.ITensor:
    loops = ((0, 4 // chunk, chunk), (1, 2, 2))
    return st.itensor.ITensor.of_loops((4, 4), loops, (chunk, 2), "f32")


@kept
def routing_table() -> st.traces.RoutingTable:
    return st.traces.synthetic_routing(8, 4, 2, seed=0)


@kept
def requests() -> st.traces.RequestTrace:
    return st.traces.RequestTrace(np.array([5, 3]), np.array([2, 4]), np.array([0.0, 1.0]))


SWEEP: dict[str, Any] = {
    "name": "small",
    "workload": "swiglu",
    "parameters": {"tile_inter": 8, "batch": 8, "hidden": 16, "intermediate": 16},
    "grid": {"tile": [2, 4]},
}
TUNE = SWEEP | {
    "search": {"objectives": ["cycles", "onchip_bytes"], "sampler": "random", "trials": 2}
}


@kept
def folder() -> Path:
    """The folder of a finished sweep."""
    made = Path("sweep").resolve()
    st.sweep.run_sweep(SWEEP, made)
    return made


@kept
def file(name: str) -> Path:
    """A readable file: a trace, a run, a plan."""
    path = Path(name).resolve()
    if name == "routing.parquet":
        routing_table().to_parquet(path)
    elif name == "requests.parquet":
        requests().to_parquet(path)
    elif name == "run.parquet":
        result().to_parquet(path)
    elif name == "plan.yaml":
        plan().save(path)
    elif name == "fix.yaml":
        path.write_text("fifo_depth: 4\n", encoding="utf-8")
    elif name == "kv.npy":
        np.save(path, np.array([5, 0, 40, 31]))
    return path


@kept
def metrics() -> st.graph.Metrics:
    return program().metrics()


def routing() -> st.graph.Routing:
    return st.routing([[0, 1]] * 4, 4)


class Current:
    """What the call in preparation works on: other examples are parts of it."""

    builder: st.design.GraphBuilder
    network: st.hardware.Network

    @classmethod
    def renew(cls) -> None:
        cls.builder = st.design.GraphBuilder("g", "f32")
        cls.network = st.hardware.Network("n")


def new_name() -> str:
    return f"n{next(_numbers)}"


def chosen() -> Any:
    """A routing for the small layer with experts."""
    return np.array([[0, 1], [1, 2], [2, 3], [0, 3]])


@kept
def graph_file() -> bytes:
    return st.graph.Program.to_graph(program())


@kept
def repeated() -> st.design.RepeatedBlock:
    return st.design.whole_model("gpt2-medium", layers=2, tokens=4, **SIZES)


def values_of_all_layers() -> dict[str, Any]:
    """Values for every layer of the small model."""
    whole = repeated()
    found: dict[str, Any] = {}
    for tensor in whole.block.with_role("input", "weight", "state"):
        for layer in range(whole.layers):
            name = tensor.name if tensor.role == "input" else whole.name(layer, tensor.name)
            found[name] = np.zeros(tensor.shape, np.float32)
    return found


@kept
def routed_program() -> st.Program:
    with st.Program("routed") as made:
        st.routing(st.spec(4, 2), 4).multihot().consume()
    return made


def builder() -> st.design.GraphBuilder:
    return Current.builder


def fifo() -> str:
    """A FIFO of the current network that a source fills."""
    return Current.network.source(f"f{next(_numbers)}", [0, 1])


@kept
def disturbance() -> Any:
    from stepsim.simulation.ensembles.disturbances import DISTURBANCES

    return DISTURBANCES[0]


@kept
def traced() -> Any:
    return st.design.size_over_traces(routed_group(), [chosen()], "sda-1024")


@kept
def sweep_plan() -> st.sweep.Plan:
    return st.sweep.plan_sweep(SWEEP)


@kept
def placeable() -> st.design.Compiled:
    """A design for a machine with a network on chip, small enough for searches of much effort."""
    machine = st.load_machine("u55c", {"noc": "mesh", "noc.rows": 5, "noc.cols": 5})
    return st.compile(untiled(), machine=machine, sizing="lp", order="reductions_outermost")


def dram() -> st.machine.Dram:
    return st.machine.Dram(preset="hbm2-hdl")


TRANSFERS = {"source": [0, 1], "destination": [2, 2], "flits": [3, 4]}


def mesh() -> st.machine.Network:
    return st.noc.load_network("mesh", {"rows": 1, "cols": 3})


def tall() -> st.machine.Network:
    return st.noc.load_network("mesh", {"rows": 8, "cols": 8})


@kept
def placement() -> st.noc.Placement:
    return st.noc.Placement.row_major(program(), tall())


def placement_file() -> Path:
    path = new_file(".yaml")
    placement().save(path)
    return path


def on_network() -> st.Machine:
    return st.load_machine("sda-1024", {"noc": "mesh"})


@kept
def found_placement() -> FoundPlacement:
    return st.place(program(), on_network(), effort=0.01)


@kept
def network_run() -> st.noc.NocRun:
    return st.noc.simulate(TRANSFERS, mesh())


@kept
def noc_events() -> Path:
    row = [0, 0, 0, 0, 1, 1, 2, 2, 64]
    path = new_file(".json")
    path.write_text(json.dumps({"events": [row], "device": "wormhole_b0"}))
    return path


def chips() -> st.machine.Chips:
    return st.machine.Chips(topology="switch", count=4, gib_per_s=50, latency_ns=500)


def messages() -> dict[str, list[int]]:
    return {"source": [0, 1], "destination": [1, 2], "bytes": [64, 128]}


@kept
def stalls() -> Any:
    from stepsim.results import stalls_of

    return stalls_of(result().units, result().fifos)


@kept
def costs() -> Any:
    return st.sweep.design_costs(folder(), "onchip_bytes", "cycles")


@kept
def curves() -> Any:
    return st.sweep.curves(folder(), "tile", ["cycles"])


def panel() -> Any:
    one = st.report.DrawnCurve("tile=2", [1.0], [2.0], [None], [None])
    return st.report.CurvePanel("mean cycles", [one])


@kept
def baseline() -> Any:
    return st.sweep.compare_baseline(folder(), baseline={"tile": "2"})


@kept
def summary() -> Any:
    return st.traces.summarize_routing(file("routing.parquet"))


@kept
def diagnosis() -> Any:
    return st.simulate(stuck()).diagnosis


def stream() -> st.Stream:
    """A stream of the small program."""
    found: st.Stream = program().operators[0].outputs[0]
    return found


def dataset() -> st.data.Dataset:
    return next(iter(st.data.datasets().values()))


@kept
def model() -> Any:
    return st.workloads.Model.parse("qwen3-30b-a3b")


def moe_shape() -> Any:
    return st.workloads.MoEShape("m", model_dim=64, experts=4, active=2, inner_dim=64)


def fifo_network() -> st.sizing.FifoNetwork:
    kernel = st.sizing.SteppingKernel(4, 1, 1)
    return st.sizing.FifoNetwork((kernel, kernel), (st.sizing.Fifo(0, 1),))


def values() -> dict[str, Any]:
    """Values of everything that the small model reads."""
    return {
        tensor.name: np.zeros(tensor.shape, np.float32)
        for tensor in operators().with_role("input", "weight", "state")
    }


@kept
def stored() -> dict[str, Any]:
    ran = st.run_functional(group().program, group().tensors(values()))
    return dict(ran.stored)


@kept
def routed() -> st.design.OperatorGraph:
    from tests.design.experts import layer

    return layer(4, 4, 2, inner=8, max_rows=4)


@kept
def routed_group() -> st.design.GroupProgram:
    choices = st.design.Choices(budget=1 << 24, tile=4, unroll=4096, order="reductions_innermost")
    return st.design.programs_of(st.design.designed(routed(), choices)[0])[0]


INSTANCES: dict[str, Callable[[], Any]] = {
    "Function": lambda: fn.matmul,
    "Machine": machine,
    "Program": here,
    "Result": result,
    "Stream": deep,
    "Tile": lambda: st.Tile.of("f32", 4, 8),
    "Variant": lambda: st.Variant("v"),
    "design.Choices": lambda: st.design.Choices(),
    "design.Compiled": placeable,
    "design.DataflowGraph": dataflow,
    "design.GraphBuilder": builder,
    "design.GroupProgram": group,
    "design.Index": lambda: st.design.Index.of("m"),
    "design.Op": lambda: operators().ops[0],
    "design.OperatorGraph": operators,
    "design.Plan": plan,
    "design.RepeatedBlock": repeated,
    "design.RequestTimes": lambda: st.design.RequestTimes(1, 2, 1.0, 2.0, 3.0),
    "design.RoutedCost": kept(lambda: st.design.routed_flops(routed())),
    "dram.DramRun": kept(lambda: st.dram.simulate([0, 32])),
    "ensembles.Disturbance": disturbance,
    "ensembles.Ensemble": ensemble,
    "explain.CriticalPath": kept(lambda: st.explain.critical_path(program())),
    "explain.StallTree": lambda: why().stalls,
    "explain.WhatIf": kept(lambda: st.what_if(program())),
    "explain.Why": why,
    "functional.FunctionalResult": functional,
    "functional.TileValue": lambda: st.functional.TileValue.of(np.ones((2, 2))),
    "graph.BoundMetrics": kept(lambda: metrics().bind()),
    "graph.Dim": lambda: st.graph.Dim(4),
    "graph.Feedback": lambda: st.feedback(st.Tile.of("f32", 4, 8), [4]),
    "graph.Metrics": kept(lambda: routed_program().metrics()),
    "graph.Operator": lambda: x().producer,
    "graph.Routing": routing,
    "graph.StreamFunction": lambda: fn.unpack_rows(),
    "graph.TupleType": lambda: st.graph.TupleType((x().type, x().type)),
    "graph.Wiring": kept(lambda: st.graph.wire(program())),
    "hardware.HardwareResult": hardware_result,
    "hardware.Machine": st.hardware.load_machine,
    "hardware.Network": lambda: Current.network,
    "itensor.AffineMap": lambda: itensor().map,
    "itensor.ITensor": itensor,
    "machine.Chips": chips,
    "machine.Dram": dram,
    "machine.Energy": lambda: st.machine.Energy(sources="a paper"),
    "machine.Network": mesh,
    "machine.PortRates": lambda: st.machine.PortRates(worker=8.0),
    "noc.NocRun": network_run,
    "noc.Placement": placement,
    "noc.NocTrace": kept(lambda: st.noc.read_traces(noc_events())[0]),
    "noc.ChipRun": kept(lambda: st.noc.simulate_chips(messages(), chips())),
    "results.Diagnosis": diagnosis,
    "simulation.Case": case,
    "simulation.Prepared": prepared,
    "simulation.Totals": totals,
    "sizing.DeadlockFix": kept(lambda: st.fix_deadlock(stuck())),
    "sizing.FifoNetwork": fifo_network,
    "sizing.FifoSizes": sizes,
    "sweep.LocalBackend": lambda: st.sweep.LocalBackend(1),
    "sweep.Plan": sweep_plan,
    "sweep.Statistics": lambda: st.sweep.Statistics(1.0, 1.0, 1.0, 1.0),
    "sweep.SweepSpec": lambda: st.sweep.load_spec(SWEEP),
    "traces.Format": lambda: st.traces.trace_formats()["requests"],
    "traces.ImportJob": kept(lambda: st.traces.ImportJob(file("routing.parquet"))),
    "traces.LayerLoad": lambda: st.traces.routing_statistics(routing_table(), 4),
    "traces.Place": lambda: st.traces.Place("here"),
    "traces.RequestTrace": requests,
    "traces.RoutingSummary": summary,
    "traces.RoutingTable": routing_table,
    "traces.Window": lambda: st.traces.window_at(np.array([1, 2, 3]), 2, 1),
    "sweep.DesignCosts": costs,
    "sweep.BaselineComparison": baseline,
    "sweep.Curves": curves,
    "design.TracedSizes": traced,
    "design.CompiledModel": lambda: st.design.CompiledModel.of(model="gpt2-medium", **SIZES),
    "workloads.Moe": lambda: case().resolved.workload,
    "workloads.Swiglu": lambda: st.workloads.Swiglu.of(**SWEEP["parameters"], tile=4),
    "workloads.Decoder": lambda: st.workloads.Decoder.of(
        model="qwen3-30b-a3b", tile=8, strategy="dynamic"
    ),
    "workloads.Step": kept(lambda: st.workloads.Step.of(model="qwen3-30b-a3b")),
    "workloads.Attention": kept(lambda: st.workloads.Attention.of(model="qwen3-30b-a3b")),
    "workloads.Built": kept(lambda: st.workloads.Built(program())),
    "workloads.Data": data,
    "workloads.Model": model,
    "serving.FoundRate": kept(
        lambda: st.serving.find_rate(
            SERVICE | {"arrivals": "even", "rate": 1, "max_num_seqs": 1, "slo": "ttft=2ms"},
            tolerance=0.9,
        )
    ),
    "serving.ServeResult": service,
    "serving.ServiceComparison": lambda: st.serving.compare_services(service(), service()),
    "serving.ServiceWhy": lambda: st.serving.why_served(service()),
}


EXAMPLES: dict[str, Callable[[], Any]] = {
    "Program.downtile": program,
    "Program.to_graph": program,
    "Stream.streamify": lambda: deep().bufferize(1),
    "Stream.expand": lambda: tiles(4, 1),
}
"""Examples for single methods."""
