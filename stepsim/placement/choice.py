"""Placements as command lines and sweeps give them: a file, or a word for how to make one."""

from __future__ import annotations

from typing import Any, Final

from stepsim.errors import ArgError
from stepsim.frozen import frozen
from stepsim.noc import PER_TILE, Placement, PlacementFile
from stepsim.placement.finding import checked_effort, checked_seed, placed
from stepsim.simulation import AUTO_PLACE, ROW_MAJOR, Case, carrying_network
from stepsim.workloads import Data

_OPTIONS: Final = {
    ROW_MAJOR: ("per_tile",),
    AUTO_PLACE: ("per_tile", "seed", "effort"),
}
"""What may follow a word, as in ``auto,seed=3``."""

_EXPECTED: Final = (
    "expected FILE.yaml, row-major or auto, the latter two with options, as in "
    "auto,per_tile=2,seed=3,effort=0.5"
)


@frozen
class PlaceChoice:
    """How the operators of a program get their places.

    Attributes
    ----------
    text : as given.
    file : the placement in a file, read once; None with a word.
    options : of the word.
    """

    text: str
    file: PlacementFile | None
    options: dict[str, Any]

    @property
    def content(self) -> Any:
        """What the choice depends on, as JSON: that of a file in place of its name."""
        return self.text if self.file is None else self.file.data

    @property
    def is_searched(self) -> bool:
        """Whether a search finds the places, for the data of every run."""
        return self.file is None and self.text.partition(",")[0] == AUTO_PLACE

    def of(self, case: Case, data: Data, **regions: Any) -> Case:
        """The case with its operators placed; ``auto`` searches for these data, with operators in
        the ``regions`` that `placed` takes.

        Raises
        ------
        ArgError : the machine has no network, the placement is of another program or network, the
            program is larger than the machine, or it does not end.
        """
        known = self.without_search(case)
        if known is not None:
            return case.placed(known)
        found = placed(case.prepared, case.bound(data), **self.options, **regions)
        return case.placed(found.placement)

    def without_search(self, case: Case) -> Placement | None:
        """The placement of a case, None if it is to be searched for; raises what `of` raises."""
        case.require_one_program("a placement")
        program = case.built.program
        network = carrying_network(program, case.prepared.machine)
        if self.file is not None:
            return self.file.placed(program, network)
        by_rows = Placement.row_major(program, network, self.options.get("per_tile", 1))
        return None if self.is_searched else by_rows


def read_choice(text: str) -> PlaceChoice:
    """A placement as given: ``FILE.yaml``, ``row-major`` or ``auto``, with options.

    Raises
    ------
    ArgError : it is none of these, an option is unknown or out of range, or the file cannot be
        read.
    """
    text = text.strip()
    word, *parts = (part.strip() for part in text.split(","))
    if word not in _OPTIONS:
        if text.lower().endswith((".yaml", ".yml")):
            return PlaceChoice(text, PlacementFile.read(text), {})
        raise ArgError(f"{_EXPECTED}; found '{text}'")
    options: dict[str, Any] = {}
    for part in parts:
        name, _, value = part.partition("=")
        if name not in _OPTIONS[word] or name in options:
            raise ArgError(f"'{word}' takes {', '.join(_OPTIONS[word])}, each once; found '{part}'")
        options[name] = _checked(name, value)
    return PlaceChoice(",".join((word, *parts)), None, options)


def _checked(name: str, value: str) -> Any:
    try:
        number = float(value) if name == "effort" else int(value)
    except ValueError:
        raise ArgError(f"{name}: expected a number, found '{value}'") from None
    if name == "per_tile":
        return PER_TILE.checked(name, number)
    return checked_seed(name, number) if name == "seed" else checked_effort(name, number)
