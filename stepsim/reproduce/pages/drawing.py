"""The figures as pictures: our values are filled marks, published ones open marks."""

from __future__ import annotations

from functools import partial

from stepsim.collection import without_collection
from stepsim.report import OPEN, render
from stepsim.reproduce.choice import Chosen
from stepsim.reproduce.figure import Rows, countings


def draw(task: tuple[Chosen, Rows]) -> dict[str, bytes]:
    """Draw a figure from the rows of its table: the contents of its ``png`` and ``svg`` files.

    A line below it states how bytes and FLOPs are counted. The same rows give identical files.
    """
    chosen, rows = task
    with chosen.user_code("draw"), without_collection():
        return render(
            partial(chosen.figure.draw, rows), ("png", "svg"), OPEN,
            foot=f"counting: {countings(rows)}",
        )  # fmt: skip
