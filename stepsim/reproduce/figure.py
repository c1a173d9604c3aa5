"""Definition of a figure: its points, how it is drawn, and the headlines that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from stepsim.report import style
from stepsim.reproduce.headline import Headline
from stepsim.reproduce.points import Point
from stepsim.reproduce.published import Published

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Row = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]


class Ratio(NamedTuple):
    """The normalized value of points: cycles of one series over those of another.

    The compared points differ in their series and agree in ``same``, which are fields of their
    runs or parameters.

    Attributes
    ----------
    over : series of the numerator.
    of : series of the denominator; None for the point's own series.
    meaning : in words, for the table.
    """

    over: str
    of: str | None
    meaning: str
    same: tuple[str, ...] = ("model", "batch", "routing", "lengths")


def _nothing(*_: Any) -> list[Any]:
    return []


@dataclass(frozen=True)
class Figure:
    """A figure, as one module of this package or a file of the user declares it.

    Attributes
    ----------
    number : number in the paper, or any word; its files and commands are named after it.
    points : its points, in the order of its table. Published values are found for them by the
        settings of their runs, in rows of the shipped table that name the figure.
    draw : makes a picture from the rows of its table.
    headlines : numbers that are recomputed from its points, each found in the shipped table by
        figure and claim.
    ratio : normalization of figures that show normalized values.
    columns : columns that a terminal shows in addition to cycles and ratios.
    beside : additional columns of a point from the published data, as pairs of name and value.
    summary : rows below those of the points, made from them and the published data.
    remarks : sentences about the rows, for reports.
    """

    number: str
    points: Callable[[], Iterable[Point]]
    draw: Callable[[Rows], Picture]
    headlines: tuple[Headline, ...] = ()
    ratio: Ratio | None = None
    columns: tuple[str, ...] = ("offchip_bytes", "onchip_bytes")
    beside: Callable[[Point, Published], Iterable[tuple[str, int]]] = _nothing
    summary: Callable[[Rows, Published | None], list[Row]] = _nothing
    remarks: Callable[[Rows], list[str]] = _nothing

    @property
    def stem(self) -> str:
        """Name of its files, without suffix."""
        return f"fig{self.number.zfill(2)}"


def countings(rows: Rows) -> str:
    """How bytes and FLOPs of the rows are counted."""
    return ", ".join(dict.fromkeys(row["counting"] for row in rows if row.get("counting")))


def values(rows: Iterable[Mapping[str, Any]], column: str, scale: float = 1) -> list[float]:
    """A column divided by a scale; nan where it is null or absent."""
    found = (row.get(column) for row in rows)
    return [float("nan") if value is None else value / scale for value in found]


def legend(
    picture: Picture, entries: Sequence[Any], rows: Rows, column: str = "published_cycles"
) -> None:
    """A legend below all panels, with the mark of published points if a row has a value of one."""
    compared = any(row.get(column) is not None for row in rows)
    style.legend(picture, [*entries, style.published_mark()], compared=compared)
