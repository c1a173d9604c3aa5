"""One growth rule per operator: how to apply it, with random parameters, to an open wire.

Each rule takes the network under construction and a wire and returns True if it added something.
A rule that finds no fitting parameters adds nothing. Rules for wires whose order is not certain are
limited to what works in every order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.oracle.payloads import integer, selector, tile
from tests.oracle.random_affine import (
    affine_walk,
    dyn_addr_gen,
    dyn_counter,
    flatmap_counter,
    static_streamify,
)
from tests.oracle.random_grower import Grower
from tests.oracle.random_streams import BANDWIDTHS, Wire, chunks, shape_of

__all__ = [
    "RULES",
    "Rule",
    "broadcast",
    "bufferize",
    "keep",
    "nest",
    "parallelize",
    "partition",
    "reassemble",
    "zip_",
]

Rule = Callable[[Grower, Wire], bool]


_CONSTANT = ("SetOffset", "RowWiseAppend", "CacheWriteAddrGen", "SignalReqAllRead")


def _map_params(g: Grower, fn: Any) -> dict[str, Any]:
    name = fn if isinstance(fn, str) else fn[0]
    rates = [0, *BANDWIDTHS] if name in _CONSTANT else BANDWIDTHS
    return {"fn": fn, "bw": g.pick(rates), "wb": g.flag()}


def unary_map(g: Grower, w: Wire) -> bool:
    if w.kind == "tuple" and not w.fn:
        return False
    fn = g.pick(["Silu", "Exp", "RowWiseSum"]) if w.kind == "float" else w.fn
    params = _map_params(g, fn)
    return bool(g.add("UnaryMap", params, [w], ["float"]))


def _mate(g: Grower, w: Wire) -> tuple[list[Any], list[Wire]] | None:
    """A two-operand function and its operands, one of which is the wire."""
    if not (w.levels_exact and (w.payload_exact or shape_of(w))):
        return None
    fn = g.pick(["Mul", "Matmul", "Div", "Add", "DynMatmul", "SetOffset", "RowWiseAppend"])
    shapes = [payload["tile"][:2] for payload in w.payloads]
    if fn in ("Matmul", "DynMatmul"):
        transposed, n, swap = g.flag(), g.pick([1, 8, 16]), g.flag()
        if swap:
            other = [(n, c if transposed else r) for r, c in shapes]
        else:
            other = [(n, c) if transposed else (c, n) for _, c in shapes]
        mate = g.fresh("float", w.levels, shapes=other)
        return [fn, transposed], [mate, w] if swap else [w, mate]
    if fn == "SetOffset":
        valid = min((rows for rows, _ in shapes), default=0)
        return [fn], [w, g.fresh("int", w.levels, low=0, high=valid)]
    if fn == "RowWiseAppend":
        room, rd, off = g.integer(1, 3), int(g.flag()), g.integer(0, 1)
        caches = [tile(r + room, c, g.bpe, rd, off) for r, c in shapes]
        return [fn], [g.given("float", w.levels, caches), w]
    keep_rows, keep_cols = g.flag(), g.flag()
    other = [(r if keep_rows else 1, c if keep_cols else 1) for r, c in shapes]
    mate = g.fresh("float", w.levels, shapes=other)
    return [fn], [mate, w] if g.flag() else [w, mate]


def binary_map(g: Grower, w: Wire) -> bool:
    found = _mate(g, w)
    if found is None:
        return False
    return bool(g.add("BinaryMap", _map_params(g, found[0]), found[1], ["float"]))


def binary_map_mixed(g: Grower, w: Wire) -> bool:
    """A product of operands of different widths, whose result is as wide as its unit says."""
    shape = shape_of(w)
    if not (w.exact and shape):
        return False
    params = {**_map_params(g, ["Matmul", False]), "result_bpe": g.bpe}
    mate = g.fresh("float", w.levels, **_weights(g, w, (shape[1], g.pick([1, 8, 16]))))
    return bool(g.add("BinaryMap", params, [w, mate], ["float"]))


def _weights(g: Grower, w: Wire, shape: tuple[int, int]) -> dict[str, Any]:
    """Hints for a second operand that may be narrower or wider than the elements of the others."""
    return {"shapes": [shape] * len(w.levels), "bpe": g.pick([0.5, 1, 2, 4])}


def binary_map_open(g: Grower, w: Wire) -> bool:
    """Two wires that are already there and happen to fit: paths that part and meet again."""
    others = [v for v in g.open if v is not w and v.kind == "float" and v.levels == w.levels]
    other = g.choose([v for v in others if v.exact and w.exact])
    if other is None:
        return False
    fn = g.pick([["Mul"], ["Matmul", False], ["Matmul", True]])
    return bool(g.add("BinaryMap", _map_params(g, fn), [w, other], ["float"]))


def cache_write(g: Grower, w: Wire) -> bool:
    if not w.exact:
        return False
    params = {**_map_params(g, ["CacheWriteAddrGen"]), "stride": g.integer(1, 8)}
    return bool(g.add("BinaryMap", params, [w, g.fresh("int", w.levels)], ["int"]))


def zip_(g: Grower, w: Wire) -> bool:
    found = _mate(g, w)
    if found is None:
        return False
    outs = g.add("Zip", {}, found[1], ["tuple"])
    for out in outs or []:
        out.fn = found[0]
    return bool(outs)


def nest(g: Grower, w: Wire) -> bool:
    """The wire as one half of pairs that no function takes."""
    mate = g.fresh("float", w.levels)
    pair = [w, mate] if g.flag() else [mate, w]
    return w.levels_exact and bool(g.add("Zip", {}, pair, ["tuple"]))


def binary_map_accum(g: Grower, w: Wire) -> bool:
    shape = shape_of(w)
    if not (w.exact and shape):
        return False
    name, transposed, n = g.pick(["Matmul", "DynMatmul"]), g.flag(), g.pick([1, 8, 16])
    rows, cols = shape
    other = (n, cols) if transposed else (cols, n)
    params = _map_params(g, [name, transposed])
    params["rank"] = g.integer(1, max(1, w.top))
    params["init"] = [0 if name == "DynMatmul" and g.flag() else rows, n]
    params["bpe"] = g.bpe
    hints: dict[str, Any] = {"shapes": [other] * len(w.levels)}
    if g.flag():
        params["result_bpe"], hints = g.bpe, _weights(g, w, other)
    mate = g.fresh("float", w.levels, **hints)
    return bool(g.add("BinaryMapAccum", params, [w, mate], ["float"]))


def _reduction(g: Grower, w: Wire, op: str) -> bool:
    names = ["Add", "RetileRow", "Mul", "RetileCol", "SignalReqAllRead"]
    name = g.pick(names) if w.kind == "float" else "SignalReqAllRead"
    shape = shape_of(w) if w.kind == "float" else (1, 1)
    if shape is None or not w.multiset_exact:
        return False
    (rows, cols), few = shape, g.integer(0, 2)
    init = {
        "RetileRow": [few, cols],
        "RetileCol": [rows, few],
        "SignalReqAllRead": [1, 1],
    }.get(name, [rows, cols] if g.flag() else [1, 1])
    params = _map_params(g, name)
    params |= {"rank": g.integer(1, max(1, w.top)), "init": init}
    params["bpe"] = 8 if name == "SignalReqAllRead" else g.bpe
    kind = "int" if name == "SignalReqAllRead" else "float"
    # How many tokens fall into one group depends on their order.
    certain = {} if w.exact else {"levels_exact": False, "multiset_exact": False}
    if op == "Scan":
        certain["levels_exact"] = w.levels_exact
    return bool(g.add(op, params, [w], [kind], **certain))


def accum(g: Grower, w: Wire) -> bool:
    return _reduction(g, w, "Accum")


def scan(g: Grower, w: Wire) -> bool:
    return _reduction(g, w, "Scan")


def retile_streamify(g: Grower, w: Wire) -> bool:
    params: dict[str, Any] = {"split_row": g.flag(), "filter": g.flag()}
    if g.flag():
        params["chunk"] = g.pick([1, 3, 4, 16])
    exact = w.levels_exact and w.payload_exact
    return bool(g.add("RetileStreamify", params, [w], ["float"], levels_exact=exact))


def flat_map(g: Grower, w: Wire) -> bool:
    if not w.multiset_exact:
        return False
    # At most one dim of the tile's size: evaluating large expansions only to drop them is slow.
    dims: list[int | str] = [g.pick([1, 2, 3]) for _ in range(g.integer(0, 2))]
    sized = ["rows", 1, 2, "valid", "cols", "ceil(rows/3)", "ceil((cols + 2*valid + 1)/4)"]
    dims.insert(g.integer(0, len(dims)), g.pick(sized))
    params = {
        "dims": dims,
        "tile": [
            g.pick([1, "rows", "2*rows + 1", "rows/1"]),
            g.pick(["cols", 1, 8, "cols*rows", "ceil(cols/2)"]),
        ],
        "cycles": g.integer(0, 3),
    }
    exact = w.levels_exact and w.payload_exact
    return bool(g.add("FlatMap", params, [w], ["float"], levels_exact=exact))


def expand_ref(g: Grower, w: Wire) -> bool:
    """The wire as reference of a new data stream."""
    if not w.exact or not w.content:
        return False
    if w.top == 0:
        return bool(g.add("ExpandRef", {"e": 1}, [g.fresh("float", [0]), w], ["float"]))
    e = g.integer(1, w.top)
    parts = chunks(w.content, e)
    if parts is None:
        return False
    data = g.fresh("float", [g.integer(1, 2) for _ in parts])
    return bool(g.add("ExpandRef", {"e": e}, [data, w], ["float"]))


def expand_data(g: Grower, w: Wire) -> bool:
    """The wire as data, every token closing a dim, expanded by a new reference."""
    if not w.exact or not w.content or min(w.levels) == 0:
        return False
    e = g.integer(1, 2)
    levels = []
    for _ in w.levels:
        levels += [g.integer(0, e - 1) for _ in range(g.integer(0, 2))] + [e + g.integer(0, 1)]
    return bool(g.add("ExpandRef", {"e": e}, [w, g.fresh("float", levels)], ["float"]))


def repeat_static(g: Grower, w: Wire) -> bool:
    factors = g.pick([1, 2, 3, [], [2], [2, 3], [1, 2, 1]])
    outs = g.add("RepeatStatic", {"f": factors}, [w], [w.kind])
    return keep(w, outs)


def keep(w: Wire, outs: list[Wire] | None) -> bool:
    """Outputs of an operator that only moves payloads keep the wire's function and rank."""
    for out in outs or []:
        out.fn, out.rank = w.fn, w.rank
    return bool(outs)


