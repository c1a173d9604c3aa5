"""Columns that describe a run of a workload: parameters, data, machine, and counting."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import stepsim.workloads
from stepsim.arguments import shown
from stepsim.arrow import pa
from stepsim.errors import ArgError, WorkloadError
from stepsim.machine import Machine, machine_columns
from stepsim.results import COLUMNS, COUNTINGS, TAKEN, declaration_of, field
from stepsim.workloads import Data, Field, Resolved, Source, Workload, fields_of

_SHARED = ("model", "batch")
"""Columns that a parameter may fill in."""


def counting_of(given: str | None, config: str | None) -> str:
    """How bytes and FLOPs are counted: as given, else as published with published settings.

    Raises
    ------
    ArgError : there is no such counting.
    """
    if given is not None and not (isinstance(given, str) and given in COUNTINGS):
        raise ArgError(f"counting: expected one of {', '.join(COUNTINGS)}, found {shown(given)}")
    return given or ("published" if config == "published" else "executed")


def check_columns(workload: type[Workload]) -> None:
    """Raise WorkloadError if parameters of a workload have the names of other columns of runs."""
    problems = []
    for name, parameter in fields_of(workload).items():
        if name not in TAKEN:
            continue
        kind, _, definition = declaration_of(name)
        if name not in _SHARED or kind != parameter.column_type:
            problems.append(
                f"parameter {name} has the name of a column of results ({definition}); choose "
                f"another name, such as {workload.name.rpartition(':')[2]}_{name}"
            )
    if problems:
        raise WorkloadError(f"{workload.name}: {'; '.join(problems)}")


def parameter_columns(workload: type[Workload]) -> dict[str, pa.Field]:
    """Columns of the parameters of a workload, by name; advice behind a semicolon is left out.

    Raises
    ------
    WorkloadError : a parameter has the name of another column of runs.
    """
    check_columns(workload)
    return {
        name: COLUMNS[name]
        if name in TAKEN
        else field(
            name, parameter.column_type, parameter.param.unit, _definition(parameter, workload)
        )
        for name, parameter in fields_of(workload).items()
    }


def _definition(parameter: Field, workload: type[Workload]) -> str:
    return parameter.param.help.partition(";")[0] or f"parameter of {workload.name}"


def describe(
    source: Source, resolved: Resolved[Workload], machine: Machine, counting: str, data: Data | None
) -> dict[str, Any]:
    """Description of a run by column; nested values are JSON text."""
    values = resolved.workload.columns()
    return {
        "workload": source.text,
        "workload_digest": source.digest,
        "parameters": json.dumps(values, sort_keys=True),
        "origins": json.dumps(dict(resolved.origins), sort_keys=True),
        "model_json": _model(resolved.workload),
        "config": resolved.config,
        "counting": counting,
        **machine_columns(machine),
        "batch": data.rows if data is not None and resolved.workload.inputs else None,
        **({} if data is None else routing_load(data)),
        **values,
    }


def _model(workload: Workload) -> str | None:
    """The model of a workload, as it was read."""
    models = {
        name: value.to_dict()
        for name, value in workload.values().items()
        if hasattr(value, "to_dict") and isinstance(value, stepsim.workloads.Model)
    }
    return json.dumps(models, sort_keys=True) if models else None


def routing_load(data: Data) -> dict[str, int]:
    """How the rows of a routing spread over the experts, by column."""
    if data.routing is None:
        return {}
    loads = np.bincount(data.routing.ravel())
    return {"active_experts": int((loads > 0).sum()), "max_load": int(loads.max())}
