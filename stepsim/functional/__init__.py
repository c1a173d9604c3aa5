"""What a program computes: evaluation with numpy on real tensors."""

from __future__ import annotations

from stepsim.functional.decisions import Decisions, needs_decisions
from stepsim.functional.evaluate import FunctionalResult, evaluate
from stepsim.functional.registry import evaluates
from stepsim.functional.symbols import Symbols, broken_assumption
from stepsim.functional.values import BufferValue, Selection, TileValue, Token

__all__ = [
    "BufferValue",
    "Decisions",
    "FunctionalResult",
    "Selection",
    "Symbols",
    "TileValue",
    "Token",
    "broken_assumption",
    "evaluate",
    "evaluates",
    "needs_decisions",
]
