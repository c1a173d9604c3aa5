"""Sources to compile: operator graphs, models by name, and models of users' files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import stepsim.workloads
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.operators.models.blocks import RepeatedBlock, block, moe_block
from stepsim.design.operators.models.shapes import model_shape
from stepsim.errors import ArgError, CompileError, did_you_mean
from stepsim.machine import Machine
from stepsim.typed import typed


def operator_graph(
    model: Any,
    machine: Machine,
    sizes: Mapping[str, Any],
    *,
    keep_going: bool = False,
    choices: Iterable[str] = (),
) -> OperatorGraph:
    """The operator graph to compile; for a whole model, that of its block.

    What is named or imported has the element types of the machine's device, if it states them.

    Parameters
    ----------
    choices : other names that the caller takes, for messages about unknown names.

    Raises
    ------
    CompileError : it is not a model, or sizes are given for a graph that has its own.
    ArgError : there is no such size.
    """
    if isinstance(model, str) and not model.endswith(".onnx"):
        shape = model_shape(model)
        make = moe_block if shape.experts else block
        routed = [name for name in ("experts", "active", "max_rows") if name in sizes]
        if routed and not shape.experts:
            raise CompileError(f"compile: {', '.join(routed)}: {model} has no experts")
        known = list(signature(make).parameters)[1:]
        for name in sizes:
            if name not in known:
                near = did_you_mean(name, [*known, *choices])
                raise ArgError(
                    f"compile: there is no argument '{name}'{near} Sizes of a model that is named: "
                    f"{', '.join(known)}"
                )
        return make(model, **{**element_types(machine), **sizes})
    if sizes:
        raise CompileError(
            f"compile: {', '.join(sizes)}: a graph has its own sizes; give them where it is made"
        )
    if isinstance(model, RepeatedBlock):
        return model.block
    if type(model) is OperatorGraph:
        return model
    from stepsim.design.operators.importers import graph_of

    found = graph_of(model, keep_going=keep_going, **element_types(machine))
    # Without the arrays of an import, which no plan holds.
    return OperatorGraph(found.name, found.tensors, found.ops, found.attributes)


def element_types(machine: Machine) -> dict[str, Any]:
    """Element types of designs for a machine."""
    device = machine.device
    if device is None:
        return {}
    return {"dtype": device.activation_dtype, "weight_dtype": device.weight_dtype}


@typed
def find_model(
    text: str, machine: Machine, sizes: Mapping[str, Any], *, keep_going: bool = False
) -> OperatorGraph:
    """The model named on the command line: a name, an ONNX file, or ``FILE.py:NAME``.

    Raises
    ------
    CompileError, WorkloadError, UserCodeError : there is none, or the file raises.
    """
    file, name = stepsim.workloads.split_target(text)
    if file is None or not file.endswith(".py"):
        return operator_graph(text, machine, sizes, keep_going=keep_going)
    path = Path(file)
    module, digest = stepsim.workloads.read_module(path)
    made = getattr(module, name, None) if name else None
    if made is None:
        known = [key for key in vars(module) if not key.startswith("_")]
        raise CompileError(
            f"{file}: name what makes the model, as in {path.name}:model"
            + (f"; it has no '{name}'{did_you_mean(name, known)}" if name else "")
        )
    from stepsim.design.operators.importers import is_model

    if callable(made) and not is_model(made):
        _check_sizes(made, f"{path.name}:{name}", sizes)
        with stepsim.workloads.user_code(f"{path.name}:{name}", str(path.resolve()), digest):
            made = made(**sizes)
        sizes = {}
    return operator_graph(made, machine, sizes, keep_going=keep_going)


def _check_sizes(make: Callable[..., Any], where: str, sizes: Mapping[str, Any]) -> None:
    """Reject sizes that a function does not take, before the call raises a TypeError."""
    taken = signature(make).parameters
    if any(p.kind is Parameter.VAR_KEYWORD for p in taken.values()):
        return
    for size in sizes:
        if size not in taken:
            raise CompileError(
                f"{where}: {size}: the function has no such argument"
                f"{did_you_mean(size, taken)} Its arguments: {', '.join(taken) or 'none'}"
            )
