"""The figures as pictures: ours filled, published open."""

from __future__ import annotations

from functools import partial

from stepsim.report.saving import render
from stepsim.report.style import OPEN
from stepsim.reproduce.figure import Rows
from stepsim.reproduce.figures import FIGURES

__all__ = ["draw"]


def draw(task: tuple[str, Rows]) -> dict[str, bytes]:
    """Draw a figure from the rows of its table: the contents of its ``png`` and ``svg`` files.

    The same rows give the same bytes.
    """
    figure, rows = task
    return render(partial(FIGURES[figure].draw, rows), ("png", "svg"), OPEN)
