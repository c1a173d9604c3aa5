"""Workloads made from files in the public graph format: ``stepsim run graph.pb``."""

from __future__ import annotations

import os
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import stepsim.graph
from stepsim.deferred import deferred
from stepsim.errors import WorkloadError
from stepsim.workloads.built import Built
from stepsim.workloads.inputs import Data
from stepsim.workloads.parameters import Param
from stepsim.workloads.workload import Workload

if TYPE_CHECKING:
    import hashlib

    import numpy as np

    from stepsim.graph import Program
else:
    np = deferred("numpy")
    hashlib = deferred("hashlib")

ENDING = ".pb"
"""Suffix of files of the format."""


def graph_digest(path: Path) -> str:
    """SHA-256 of the file.

    Raises
    ------
    WorkloadError : it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        code = getattr(error, "errno", None)
        reason = os.strerror(code) if code else str(error)
        raise WorkloadError(f"{path}: cannot be read: {reason}; name a graph file") from error


@dataclass(frozen=True, kw_only=True)
class _OfGraphFile(Workload):
    """Base of workloads that are one file; the parameters control how it is read."""

    path: ClassVar[str]

    arrays: Annotated[
        str | None,
        Param(
            "folder, or .npz file, of the arrays of selectors and integers, by the paths or names "
            "of the operators that read them",
            otherwise="the folder of the graph",
        ),
    ] = None
    indices: Annotated[
        str | None,
        Param(".npy file of expert indices (tokens, k) for selectors that have no array"),
    ] = None
    numbers: Annotated[
        str | None, Param("YAML file of numbers of operators, types and functions")
    ] = None
    generation: Annotated[
        Literal["A", "B"] | None,
        Param("generation of the format", otherwise="what the types of the file say"),
    ] = None
    mock_bf16: Annotated[bool, Param("floats of 4 bytes stand for 2 bytes")] = False
    skip_unknown: Annotated[bool, Param("leave out fields that the format does not have")] = False

    def build(self, data: Data) -> Built:
        given: dict[str, Any] = self.values()
        indices = given.pop("indices")
        routing = None if indices is None else _indices(indices)
        program: Program = stepsim.graph.load_graph(type(self).path, routing=routing, **given)
        return Built(program)


def _indices(path: str) -> Any:
    try:
        with Path(path).open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise WorkloadError(
            f"indices: {path} cannot be read as an array of numpy: {error}"
        ) from error


def of_graph_file(path: Path) -> type[Workload]:
    """The workload of a graph file; its parameters control how it is read."""
    made: type[Workload] = make_dataclass(
        "GraphFile",
        [],
        bases=(_OfGraphFile,),
        frozen=True,
        kw_only=True,
        namespace={
            "__doc__": f"Program of the public graph format in {path.name}.",
            "name": path.stem,
            "path": str(path),
        },
    )
    return made
