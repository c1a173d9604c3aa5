"""Growth rules for the operators that the public simulator has had since 2026."""

from __future__ import annotations

from typing import Any

from tests.oracle.payloads import integer, selector
from tests.oracle.random_grower import Grower
from tests.oracle.random_ops import Rule, broadcast, flat_map, keep, parallelize
from tests.oracle.random_streams import Wire, chunks, shape_of

__all__ = ["RULES_2026"]


def _switch(g: Grower, n: int) -> list[int]:
    return [g.pick([1, 0, 3]) for _ in range(n)]


def static_reassemble(g: Grower, w: Wire) -> bool:
    """The wire and open wires or new sources in turn, some of them with chunks to spare."""
    rank = w.top
    if not w.exact or chunks(w.content, rank) is None:
        return False
    ins = [w]
    for _ in range(g.integer(0, 2)):
        others = [v for v in g.open if v.is_like(w) and v.exact and v.top <= rank]
        other = g.choose([v for v in others if all(v is not used for used in ins)])
        if other is not None and g.flag():
            ins.append(other)
        elif w.kind == "float":
            count = len(chunks(w.content, rank) or []) - g.integer(0, 1)
            ins.append(g.fresh("float", ([0] * (rank > 0) + [rank]) * max(count, 0)))
    params = {"rank": rank, "switch": _switch(g, len(ins))}
    return keep(w, g.add("StaticReassemble", params, ins, [w.kind]))


def deal_and_collect(g: Grower, w: Wire) -> bool:
    """Parallelize, work on the lanes, StaticReassemble."""
    if not w.exact:
        return False
    n, rank = g.integer(1, 3), w.top
    lanes = g.add("Parallelize", {"rank": rank, "switch": _switch(g, n)}, [w], [w.kind] * n)
    if lanes is None:
        return False
    ends = []
    for lane in lanes:
        worked = None
        if w.kind == "float" and g.flag():
            params = {"fn": "Silu", "bw": g.pick([1024, 64, 16]), "wb": g.flag()}
            worked = g.add("UnaryMap", params, [lane], ["float"])
        ends.append(worked[0] if worked else lane)
    params = {"rank": rank, "switch": _switch(g, n)}
    keep(w, g.add("StaticReassemble", params, ends, [w.kind]))
    return True


def deinterleave(g: Grower, w: Wire) -> bool:
    n = g.integer(2, 3)
    lanes = w.exact and g.add("ContextDeinterleave", {}, [w], [w.kind] * n)
    if not lanes:
        return False
    keep(w, lanes)
    if g.flag():
        keep(w, g.add("ContextInterleave", {}, lanes, [w.kind]))
    return True


def interleave(g: Grower, w: Wire) -> bool:
    if not w.levels_exact:
        return False
    others = [v for v in g.open if v is not w and v.is_like(w) and v.levels == w.levels]
    other = g.choose([v for v in others if v.levels_exact])
    if other is None and w.kind == "float":
        other = g.fresh("float", w.levels)
    if other is None:
        return False
    lanes = [w, other] if g.flag() else [other, w]
    return keep(w, g.add("ContextInterleave", {}, lanes, [w.kind]))


def promote_outer(g: Grower, w: Wire) -> bool:
    return keep(w, g.add("PromoteOuter", {}, [w], [w.kind]))


def take_last(g: Grower, w: Wire) -> bool:
    return keep(w, g.add("TakeLast", {}, [w], [w.kind]))


def repeat_ref(g: Grower, w: Wire) -> bool:
    """The wire, and a new reference that is deeper."""
    if not w.levels_exact:
        return False
    r, e = g.integer(0, 2), g.integer(1, 2)
    levels: list[int] = []
    for level in w.levels:
        ends = [g.integer(0, e - 1) for _ in range(g.integer(0, 2))] + [level + e]
        for stop in ends:
            levels += [g.integer(0, r - 1) for _ in range(g.integer(0, 1 if r else 0))]
            levels.append(stop + r)
    ref = g.fresh("float", levels)
    return keep(w, g.add("RepeatRef", {"rank": r, "e": e}, [w, ref], [w.kind]))


