"""The option ``--place``: where the operators of a program are on the network of its machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

import stepsim.placement
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.placement import PlaceChoice

TakenPlace = Annotated[
    str | None,
    typer.Option(
        "--place",
        metavar="FILE.yaml|row-major|auto",
        help="Put operators on the network of the machine: as a file of `stepsim place` says, row "
        "by row, or as a search finds. Options may follow the word: per_tile, and for auto seed "
        "and effort as well, as in auto,seed=3.",
    ),
]


def read_place(place: str | None) -> PlaceChoice | None:
    """The choice of a placement as given.

    Raises
    ------
    ArgError : it is not a placement, or its file cannot be read.
    """
    if place is None:
        return None
    try:
        return stepsim.placement.read_choice(place)
    except ArgError as error:
        raise ArgError(f"--place: {error}") from error


def place_column(place: PlaceChoice | None) -> dict[str, Any]:
    """The column of the placement, if one is given."""
    return {} if place is None else {"place": place.text}
