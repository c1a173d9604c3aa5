"""What to write instead of a name that `stepsim` or one of its rooms does not offer."""

from __future__ import annotations

from collections.abc import Iterable

import stepsim
from stepsim.errors import did_you_mean

NAMESPACES = (
    "fn", "nn", "data", "design", "dram", "ensembles", "errors", "explain", "functional", "graph",
    "hardware", "itensor", "machine", "noc", "report", "results", "serving", "simulation", "sizing",
    "sweep", "traces", "workloads",
)  # fmt: skip
"""The modules that `stepsim` offers, in the order in which a name is looked for."""

MOVED = {
    name: namespace
    for namespace, names in {
        "design": "Compiled Plan request",
        "ensembles": "Ensemble",
        "errors": """
            ArgError AssumptionError BaselineError CompileError DTypeError DataError DimError
            EvaluationError GraphError GraphFileError ITensorError KindError LoweringError
            MachineError OutputError RankError ReportError StepError SweepError TraceError
            UserCodeError WorkerError WorkloadError did_you_mean
        """,
        "explain": "CriticalPath WhatIf Why critical_path",
        "functional": "FunctionalResult",
        "graph": """
            Ack Assumption BoundMetrics Buffer DType Dim Feedback IndexSelector Init Kind Metrics
            MultiHot Operator OperatorMetrics Routing StreamFunction TensorSpec TupleType WiredFifo
            WiredUnit Wiring wire
        """,
        "machine": "list_machines",
        "report": "TimelineFile write_perfetto",
        "results": "write_events",
        "simulation": "Case Prepared Progress make_case",
        "sizing": "DeadlockFix FifoSizes",
        "traces": "read_routing synthetic_routing",
        "workloads": """
            Attention Built Data Decoder KV_LENGTHS Model Moe Param ROUTING Swiglu Workload
        """,
    }.items()
    for name in names.split()
}
"""Names that were offered by `stepsim` itself -> the namespace that has them now."""


REPLACED = {
    "CompiledExperts": "st.design.Compiled",
    "compile_over_traces": "st.compile, with the routings as traces=",
}
"""Names that no room offers any more -> what to write instead."""

MOVED_METHODS = {
    "Compiled.fifo_table": "stepsim.reproduce.fifo_table(compiled, group)",
}
"""Methods that classes once had -> what to write instead."""


def hint(package: str, name: str, offered: Iterable[str]) -> str:
    """The end of the message about an unknown name of a package, without a period."""
    if package == "stepsim" and name in MOVED:
        return f"; st.{name} is now st.{MOVED[name]}.{name}"
    if name in dir(stepsim):
        return f"; there is st.{name}"
    owners = [f"st.{room}.{name}" for room in NAMESPACES if name in getattr(stepsim, room).__all__]
    if owners:
        return f"; there is {' and '.join(owners)}"
    if name in REPLACED:
        return f"; it is now {REPLACED[name]}"
    return did_you_mean(name, offered).removesuffix(".")


def method_hint(kind: str, name: str) -> str:
    """The end of the message about a method that a class once had; empty if it never did."""
    now = MOVED_METHODS.get(f"{kind}.{name}")
    return "" if now is None else f"; it is now {now}"
