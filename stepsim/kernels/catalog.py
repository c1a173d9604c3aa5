"""Every kind of unit, by its code; the record of a unit and the dispatch follow from it.

A module in ``kernels/units`` that declares a kind is found by itself.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Final

import numpy as np

from stepsim.kernels import units
from stepsim.kernels.build.generated import dispatcher
from stepsim.kernels.declaration import UnitKind, declared
from stepsim.kernels.layout import UNIT_FIELDS, Status

for _module in pkgutil.iter_modules(units.__path__, f"{units.__name__}."):
    import_module(_module.name)

KINDS: Final[tuple[UnitKind, ...]] = tuple(declared()[name] for name in sorted(declared()))
"""Every kind; its place is its code."""

_CODES: Final = {kind.name: code for code, kind in enumerate(KINDS)}


def code_of(kind: UnitKind) -> int:
    """Number of a kind in the records of units."""
    return _CODES[kind.name]


def _places(kinds: Iterable[UnitKind]) -> dict[str, int]:
    """A place for every state word such that the words of one kind lie side by side or apart."""
    together: dict[str, set[str]] = {}
    for kind in kinds:
        for word in kind.words:
            together.setdefault(word, set()).update(kind.words)
    places: dict[str, int] = {}
    for word in sorted(together, key=lambda w: (-len(together[w]), w)):
        taken = {places[other] for other in together[word] if other in places}
        places[word] = next(i for i in range(len(together)) if i not in taken)
    return places


def _unit_record(places: Mapping[str, int]) -> np.dtype[np.void]:
    """The record of a unit; words of different kinds may share a place."""
    common = np.dtype(UNIT_FIELDS, align=True)
    clash = set(places) & set(common.names or ())
    if clash:
        raise ValueError(f"state words named like fields of every unit: {', '.join(sorted(clash))}")
    names = [*(common.names or ()), *places]
    offsets = [common.fields[name][1] for name in common.names or ()] if common.fields else []
    offsets += [common.itemsize + 8 * place for place in places.values()]
    formats = [common[name] for name in common.names or ()] + [np.dtype(np.int64)] * len(places)
    size = common.itemsize + 8 * (1 + max(places.values(), default=-1))
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


UNIT: Final = _unit_record(_places(KINDS))
"""State of one unit: what all units have, then the state words of its kind."""

step = dispatcher(
    "step of a unit", "un, state", "un.kind",
    [(code, kind.name, "chosen(un, state)", kind.step) for code, kind in enumerate(KINDS)],
    otherwise=str(int(Status.FAILED)),
)  # fmt: skip
"""(unit, state) to the Status that the step function of its kind returns."""