def flatten(g: Grower, w: Wire) -> bool:
    lo = g.integer(0, 2)
    return keep(w, g.add("Flatten", {"lo": lo, "hi": lo + g.integer(1, 2)}, [w], [w.kind]))


def promote(g: Grower, w: Wire) -> bool:
    return keep(w, g.add("Promote", {"p": g.integer(0, 3)}, [w], [w.kind]))


def reshape(g: Grower, w: Wire) -> bool:
    s = g.pick([0, 0, 0, 1, 2])
    params: dict[str, Any] = {"s": s, "q": g.pick([2, 3, 1, 4]), "bpe": g.bpe, "wb": g.flag()}
    params["ri"] = w.top
    params["outer"] = s == 0 and w.top == 0 and g.flag()
    if w.kind == "float" and g.pick([True, True, False]):
        params["pad"] = list(shape_of(w) or (4, 8))
    elif s == 0 and not w.exact:
        return False
    if not w.exact:  # where the chunks of such a stream end is not known, so it may end anywhere
        params |= {"ri": 0, "outer": False}
    flags = {} if w.exact else {"levels_exact": False, "payload_exact": False}
    flags |= {} if w.exact or s > 0 else {"multiset_exact": False}
    return keep(w, g.add("Reshape", params, [w], [w.kind], **flags))


