"""The error hierarchy. Every message says where, what was expected and found, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stepsim.deferred import deferred

if TYPE_CHECKING:
    import difflib
else:
    difflib = deferred("difflib")

__all__ = [
    "ArgError",
    "AssumptionError",
    "BaselineError",
    "CompileError",
    "DTypeError",
    "DataError",
    "DimError",
    "EvaluationError",
    "GraphError",
    "GraphFileError",
    "ITensorError",
    "KindError",
    "LoweringError",
    "MachineError",
    "OutputError",
    "RankError",
    "ReportError",
    "ServingError",
    "StepError",
    "StepSimError",
    "SweepError",
    "TraceError",
    "UserCodeError",
    "WorkerError",
    "WorkloadError",
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


class GraphFileError(StepSimError, ValueError):
    """A graph file cannot be read, or a program cannot be written as one."""


class ITensorError(StepSimError, ValueError):
    """The type of a stream of tiles breaks a rule, or two of them cannot be joined."""


class CompileError(StepSimError, ValueError):
    """A model cannot be compiled: an operator, a shape, or a budget that nothing fits."""


class LoweringError(StepSimError, ValueError):
    """A well-formed program cannot be laid out for the engine (sizes, operators without a unit)."""


class EvaluationError(StepSimError, ValueError):
    """A program cannot be evaluated on values: a tensor is missing, or an operator is blocked."""


class AssumptionError(StepSimError, ValueError):
    """An equality that the user assumed does not hold in a run."""


class MachineError(StepSimError, ValueError):
    """A machine description is invalid."""


class TraceError(StepSimError, ValueError):
    """A trace file or table is unreadable or holds an invalid value."""


class BaselineError(StepSimError, ValueError):
    """A file of baselines, which `pytest --update-cycles` writes, cannot be read."""


class DataError(StepSimError, OSError):
    """A public data set cannot be fetched."""


class OutputError(StepSimError, OSError):
    """A result cannot be written."""


class ReportError(StepSimError, ValueError):
    """The input of a report is missing or was not written by a run."""


class ServingError(StepSimError, ValueError):
    """A service cannot be set up, cannot go on, or does not fit the folder of its results."""


class SweepError(StepSimError, ValueError):
    """A sweep specification is invalid, or a sweep folder does not fit it."""


class WorkerError(StepSimError, RuntimeError):
    """The workers of a sweep cannot be started, or were lost: processes, a scheduler, a cluster."""


class WorkloadError(StepSimError, ValueError):
    """A workload does not exist, or that of a file or plugin cannot be used."""


class UserCodeError(StepSimError, RuntimeError):
    """The code of a user's workload raised an exception; the message has its traceback."""


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """End of a sentence: ``"; did you mean 'x'?"`` for the nearest choice, otherwise ``"."``, as
    for what is no text."""
    if not isinstance(word, str):
        return "."
    known = list(choices)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if not near:
        # 'channels' alone is what people write for 'hbm.channels'.
        last = {choice.rsplit(".", 1)[-1]: choice for choice in known}
        near = [last[name] for name in difflib.get_close_matches(word, last, n=1, cutoff=0.75)]
    return f"; did you mean '{near[0]}'?" if near else "."
