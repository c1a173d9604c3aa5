"""Lay a network out once and change only the selectors that come from routing tables.

A routing table decides which selectors its sources send, and nothing else of an image: not the
units, channels or sizes. Selectors are numbered by first use, so that another table also renumbers
those that merges and filters send, and the selector table behind the parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import LoweringError
from stepsim.kernels.declaration import UnitKind
from stepsim.kernels.layout import Payload
from stepsim.kernels.units.sources import SOURCE
from stepsim.lowering.builder import build_image
from stepsim.lowering.image import Image
from stepsim.lowering.network import Network, UnitSpec
from stepsim.lowering.registry import REGISTRY

__all__ = ["ImageTemplate"]

_Key = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _Site:
    """Places of selector numbers of one unit, in the order in which they were given."""

    unit: int
    in_slots: bool
    places: NDArray[np.int64]
    keys: tuple[_Key, ...]


class ImageTemplate:
    """The image of a network whose units ``bound`` send other selectors in every run.

    Parameters
    ----------
    network : laid out as it is; the selectors of its bound units are placeholders.
    bound : indices of "SelectGen" units.
    """

    def __init__(self, network: Network, bound: Iterable[int]) -> None:
        self._image = build_image(network)
        self._bound = frozenset(bound)
        self._widths = {u: int(network.units[u].params["width"]) for u in self._bound}
        self._sites = [
            site for u, spec in enumerate(network.units) if (site := self._site(u, spec))
        ]
        # The selector table is what comes last among the parameters.
        self._fixed_params = int(self._image.globals["selectors"][0])

    def image(self, selectors: Mapping[int, Sequence[Sequence[int]]]) -> Image:
        """The image with the given selectors (sorted indices, one list per token) of bound units.

        It equals the one that ``build_image`` makes of a network with these selectors.

        Raises
        ------
        LoweringError
            The selectors of a bound unit are missing or are not as many as in the template.
        """
        slots = _copied(self._image.slots)
        params = self._image.params[: self._fixed_params].copy()
        numbers: dict[_Key, int] = {}
        for site in self._sites:
            keys = self._keys(site, selectors)
            found = [numbers.setdefault(key, len(numbers)) for key in keys]
            if site.in_slots:
                slots["value"][site.places] = found
            else:
                params[site.places] = found
        table = _selector_table(self._fixed_params, numbers)
        return replace(
            self._image,
            slots=slots,
            params=np.concatenate([params, table])
            if len(params) + len(table)
            else np.zeros(1, int),
            selectors=tuple(numbers),
        )

    def _keys(
        self, site: _Site, selectors: Mapping[int, Sequence[Sequence[int]]]
    ) -> Iterable[_Key]:
        if site.unit not in self._bound:
            return site.keys
        chosen = selectors.get(site.unit, ())
        if len(chosen) != len(site.places):
            name = self._image.unit_names[site.unit]
            raise LoweringError(
                f"SelectGen '{name}': {len(chosen)} selectors, expected {len(site.places)}; "
                "bind a routing table of the size that was prepared"
            )
        width = self._widths[site.unit]
        return [(width, tuple(row)) for row in chosen]

    def _site(self, u: int, spec: UnitSpec) -> _Site | None:
        image, kind = self._image, REGISTRY[spec.op].kind
        first = int(image.units[u]["par"])
        if kind.selectors:
            entries = int(spec.params.get("width", len(spec.inputs)))
            if "entries" in kind.parameters:
                entries = int(image.params[first + kind.place("entries")])
            places = first + np.array(_offsets(kind, entries), np.int64)
            used = image.params[places]
        elif kind is SOURCE:
            begin = int(image.params[first + kind.place("first")])
            places = np.arange(begin, begin + int(image.params[first + kind.place("count")]))
            places = places[image.slots["kind"][places] == Payload.SELECTOR]
            used = image.slots["value"][places]
        else:
            return None
        keys = tuple(image.selectors[int(number)] for number in used)
        return _Site(u, kind is SOURCE, places, keys) if len(places) else None


def _offsets(kind: UnitKind, entries: int) -> list[int]:
    """Where a unit keeps numbers of selectors among its parameters; a list has some entries.

    They are as many as its parameter ``entries`` says; without it one for each flag of the
    selectors of a unit that says how wide these are, else one for each input.
    """
    return [
        kind.place(name) + i
        for name in kind.selectors
        for i in range(entries if f"*{name}" in kind.parameters else 1)
    ]


def _selector_table(at: int, numbers: Mapping[_Key, int]) -> NDArray[np.int64]:
    """Entry per selector, then count and indices of each; ``at`` is the place of the table."""
    lists: list[int] = []
    entries: list[int] = []
    for _, chosen in numbers:
        entries.append(at + len(numbers) + len(lists))
        lists.extend((len(chosen), *chosen))
    return np.array(entries + lists, np.int64)


def _copied(records: NDArray[np.void]) -> NDArray[np.void]:
    """A copy down to the padding between fields, which the digest of an image covers."""
    return np.frombuffer(bytearray(records.tobytes()), records.dtype)
