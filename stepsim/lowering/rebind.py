"""Lay out a network once and change only the selectors that come from routing tables, or the
integers of sources.

A routing table decides which flags of its selectors are set, and nothing else in an image: not the
units, channels, tokens or sizes. Every token of a routing has its own selector, so another table
changes only some words of the selector table, always the same ones.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import LoweringError
from stepsim.frozen import frozen
from stepsim.kernels import SOURCE
from stepsim.lowering.builder import build_image
from stepsim.lowering.image import Image
from stepsim.lowering.network import Network


@frozen
class _Group:
    """Selectors shared by several units: first number, how many, number of set flags, width."""

    first: int
    count: int
    chosen: int
    width: int


class ImageTemplate:
    """The image of a network whose units ``bound`` send different selectors in every run.

    Parameters
    ----------
    network : laid out as it is; the selectors of its bound units are placeholders with the same
        number of set flags as those of a run.
    bound : "SelectGen" units by index, each with a key; units with the same key send the same.

    Attributes
    ----------
    places : indices of the parameters that differ from run to run.
    """

    def __init__(self, network: Network, bound: Mapping[int, Hashable]) -> None:
        image = build_image(network)
        tokens = image.tokens.copy()
        groups: dict[Hashable, _Group] = {}
        last = len(image.selector_widths)
        for u, key in bound.items():
            spec = network.units[u].params
            count = len(spec["selectors"])
            if key not in groups:
                groups[key] = _Group(last, count, len(spec["selectors"][0]), int(spec["width"]))
                last += count
            begin = int(image.params[image.units[u]["par"] + SOURCE.place("first")])
            tokens["value"][begin : begin + count] = groups[key].first + np.arange(count)
        self._keys = tuple(groups)
        params, self.places = _with_groups(image, list(groups.values()))
        widths = [width for g in groups.values() for width in [g.width] * g.count]
        self._image = replace(
            image,
            tokens=tokens,
            params=params,
            selector_widths=(*image.selector_widths, *widths),
        )
        self._beginning = None

    def __getstate__(self) -> dict[str, Any]:
        # A hash object that can be continued cannot be pickled; it is computed again when missing.
        return {**self.__dict__, "_beginning": None}

    @property
    def first(self) -> Image:
        """The image with placeholders for the selectors of its bound units."""
        return self._image

    def edited(self, edit: Callable[[Image], Image]) -> ImageTemplate:
        """The template of the image that ``edit`` returns; it must keep units and FIFOs in
        place."""
        made = copy.copy(self)
        made._image, made._beginning = edit(self._image), None
        return made

    def words(self, selectors: Mapping[Hashable, NDArray[np.int64]]) -> NDArray[np.int64]:
        """The words at ``places`` for these indices ``[..., tokens, flags set]`` by key.

        Leading dims carry over to the result; the indices of a token ascend.
        """
        parts = [selectors[key] for key in self._keys]
        flat = [part.reshape(*part.shape[:-2], -1) for part in parts]
        if len(flat) == 1:
            return flat[0]
        return np.concatenate(flat, -1) if flat else np.zeros(0, np.int64)

    def image(self, words: NDArray[np.int64]) -> Image:
        """The image of a run with these words at ``places``."""
        params = self._image.params.copy()
        params[self.places] = words
        made = replace(self._image, params=params)
        if self._beginning is None:
            self._beginning = self._image.begin_digest()
        object.__setattr__(made, "beginning", self._beginning)
        return made


def with_integers(image: Image, values: Mapping[int, NDArray[np.int64]]) -> Image:
    """The image whose "MetadataGen" units, by index, send these integers.

    Raises
    ------
    LoweringError : a unit sends another number of integers.
    """
    tokens = image.tokens.copy()
    for u, new in values.items():
        par = image.units[u]["par"]
        first, count = (int(image.params[par + SOURCE.place(name)]) for name in ("first", "count"))
        if new.size != count:
            raise LoweringError(
                f"metadata '{image.unit_names[u]}': {new.size} integers, expected {count}"
            )
        tokens["value"][first : first + count] = new.ravel()
    return replace(image, tokens=tokens)


def _with_groups(image: Image, groups: list[_Group]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Parameters with room for the selectors of groups; the places of their indices.

    The table has an entry per selector, followed by the count and indices of each.
    """
    known, at = len(image.selector_widths), image.selectors_at
    fixed, entries, lists = np.split(image.params, [at, at + known])
    if not groups:
        return image.params, np.zeros(0, np.int64)
    more = sum(group.count for group in groups)
    end = at + known + more + len(lists)
    all_entries, all_lists, places = [entries + more], [lists], []
    for group in groups:
        table = np.zeros((group.count, 1 + group.chosen), np.int64)
        table[:, 0] = group.chosen
        where = end + np.arange(table.size).reshape(table.shape)
        all_entries.append(where[:, 0])
        all_lists.append(table.ravel())
        places.append(where[:, 1:].ravel())
        end += table.size
    return np.concatenate([fixed, *all_entries, *all_lists]), np.concatenate(places)
