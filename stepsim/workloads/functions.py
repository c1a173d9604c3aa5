"""Workloads made from plain functions and from finished programs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import field, make_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import stepsim.graph
from stepsim.errors import WorkloadError
from stepsim.workloads.built import Built
from stepsim.workloads.inputs import Data, Input
from stepsim.workloads.parameters import ParameterError
from stepsim.workloads.workload import Workload

if TYPE_CHECKING:
    from stepsim.graph import Program

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _OfFunction(Workload):
    """Base of workloads whose program a function makes."""

    _function: ClassVar[Callable[..., Any]]
    _where: ClassVar[str]
    _traces: ClassVar[dict[str, Input]]

    def build(self, data: Data) -> Built:
        self.checked(data)
        missing = data.missing(self.inputs)
        if missing:
            raise ParameterError(
                (one.name, f"missing; {self._where} is built from its trace") for one in missing
            )
        given = {name: getattr(data, one.name) for name, one in self._traces.items()}
        made = type(self)._function(**self.values(), **given)
        if isinstance(made, stepsim.graph.Program):
            return Built(made)
        if isinstance(made, Built):
            return made
        raise WorkloadError(
            f"{self._where}: expected a function that returns a Program, found one that returns "
            f"{type(made).__name__}"
        )


def of_function(function: Callable[..., Any], name: str, where: str) -> type[Workload]:
    """The workload of a function; its arguments are the parameters.

    An argument has an annotation, or a default that implies its type. One that is annotated with an
    `Input`, as in ``Annotated[np.ndarray, st.workloads.ROUTING]``, gets the trace.

    Raises
    ------
    WorkloadError : an argument has no name or no type.
    """
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as error:
        raise WorkloadError(f"{where}: an annotation cannot be read: {error}") from error
    parameters: list[tuple[str, Any, Any]] = []
    traces: dict[str, Input] = {}
    for one in inspect.signature(function).parameters.values():
        if one.kind not in _NAMED:
            raise WorkloadError(
                f"{where}: expected arguments with names, found {one}; write them out"
            )
        hint = hints.get(one.name)
        inputs = [extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Input)]
        if inputs:
            traces[one.name] = inputs[0]
            continue
        default = one.default
        if hint is None and default is not one.empty and default is not None:
            hint = type(default)
        if hint is None:
            raise WorkloadError(
                f"{where}: argument {one.name} has no type; annotate it, as in {one.name}: int"
            )
        parameters.append((one.name, hint, _field(default)))
    return make_dataclass(
        name,
        parameters,
        bases=(_OfFunction,),
        frozen=True,
        kw_only=True,
        namespace={
            "__doc__": inspect.getdoc(function) or f"Program of {where}.",
            "name": name,
            "inputs": tuple(traces.values()),
            "_function": staticmethod(function),
            "_where": where,
            "_traces": traces,
        },
    )


def _field(default: Any) -> Any:
    """A field with the default of an argument."""
    if default is inspect.Parameter.empty:
        return field()
    if type(default).__hash__ is None:  # which dataclasses refuse, before the field is looked at
        return field(default_factory=lambda: default)
    return field(default=default)


class _OfProgram(Workload):
    """Base of workloads that are one finished program."""

    program: ClassVar[Any]

    def build(self, data: Data) -> Built:
        return Built(self.program)


def of_program(program: Program, name: str) -> type[Workload]:
    """The workload without parameters that is this program."""
    return make_dataclass(
        name,
        [],
        bases=(_OfProgram,),
        frozen=True,
        namespace={"__doc__": f"Program {program.name}.", "name": name, "program": program},
    )


def returns_program(function: Callable[..., Any]) -> bool:
    """Whether the annotation of a function says that it returns a Program or a Built."""
    try:
        returned = get_type_hints(function).get("return")
    except Exception:  # names that do not exist; reported when the function is used
        return False
    return isinstance(returned, type) and issubclass(returned, (stepsim.graph.Program, Built))
