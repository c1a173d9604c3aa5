"""Operator graphs of models made by a user's file, in any supported framework."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.operators.importers.onnx_files.graph import from_onnx
from stepsim.design.operators.importers.pytorch.graph import from_torch
from stepsim.design.operators.importers.recording import Costs
from stepsim.dtypes import DType
from stepsim.errors import CompileError


def _is_of(framework: str, kind: str, made: Any) -> bool:
    """Whether something is of a class of a framework, which was imported to make it."""
    place: Any = sys.modules.get(framework)
    for part in kind.split("."):
        place = getattr(place, part, None)
    return isinstance(place, type) and isinstance(made, place)


def _is_torch(made: Any) -> bool:
    return any(_is_of("torch", kind, made) for kind in ("nn.Module", "export.ExportedProgram"))


def is_model(made: Any) -> bool:
    """Whether :func:`graph_of` takes it as it is; a module can be called, but is not to be."""
    pair = isinstance(made, tuple) and len(made) == 2 and _is_torch(made[0])
    return isinstance(made, OperatorGraph) or pair or _is_torch(made) or _is_onnx(made)


def _is_onnx(made: Any) -> bool:
    is_file = isinstance(made, (str, Path)) and Path(made).suffix == ".onnx"
    return is_file or _is_of("onnx", "ModelProto", made)


def graph_of(
    made: Any,
    *,
    name: str | None = None,
    outputs: Sequence[str] | None = None,
    keep_going: bool = False,
    costs: Costs | None = None,
    dtype: DType | str | None = None,
    weight_dtype: DType | str | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> OperatorGraph:
    """The operator graph of a model, by the importer of its framework.

    Parameters
    ----------
    made : a PyTorch module with the arguments that it is traced with, ``(module, arguments)``, an
        exported program, an ONNX model or the path of one, or an operator graph, which stays as it
        is.
    name, outputs, keep_going, costs, dtype, weight_dtype, attributes : as of :func:`from_torch`;
        an operator graph has its own, and an ONNX model names its outputs.

    Raises
    ------
    CompileError : it is not a model, or cannot be imported.
    """
    if isinstance(made, OperatorGraph):
        return made
    options: dict[str, Any] = {
        "name": name, "keep_going": keep_going, "costs": costs, "dtype": dtype,
        "weight_dtype": weight_dtype, "attributes": attributes,
    }  # fmt: skip
    if _is_onnx(made):
        return from_onnx(made, **options)
    if isinstance(made, tuple) and is_model(made):
        module, arguments = made
        return from_torch(module, arguments, outputs=outputs, **options)
    if _is_of("torch", "export.ExportedProgram", made):
        return from_torch(made, outputs=outputs, **options)
    if _is_torch(made):
        raise CompileError(
            f"a module of class {type(made).__name__} has no arguments to trace it with; "
            "give (module, arguments)"
        )
    raise CompileError(
        f"expected an operator graph, (module, arguments) of PyTorch, or an ONNX model; found "
        f"{type(made).__name__}"
    )
