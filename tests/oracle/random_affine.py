"""Growth rules of affine buffer reads, counters and address generators."""

from __future__ import annotations

from typing import Any

from tests.oracle.random_grower import Grower
from tests.oracle.random_streams import Wire

__all__ = ["affine_walk", "dyn_addr_gen", "dyn_counter", "flatmap_counter", "static_streamify"]


def affine_walk(g: Grower, w: Wire) -> dict[str, Any]:
    """A walk inside every buffer of the wire, or no walk."""
    held = min((len(payload["tiles"]) for payload in w.payloads), default=1)
    shape = [g.integer(1, 3) for _ in range(g.integer(0, 2))]
    stride, room = [], held - 1
    for extent in shape:
        step = g.integer(0, room // (extent - 1)) if extent > 1 else g.integer(0, 5)
        room -= step * (extent - 1)
        stride.append(step)
    return {"rank": w.rank, "shape": shape, "stride": stride}


def static_streamify(g: Grower, w: Wire) -> bool:
    params = {**affine_walk(g, w), "repeat": g.pick([[], [2], [2, 2], [1, 3]])}
    return bool(g.add("StaticStreamify", params, [w], ["float"]))


def flatmap_counter(g: Grower, w: Wire) -> bool:
    return w.exact and bool(g.add("FlatmapCounter", {}, [w], ["int"]))


def dyn_counter(g: Grower, w: Wire) -> bool:
    params = {"n": g.integer(1, 3)}
    return bool(g.add("DynCounter", params, [w], ["int"], payload_exact=w.levels_exact))


def dyn_addr_gen(g: Grower, w: Wire) -> bool:
    """Views inside slabs; a wire of selectors fits only if all are one-hot."""
    shape = [g.integer(1, 3) for _ in range(g.integer(1, 2))]
    params = {
        "shape": shape,
        "stride": [g.integer(0, 5) for _ in shape],
        "slab": g.integer(1, 6),
        "base": g.pick([0, 7]),
    }
    exact = w.levels_exact and (w.kind == "int" or w.multiset_exact or w.exact)
    return bool(g.add("DynAddrGen", params, [w], ["int"], levels_exact=exact))
