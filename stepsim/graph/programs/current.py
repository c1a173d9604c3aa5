"""The program under construction: the one whose ``with`` block is running."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepsim.graph.programs.program import Program

CURRENT_PROGRAM: ContextVar[Program | None] = ContextVar("stepsim_program", default=None)


def current_program() -> Program | None:
    """The program whose ``with`` block is running, if any."""
    return CURRENT_PROGRAM.get()