def partition(g: Grower, w: Wire) -> bool:
    if not w.exact:
        return False
    b = g.integer(0, max(1, w.top))
    parts = chunks(w.content, b)
    if parts is None:
        return False
    width = g.integer(1, 3)
    sets = st.lists(st.integers(0, width - 1), max_size=width, unique=True)
    levels = [part[-1][0] - b for part in parts]
    chosen = [selector(g.draw(sets), width) for _ in parts]
    control = g.given("selector", levels, chosen)
    params = {"rank": b, "switch": [g.pick([1, 0, 3]) for _ in range(width)], "wb": g.flag()}
    return keep(w, g.add("Partition", params, [w, control], [w.kind] * width))


def reassemble(g: Grower, w: Wire) -> bool:
    b = g.integer(0, max(1, w.top))
    if not w.exact or chunks(w.content, b) is None:
        return False
    others = [v for v in g.open if v is not w and v.is_like(w) and v.exact]
    others = [v for v in others if chunks(v.content, b) is not None]
    ins = [w]
    for _ in range(g.integer(0, 2)):
        other = g.choose([v for v in others if all(v is not used for used in ins)])
        if other is not None and g.flag():
            ins.append(other)
        elif w.kind == "float":
            levels = [level for _ in range(g.integer(0, 3)) for level in [0] * (b > 0) + [b]]
            ins.append(g.fresh("float", levels))
    left = [len(chunks(v.content, b) or []) for v in ins]
    chosen = []
    while any(left):
        able = [i for i, count in enumerate(left) if count]
        sets = st.lists(st.sampled_from(able), min_size=1, max_size=len(able), unique=True)
        chosen.append(selector(g.draw(sets), len(ins)))
        for i in chosen[-1]["selector"]:
            left[i] -= 1
    control = g.given("selector", [g.pick([0, 0, 1]) for _ in chosen], chosen)
    params = {"rank": b, "switch": [g.pick([1, 0, 3]) for _ in ins], "wb": g.flag()}
    outs = g.add("Reassemble", params, [*ins, control], [w.kind])
    # Chunks of one selector are ordered by arrival.
    for out in outs or []:
        if any(len(payload["selector"]) > 1 for payload in chosen):
            out.levels_exact = out.payload_exact = out.multiset_exact = False
    return keep(w, outs)


