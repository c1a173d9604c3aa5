"""A row of the table of operators: how an operator of the format is read and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepsim.graph.graph_file.building import Building
    from stepsim.graph.graph_file.writer import Writing
    from stepsim.graph.stream import Stream

Read = Callable[["Building", Any, Sequence["Stream"]], Sequence["Stream"]]
Write = Callable[["Writing", Any], None]


@dataclass(frozen=True, slots=True)
class Row:
    """An operator of the format.

    Attributes
    ----------
    units : kinds of units that are written as this operator.
    read : message and input streams to the output streams, built with the operators of the
        language.
    write : fills the message of a unit; inputs and types are filled from the table of fields.
    """

    units: tuple[str, ...]
    read: Read
    write: Write


def written(**parameters: str) -> Write:
    """How a message is filled whose fields are parameters of the unit, with the names of these."""

    def write(w: Writing, m: Any) -> None:
        for field, name in parameters.items():
            value = w.params[name]
            if isinstance(value, list):
                getattr(m, field).extend(value)
            else:
                setattr(m, field, value)

    return write
