"""Rules of stream functions that return numbers: counters, and addresses of a view."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from stepsim.arguments import shown
from stepsim.errors import ArgError
from stepsim.graph.operator import Output, Site
from stepsim.graph.sizes.dims import Dim
from stepsim.graph.sizes.limits import BASE, COUNT, MAX_PIECES, MAX_VALUE, RESERVED, STEPS
from stepsim.graph.types import U64_TILE, IndexSelector, MultiHot, Tile

if TYPE_CHECKING:
    from stepsim.graph.stream import Stream

_Rule = Callable[[Site, "Sequence[Stream]", dict[str, Any]], Output]
_Checks = dict[str, tuple[str, Callable[[str, object], Any]]]


def _count_up(site: Site, xs: Sequence[Stream], params: dict[str, Any]) -> Output:
    (x,) = xs
    site.require_type(
        isinstance(x.type, Tile) and x.type.is_address, "in1", x, "1x1 tiles of u32 or u64"
    )
    return Output((*x.shape, site.owner.length_of(x)), x.type)


def _view_addresses(site: Site, xs: Sequence[Stream], params: dict[str, Any]) -> Output:
    (x,) = xs
    shape, stride, slab = params["shape"], params["stride"], params["slab"]
    kind = x.type
    one_hot = isinstance(kind, MultiHot) and kind.hot == 1
    one_hot = one_hot or (isinstance(kind, IndexSelector) and kind.active == 1)
    site.require_type(
        one_hot or (isinstance(kind, Tile) and kind.is_address),
        "in1", x, "one-hot selectors, or 1x1 tiles of u32 or u64",
    )  # fmt: skip
    site.require(
        len(shape) == len(stride) >= 1,
        ArgError,
        f"view_addresses: shape {list(shape)} and stride {list(stride)} differ in length",
        "give one step for each dim",
    )
    tiles = math.prod(shape)
    last = sum(s * (q - 1) for s, q in zip(stride, shape, strict=True))
    site.require(
        tiles <= MAX_PIECES and last <= COUNT.high,
        ArgError,
        f"view_addresses: a view of {shown(tiles)} tiles that ends at tile {shown(last)}; 2**40 "
        "tiles and tile 2**50 are the most",
        "shorten shape or stride",
    )
    if isinstance(kind, MultiHot | IndexSelector):
        end = params["base"] + kind.width * slab
        site.require(
            end <= MAX_VALUE,
            ArgError,
            f"view_addresses: the slabs of {kind.width} indices end at {end}, beyond 2**63 - 1",
            "choose smaller slabs or a smaller base",
        )
    return Output((*x.shape, *(Dim(q) for q in shape)), U64_TILE)


NUMBER_UNITS: Final[dict[str, tuple[_Rule, _Checks]]] = {
    "FlatmapCounter": (_count_up, {}),
    "DynAddrGen": (
        _view_addresses,
        {
            "shape": ("shape", COUNT.list),
            "stride": ("stride", STEPS.list),
            "slab": ("slab", RESERVED.checked),
            "base": ("base", BASE.checked),
        },
    ),
}
"""Rule and parameters (label and check) of each unit, which all take one stream."""
