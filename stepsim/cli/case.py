"""A workload that is built and ready to be run or inspected, whatever its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepsim.graph import Program
    from stepsim.report.summary import ProgramNumbers

__all__ = ["Case"]


@dataclass(frozen=True, slots=True)
class Case:
    """What the commands need of a workload.

    Attributes
    ----------
    workload : name of the command.
    title, settings : heading and settings in words.
    parameters : everything that decides the program, for JSON.
    inputs : what it was fed with, for JSON, by name of the option; None where nothing was given.
    numbers : bytes and FLOPs for these inputs; None while an input is missing.
    bindings : values of the sizes that the graph leaves open.
    on_demand : operators that get no data count no memory.
    remarks : what the user may not expect.
    """

    workload: str
    program: Program
    title: str
    settings: str
    parameters: dict[str, Any]
    inputs: dict[str, Any]
    numbers: ProgramNumbers | None
    bindings: Mapping[Any, Any] = field(default_factory=dict)
    on_demand: bool = False
    remarks: tuple[str, ...] = ()