def expand_whole(g: Grower, w: Wire) -> bool:
    """One element of any level for all of the wire, which may be empty."""
    if not w.levels_exact:
        return False
    data = g.fresh("float", [g.integer(0, 2)])
    params = {"e": data.top + 1, "whole": True}
    return bool(g.add("ExpandRef", params, [data, w], ["float"]))


def filter_rows(g: Grower, w: Wire) -> bool:
    if g.integer(0, 2) == 0:
        exact = w.levels_exact and w.payload_exact
        added = g.add("FlatmapFilterRowStreamify", {}, [w], ["float"], levels_exact=exact)
        return bool(added)
    if not w.exact:
        return False
    masks = []
    for level, payload in w.content:
        rows = payload["tile"][0]
        kept = [i for i in range(min(rows, 20)) if g.flag()]
        masks.append(selector(kept if kept or level == 0 else [0], rows))
    flags = g.given("selector", w.levels, masks)
    return bool(g.add("FlatmapFilterRowStreamify", {}, [w, flags], ["float"]))


def masked_reshape(g: Grower, w: Wire) -> bool:
    """Padded chunks with their mask, by which the pads may be dropped again."""
    shape = shape_of(w)
    if not w.exact or shape is None:
        return False
    s = g.pick([0, 0, 0, 1])
    params: dict[str, Any] = {"s": s, "q": g.pick([2, 3, 1, 4]), "bpe": g.bpe, "wb": g.flag()}
    params |= {"ri": w.top, "outer": s == 0 and w.top == 0 and g.flag()}
    if w.kind == "float":
        params["pad"] = list(shape)
    outs = g.add("ReshapePadStream", params, [w], [w.kind, "mask"])
    if outs is None:
        return False
    keep(w, outs[:1])
    if w.kind == "float" and g.flag():
        chunked, mask = outs
        flat = {"lo": 0, "hi": 1}
        if g.flag():
            chunked, mask = (
                (g.add("Flatten", flat, [v], [v.kind]) or [v])[0] for v in (chunked, mask)
            )
        g.add("FlatmapFilterRowStreamify", {}, [chunked, mask], ["float"])
    return True


def shuffle(g: Grower, w: Wire) -> bool:
    r = g.integer(1, max(1, w.top))
    parts = chunks(w.content, r - 1) if w.exact else None
    if not parts:
        return False
    width = g.integer(1, 3)
    chosen = []
    for _ in parts:
        picked = [i for i in range(width) if g.flag()]
        chosen.append(selector(picked or [0] * g.integer(0, 1), width, int(g.flag())))
    levels = [part[-1][0] - (r - 1) for part in parts]
    control = g.given("selector", levels, chosen)
    params = {"rank": r, "width": width, "wb": g.flag()}
    return bool(g.add("Shuffle", params, [w, control], ["float", "selector"]))


def pieces_by_length(g: Grower, w: Wire) -> bool:
    if not w.exact:
        return flat_map(g, w)
    counts = [integer(g.integer(1, 3)) for _ in w.levels]
    dims: list[Any] = [g.pick([1, 2])] * g.integer(0, 1)
    dims.insert(g.integer(0, len(dims)), "length")
    params = {"dims": dims, "tile": [1, g.pick(["cols", 1, 8])], "cycles": g.integer(0, 3)}
    lengths = g.given("int", w.levels, counts)
    return bool(g.add("FlatMap", params, [w, lengths], ["float"]))


_MOVES: list[Rule] = [static_reassemble, deal_and_collect, deinterleave, interleave]

RULES_2026: dict[str, list[Rule]] = {
    "float": [
        *_MOVES, promote_outer, take_last, repeat_ref, expand_whole, filter_rows, masked_reshape,
        shuffle, pieces_by_length,
    ],
    "int": [static_reassemble, deinterleave, take_last, repeat_ref],
    "selector": [static_reassemble, deal_and_collect, interleave, promote_outer, repeat_ref],
    "buffer": [deal_and_collect, deinterleave, take_last, repeat_ref, promote_outer],
    "tuple": [deal_and_collect, deinterleave, interleave, take_last, repeat_ref, promote_outer],
    "mask": [broadcast, parallelize, take_last],
}  # fmt: skip
