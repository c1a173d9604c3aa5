"""The inputs of a run that its result keeps, to answer questions by more runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepsim.frozen import frozen
from stepsim.graph import Bindings

if TYPE_CHECKING:
    from stepsim.simulation.programs.prepared import Prepared


@frozen
class Rerun:
    """A prepared program and the checked indices of a run.

    It stays in the process: pickled with a result it becomes None, since an image has megabytes.
    """

    prepared: Prepared
    bindings: Bindings

    def __reduce__(self) -> tuple[object, ...]:
        return _nothing, ()


def _nothing() -> None:
    """Its value in another process: None."""
