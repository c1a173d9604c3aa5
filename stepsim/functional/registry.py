"""One evaluator for every operator class of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepsim.errors import EvaluationError
from stepsim.functional.network import Node, Steps
from stepsim.graph import Operator

Evaluator = Callable[[Any, Node], Steps]
"""Coroutine of an operator and its node; returns when the operator ends."""

_EVALUATORS: dict[type[Operator], Evaluator] = {}


def evaluates(kind: type[Operator]) -> Callable[[Evaluator], Evaluator]:
    """Register the evaluator of an operator class."""

    def register(function: Evaluator) -> Evaluator:
        _EVALUATORS[kind] = function
        return function

    return register


def evaluator_of(operator: Operator) -> Evaluator:
    """The evaluator of an operator, by its class or the nearest base class that has one."""
    for kind in type(operator).__mro__:
        if kind in _EVALUATORS:
            return _EVALUATORS[kind]
    raise EvaluationError(
        f"{operator.title()} has no evaluator. Register one with "
        f"stepsim.functional.evaluates({type(operator).__name__}) ({operator.source})"
    )
