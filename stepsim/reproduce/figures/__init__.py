"""The figures of the STeP paper, sections 4.5, 5 and B: a module for each family.

A new figure is a module, here or elsewhere, and an entry in the list below.
"""

from __future__ import annotations

from typing import Final

from stepsim.errors import ArgError
from stepsim.reproduce.figure import Figure
from stepsim.reproduce.figures import attention, decoder, hardware, regions, text, tilings
from stepsim.reproduce.headline import Headline
from stepsim.reproduce.points import Point

__all__ = ["FIGURES", "headlines", "points_of"]

FIGURES: Final[dict[str, Figure]] = {
    figure.number: figure
    for figure in (
        hardware.HARDWARE,
        tilings.SMALL_BATCH,
        tilings.LARGE_BATCH,
        regions.TIME,
        regions.RESOURCES,
        attention.GAINS,
        attention.BATCHES,
        decoder.LAYERS,
        tilings.SMALL_BATCH_TRAFFIC,
        tilings.LARGE_BATCH_TRAFFIC,
        attention.MEANS,
    )
}
"""All figures by number, in the order of the paper."""


def points_of(figure: str) -> list[Point]:
    """All points of a figure, in the order of its table.

    Raises
    ------
    ArgError : there is no such figure.
    """
    if figure not in FIGURES:
        raise ArgError(
            f"unknown figure {figure!r}; expected one of {', '.join(FIGURES)}, 'all', or a page "
            "alone: validation, streamtensor-validation, serving-validation"
        )
    return list(FIGURES[figure].points())


def headlines() -> list[Headline]:
    """The headlines of all figures, in their order, then those of the paper's text."""
    return [h for figure in FIGURES.values() for h in figure.headlines] + [*text.HEADLINES]
