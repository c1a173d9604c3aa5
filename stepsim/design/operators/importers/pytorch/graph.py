"""Operator graphs of PyTorch modules, by ``torch.export``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from stepsim.deferred import require
from stepsim.design.operators.building.builder import GraphBuilder
from stepsim.design.operators.importers.imported import ImportedGraph
from stepsim.design.operators.importers.pytorch.reading import Reading, place_of, unknown_targets
from stepsim.design.operators.importers.recording import Costs, recorded
from stepsim.dtypes import DType
from stepsim.errors import CompileError

_DEEPEST = 4
"""How often the parts of an operator are taken apart."""


def from_torch(
    module: Any,
    example_inputs: Sequence[Any] = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    outputs: Sequence[str] | None = None,
    keep_going: bool = False,
    costs: Costs | None = None,
    dtype: DType | str | None = None,
    weight_dtype: DType | str | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> ImportedGraph:
    """The operator graph of a PyTorch module, as ``torch.export`` traces it.

    Needs ``pip install 'stepsim[torch]'``.

    Parameters
    ----------
    module : a ``torch.nn.Module``, in the mode of evaluation, or an ``ExportedProgram``.
    example_inputs : arguments of ``forward``: tensors of the shapes of the graph, and numbers,
        which become part of it. None of an exported program.
    kwargs : arguments by name.
    name : of the graph; None is the class of the module.
    outputs : names of the results; None is ``y``, ``y1``, ``y2`` and so on.
    keep_going : operators that are not known become opaque kernels.
    costs : FLOPs for each element of the result of such an operator, by its name
        (``"aten.erf.default"``). Those that are not there count 1, and the graph lists them in
        ``attributes["assumed_costs"]``.
    dtype : scalar type of activations in the graph; None is that of the module. Values are not
        quantized.
    weight_dtype : that of matrices of weights; None is ``dtype``.
    attributes : of the graph: phase, batch, context, layers, ...

    Returns
    -------
    The graph, with ``arrays``, the values of weights and tables. Parameters are called as in the
    module, inputs as the arguments of ``forward``. An argument that ``torch.cat`` puts before
    computed rows is a ``state``, and so is an argument or buffer that the module writes, whose new
    rows are the output ``NAME_new``.

    Raises
    ------
    CompileError : PyTorch is not installed or cannot export the module, a shape is not static, or
        operators are not known, all of them in one message with module path and source line.
    """
    torch = require(
        "torch", CompileError, "export",
        advice=" (for the build without CUDA add "
        "--extra-index-url https://download.pytorch.org/whl/cpu)",
    )  # fmt: skip
    reader = f"from_torch({name or type(module).__name__})"
    program = _exported(torch, module, example_inputs, kwargs, reader)
    name = name or type(module).__name__
    _check_static(torch, program, reader)
    program = _decomposed(torch, program)
    reading = Reading(torch, program)
    results = reading.results
    if outputs is None:
        outputs = ["y" if i == 0 else f"y{i}" for i in range(len(results))]
    if len(outputs) != len(results) or len(set(outputs)) != len(outputs):
        raise CompileError(
            f"{reader}: outputs are {list(outputs)}; give {len(results)} different names, as the "
            "module returns so many tensors"
        )
    own = reading.dtype()
    if own is None and dtype is None:
        raise CompileError(f"{reader}: no tensor is of float32, float16 or bfloat16; give dtype")
    builder = GraphBuilder(
        name, dtype or own or "f32", weight_dtype or dtype or own, **dict(attributes or {})
    )
    return recorded(
        builder,
        reading.arguments,
        dict(zip(outputs, results, strict=True)),
        reading.mutated,
        reader=reader,
        keep_going=keep_going,
        costs=costs,
    )


def _exported(
    torch: Any, module: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None, reader: str
) -> Any:
    """The exported program, in which no operator changes a tensor in place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, about its parts
        if isinstance(module, torch.export.ExportedProgram):
            return module.run_decompositions({})
        if not isinstance(module, torch.nn.Module):
            raise CompileError(f"{reader}: expected a torch.nn.Module, found {module!r}")
        try:
            program = torch.export.export(module, tuple(inputs), dict(kwargs or {}))
            return program.run_decompositions({})
        except Exception as error:
            text = " ".join(str(error).split())
            raise CompileError(
                f"{reader}: torch.export cannot export the module: {type(error).__name__}: "
                f"{text[:600]}{'...' if len(text) > 600 else ''}; its shapes and branches must not "
                "depend on values"
            ) from error


def _is_static(shape: Any) -> bool:
    return all(isinstance(size, int) for size in shape)


def _check_static(torch: Any, program: Any, reader: str) -> None:
    """Reject sizes that are known only at run time."""
    found = []
    for node in program.graph.nodes:
        made = node.meta.get("val")
        tensors = made if isinstance(made, (list, tuple)) else [made]
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and not _is_static(tensor.shape):
                what = "argument" if node.op == "placeholder" else "result"
                shape = "x".join(map(str, tensor.shape))
                found.append(f"{what} '{node.name}' has shape {shape} in {place_of(node)}")
    if found:
        more = f", and {len(found) - 5} more" if len(found) > 5 else ""
        raise CompileError(
            f"{reader}: shapes are dynamic: {'; '.join(found[:5])}{more}; a design has static "
            "shapes: export without dynamic_shapes, once for each shape, and select no elements by "
            "their values"
        )


def _decomposed(torch: Any, program: Any) -> Any:
    """The program with operators that are not known in parts, where all of the parts are."""
    unknown = unknown_targets(program)
    if not unknown:
        return program
    table = dict(torch.export.default_decompositions())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for target in sorted(unknown & set(table), key=str):
            rules, left, trial = {target: table[target]}, unknown, program
            for _ in range(_DEEPEST):
                trial = program.run_decompositions(dict(rules))
                left = unknown_targets(trial)
                more = {new: table[new] for new in left - unknown if new in table}
                if not more:
                    break
                rules |= more
            if left < unknown:
                program, unknown = trial, left
    return program
