"""Good arguments of every callable: those that it cannot do without."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import stepsim as st
from stepsim.graph import fn
from tests.boundary import instances as some, of_design, of_runs, of_the_language
from tests.boundary.surface import Subject
from tests.language_calls import LANGUAGE, x

__all__ = ["arguments"]

Given = dict[str, Any]

BY_TYPE: dict[str, Callable[[], Any]] = {
    "int": lambda: 2,
    "int | None": lambda: 2,
    "float": lambda: 1.0,
    "str": lambda: "x",
    "Any": lambda: 1,
    "Stream": x,
    "Program": some.program,
    "Program | Prepared": some.program,
    "Prepared": some.prepared,
    "Result": some.result,
    "Machine": some.machine,
    "ITensor": some.itensor,
    "Data": some.data,
    "OperatorGraph": some.untiled,
    "DataflowGraph": some.dataflow,
    "Plan": some.plan,
    "Ensemble": some.ensemble,
    "Function": lambda: fn.add,
    "Function | SelectorFunction": lambda: fn.silu,
    "Dim": lambda: st.graph.Dim(2),
    "DimLike": lambda: 2,
    "DType": lambda: st.graph.DType.f32,
    "DType | str": lambda: "f32",
    "Operator": lambda: x().producer,
    "Sequence[Stream]": lambda: [x(), x()],
    "Routing": some.routing,
    "RoutingTable": some.routing_table,
    "RequestTrace": some.requests,
    "tuple[int, int]": lambda: (2, 2),
    "Sequence[int]": lambda: (2, 2),
    "Mapping[str, Any]": dict,
    "Mapping[Any, Any]": dict,
    "Mapping[str, Any] | None": dict,
    "Sequence[ITensor]": lambda: [some.itensor()],
    "str | Model | ModelShape": lambda: "gpt2-medium",
    "str | PathLike[str]": some.new_file,
    "str | os.PathLike[str]": some.new_file,
    "str | Path": some.new_file,
    "Network": some.network,
    "Program | Network": some.network,
    "Mapping[str, int]": dict,
    "pa.Table": lambda: pa.table({"a": [1]}),
    "LayerModel": lambda: "qwen3-30b-a3b",
}
"""By the annotation of a parameter."""

CALLS = of_the_language.CALLS | of_design.CALLS | of_runs.CALLS


def arguments(subject: Subject) -> Given:
    """Values for the required parameters of a callable; the extra ones of ``*args`` as a tuple."""
    wanted = {
        name: one
        for name, one in subject.parameters.items()
        if one.default is inspect.Parameter.empty
    }
    given: Given = {}
    if subject.path in CALLS:
        given = CALLS[subject.path]()
    elif subject.path in LANGUAGE:
        known = LANGUAGE[subject.path]()[1]
        given = {name: known[name] for name in subject.parameters if name in known}
    for name, one in wanted.items():
        if name in given or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        text = str(one.annotation)
        given[name] = BY_TYPE[text]() if text in BY_TYPE else None
    return given
