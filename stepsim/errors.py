"""The error hierarchy. Every message says where, what was expected and found, how to mend it."""

from __future__ import annotations

__all__ = [
    "ArgError",
    "AssumptionError",
    "DTypeError",
    "DimError",
    "EvaluationError",
    "GraphError",
    "KindError",
    "LoweringError",
    "MachineError",
    "OutputError",
    "RankError",
    "StepError",
    "StepSimError",
    "SweepError",
    "TraceError",
]


class StepSimError(Exception):
    """Base of every error that stepsim raises on purpose."""


class StepError(StepSimError, ValueError):
    """A program is not well formed."""


class RankError(StepError):
    """A stream has the wrong number of dims for an operator."""


class DimError(StepError):
    """Two dims that must be equal differ, or are not known to be equal."""


class KindError(StepError):
    """A dim is dynamic or ragged where the operator needs a stricter kind."""


class DTypeError(StepError):
    """An element type does not fit the operator or function."""


class ArgError(StepError):
    """An argument value is out of range or does not divide."""


class GraphError(StepError):
    """The wiring of a program is wrong: dangling, mixed or unconnected streams."""


class LoweringError(StepSimError, ValueError):
    """A well-formed program cannot be laid out for the engine (sizes, operators without a unit)."""


class EvaluationError(StepSimError, ValueError):
    """A program cannot be evaluated on values: a tensor is missing, or an operator got stuck."""


class AssumptionError(StepSimError, ValueError):
    """An equality that the user assumed does not hold in a run."""


class MachineError(StepSimError, ValueError):
    """A machine description is invalid."""


class TraceError(StepSimError, ValueError):
    """A trace file or table is unreadable or holds an invalid value."""


class OutputError(StepSimError, OSError):
    """A result cannot be written."""


class SweepError(StepSimError, ValueError):
    """A sweep specification is invalid, or a sweep folder does not fit it."""