def broadcast(g: Grower, w: Wire) -> bool:
    return keep(w, g.add("Broadcast", {}, [w], [w.kind] * g.integer(2, 3)))


def parallelize(g: Grower, w: Wire) -> bool:
    if not w.multiset_exact:
        return False
    width = g.integer(1, 3)
    params = {"rank": w.top + g.pick([0, 0, 1]), "switch": [g.pick([1, 0, 4])] * width}
    flags = {} if w.exact else {"levels_exact": False, "multiset_exact": False}
    return keep(w, g.add("Parallelize", params, [w], [w.kind] * width, **flags))


def bufferize(g: Grower, w: Wire) -> bool:
    if not w.exact:
        return False
    b = g.integer(1, max(1, w.top))
    outs = g.add("Bufferize", {"rank": b}, [w], ["buffer"])
    for out in outs or []:
        out.rank = b
    return bool(outs)


def streamify(g: Grower, w: Wire) -> bool:
    params = {"rank": w.rank, "repeat": g.pick([[], [2], [3], [1]])}
    return bool(g.add("Streamify", params, [w], ["float"]))


def dyn_streamify(g: Grower, w: Wire) -> bool:
    if not w.content:
        return False
    if w.top == 0:
        ref = g.fresh("float", [0] * g.integer(0, 3))
        if len(w.content) > 1:
            return False
        params = {**affine_walk(g, w), "rr": 0}
        return bool(g.add("DynStreamify", params, [w, ref], ["float"]))
    rr = g.integer(0, 1)
    levels = []
    for _ in w.levels:
        levels += [g.integer(0, rr) for _ in range(g.integer(0, 2))] + [rr + 1 + g.integer(0, 1)]
    ref = g.fresh("float", levels)
    return bool(g.add("DynStreamify", {**affine_walk(g, w), "rr": rr}, [w, ref], ["float"]))


def dyn_buffers(g: Grower, w: Wire) -> bool:
    """Levelled buffers from a new source, each read several times."""
    levels = []
    for _ in range(g.integer(1, 3)):
        levels += [0] * g.integer(0, 3) + [1 + g.integer(1, 2)]
    buffers = g.add("Bufferize", {"rank": 1}, [g.fresh("float", levels)], ["buffer"])
    if buffers:
        buffers[0].rank = 1
    return bool(buffers) and g.pick([dyn_streamify, static_streamify])(g, buffers[0])


def cache_read(g: Grower, w: Wire) -> bool:
    if not w.exact:
        return False
    index = g.fresh("int", w.levels)
    return bool(g.add("CacheReadAddrGen", {"stride": g.integer(1, 8)}, [index, w], ["int"]))


def filter_last_tile(g: Grower, w: Wire) -> bool:
    return w.exact and bool(g.add("FilterLastTile", {}, [w], ["selector"]))


def expert_addr_gen(g: Grower, w: Wire) -> bool:
    params = {"n": g.integer(1, 3), "base": g.pick([0, 5])}
    flags = {"levels_exact": w.multiset_exact or w.exact}
    return bool(g.add("ExpertAddrGen", params, [w], ["int"], **flags))


def _load_params(g: Grower) -> dict[str, Any]:
    shape = [g.pick([1, 4, 8]), g.pick([8, 32, 64])]
    return {"tile": shape, "par": g.pick([1, 2, 4]), "bpe": g.bpe}


def dyn_load(g: Grower, w: Wire) -> bool:
    view = g.draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    params = {**_load_params(g), "view": view}
    certain = {"payload_exact": w.multiset_exact}
    if g.integer(0, 2) == 0:
        params["trigger_rank"] = g.integer(0, max(1, w.top))
        # Without the order of the stops it is not known how many of them trigger.
        certain = {"payload_exact": w.levels_exact, "multiset_exact": w.levels_exact}
    if g.integer(0, 3) == 0:
        del params["par"]
        return bool(g.add("DynBypassLoad", params, [w], ["float"], **certain))
    params["transposed"] = g.flag()
    return bool(g.add("DynOffChipLoad", params, [w], ["float"], **certain))


def random_load(g: Grower, w: Wire) -> bool:
    params = _load_params(g)
    return bool(g.add("RandomOffChipLoad", params, [w], ["float"], payload_exact=w.multiset_exact))


def random_store(g: Grower, w: Wire) -> bool:
    """The wire as data; as many addresses from an open wire or a new source."""
    shape = shape_of(w)
    if shape is None or not w.multiset_exact:
        return False
    fitting = [v for v in g.open if v.kind == "int" and len(v.content) == len(w.content)]
    address = g.choose([v for v in fitting if v.multiset_exact])
    if address is None:
        address = g.given("int", [0] * len(w.content), [integer(i) for i in range(len(w.content))])
    params = {"tile": list(shape), "par": g.pick([1, 2, 4]), "ack_addr": g.flag(), "bpe": g.bpe}
    return bool(g.add("RandomOffChipStore", params, [address, w], ["ack"]))


_FLOAT: list[Rule] = [
    unary_map, binary_map, binary_map_mixed, binary_map, reshape, broadcast, accum, repeat_static,
    reshape, partition, reassemble, bufferize, dyn_load, dyn_buffers, flatten, promote,
    retile_streamify, flat_map, expand_ref,
    expand_data, parallelize, scan, zip_, binary_map_accum, binary_map_open, random_store,
    bufferize, reshape,
]  # fmt: skip

RULES: dict[str, list[Rule]] = {
    "float": _FLOAT,
    "int": [
        random_load, cache_read, filter_last_tile, cache_write, broadcast, flatten, partition,
        parallelize, accum, flatmap_counter, dyn_addr_gen, dyn_counter,
    ],
    "selector": [
        expert_addr_gen, dyn_load, broadcast, flatten, partition, reassemble, parallelize,
        dyn_addr_gen,
    ],
    "buffer": [
        streamify, static_streamify, dyn_streamify, broadcast, dyn_load, partition, reassemble,
        parallelize,
    ],
    "tuple": [
        unary_map, partition, reassemble, broadcast, nest, flatten, promote, repeat_static,
        parallelize,
    ],
    "ack": [partition, broadcast],
}  # fmt: skip
