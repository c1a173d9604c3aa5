"""Bodies of the shape operators: FlatMap family, repeats, Flatten, Promote, Reshape, buffers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from tests.oracle.fabric import CLOSED, Abort, Payload, Steps, Unit
from tests.oracle.payloads import integer, linear_levels, read_buffer, selector, tile
from tests.oracle.units_affine import walk
from tests.oracle.units_basic import check_step

__all__ = ["SHAPE"]


def retile_streamify(u: Unit) -> Steps:
    yield from _retile_chunks(u, u.p["chunk"]) if "chunk" in u.p else _retile(u)


def _retile_chunks(u: Unit, c: int) -> Steps:
    by_row = u.p["split_row"]
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        rows, cols, bpe, rd, off = token.payload["tile"]
        n = rows if by_row else cols
        starts = list(range(0, n, c))
        if by_row and u.p["filter"]:
            holding = [s for s in starts if s < off <= s + c]
            starts = [s for s in starts if not holding or s <= holding[0]]
        for start in starts:
            length = min(c, n - start)
            piece = tile(rows, length, bpe, rd, off)
            if by_row:
                piece = tile(length, cols, bpe, rd, min(max(off - start, 0), length))
            yield from u.emit(u.outs[0], piece, token.level if start == starts[-1] else 0)


def _retile(u: Unit) -> Steps:
    by_row, keep_valid = u.p["split_row"], u.p["filter"]
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        rows, cols, bpe, rd, off = token.payload["tile"]
        n, width = (rows, cols) if by_row else (cols, rows)
        for i in range(1, n + 1):
            cut = keep_valid and i == off
            piece = tile(1, width, bpe, rd, 1 if i <= off else 0)
            yield from u.emit(u.outs[0], piece, token.level if i == n or cut else 0)
            if cut:
                break


def _extent(dim: int | str, x: Payload, length: int = 0) -> int:
    rows, cols, _, _, off = x["tile"]
    sizes = {"rows": rows, "cols": cols, "valid": off, "length": length}
    if not isinstance(dim, str):
        return dim
    # Sums of products of sides, one of them divided: exactly or rounded up.
    inside = re.fullmatch(r"(ceil\()?\(?([^()/]+)\)?(?:/(\d+))?\)?", dim)
    assert inside, dim
    total = sum(
        prod(sizes[f.strip()] if f.strip() in sizes else int(f) for f in term.split("*"))
        for term in inside[2].split("+")
    )
    return -(-total // int(inside[3] or 1))


def flat_map(u: Unit) -> Steps:
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        length = 0
        if len(u.ins) > 1:
            number = yield from u.take(u.ins[1])
            check_step(u, [token, number])
            length = number.payload.get("value", 0)
            if length > 2**20:
                raise Abort(f"unit {u.name}: a length of {length}")
        dims = [_extent(dim, token.payload, length) for dim in u.p["dims"]]
        rows, cols = (_extent(dim, token.payload) for dim in u.p["tile"])
        _, _, bpe, rd, _ = token.payload["tile"]
        if prod(dims) == 0:
            raise Abort(f"unit {u.name}: a token expands to dims {dims}, which hold no piece")
        b = len(dims) - 1
        for i, level in enumerate(linear_levels(dims)):
            last = i == prod(dims) - 1
            u.add(u.p["cycles"])
            piece = tile(rows, cols, bpe, rd, rows)
            yield from u.emit(u.outs[0], piece, b + token.level if last else min(level, b))
    if len(u.ins) > 1 and (yield from u.head(u.ins[1])) is not CLOSED:
        raise Abort(f"unit {u.name}: there are more lengths than tiles")


def expert_addr_gen(u: Unit) -> Steps:
    n, base = u.p["n"], u.p["base"]
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        chosen = token.payload["selector"]
        if token.level > 0 or len(chosen) != 1:
            raise Abort(
                f"unit {u.name}: expected plain one-hot selectors, found {chosen} with level "
                f"{token.level}"
            )
        for i in range(n):
            address = integer(base + chosen[0] * n + i)
            yield from u.emit(u.outs[0], address, 1 if i < n - 1 else 2)


def cache_read_addr_gen(u: Unit) -> Steps:
    index_in, length_in = u.ins
    while True:
        index = yield from u.take(index_in)
        length = yield from u.take(length_in)
        if index is CLOSED and length is CLOSED:
            return
        check_step(u, [index, length])
        k, m, start = index.payload["value"], length.payload["value"], u.clk
        if m == 0:
            raise Abort(f"unit {u.name}: length 0; every index needs at least one address")
        if k * u.p["stride"] + m >= 2**63:
            raise Abort(f"unit {u.name}: tiles of request {k} pass 2**63 - 1")
        for i in range(m):
            level = 0 if i < m - 1 else index.level + 1
            yield from u.emit(u.outs[0], integer(k * u.p["stride"] + i), level, t=start + i)


def filter_last_tile(u: Unit) -> Steps:
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        m = token.payload["value"]
        if m == 0:
            raise Abort(f"unit {u.name}: length 0; every row needs at least one tile")
        for _ in range(m - 1):
            yield from u.emit(u.outs[0], selector([1], 2), 0)
        yield from u.emit(u.outs[0], selector([0], 2), token.level + 1)


def expand_ref(u: Unit) -> Steps:
    data, ref = u.ins
    e = u.p["e"]
    while (token := (yield from u.head(data))) is not CLOSED:
        if u.p.get("whole", False):
            while (reference := (yield from u.take(ref))) is not CLOSED:
                yield from u.emit(u.outs[0], token.payload, reference.level)
            yield from u.take(data)
            return
        if token.level == 0:
            if e != 1:
                raise Abort(f"unit {u.name}: rank-0 data can be expanded by 1 dim only, not {e}")
            while (reference := (yield from u.take(ref))) is not CLOSED:
                if reference.level > 0:
                    raise Abort(f"unit {u.name}: a stop in the reference of rank-0 data")
                yield from u.emit(u.outs[0], token.payload, 0)
            yield from u.take(data)
            return
        while True:
            reference = yield from u.take(ref)
            if reference is CLOSED:
                raise Abort(f"unit {u.name}: reference {ref.name} ended inside an expansion")
            yield from u.emit(u.outs[0], token.payload, reference.level)
            if reference.level >= e:
                yield from u.take(data)
                break


def repeat_static(u: Unit) -> Steps:
    factors = u.p["f"] if isinstance(u.p["f"], list) else [u.p["f"]]
    if min(factors, default=1) < 1:
        raise Abort(f"unit {u.name}: repeat factors {factors}; they must be at least 1")
    n = prod(factors)
    while (token := (yield from u.head(u.ins[0]))) is not CLOSED:
        for i, trailing in enumerate(linear_levels(factors)):
            level = token.level + len(factors) if i == n - 1 else trailing
            if u.timing.model == "step-2026":
                yield from u.emit(u.outs[0], token.payload, level)
                u.add(1)
            else:
                yield from u.emit(u.outs[0], token.payload, level, t=u.clk + i)
        if u.timing.model != "step-2026":
            u.add(n)
        yield from u.take(u.ins[0])


def flatten(u: Unit) -> Steps:
    lo, hi = u.p["lo"], u.p["hi"]
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        if token.level <= lo:
            level = token.level
        elif token.level <= hi:
            level = lo
        else:
            level = token.level - (hi - lo)
        yield from u.emit(u.outs[0], token.payload, level)


def promote(u: Unit) -> Steps:
    p = u.p["p"]
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        if token.level == 0:
            level = 1 if p == 0 else 0
        else:
            level = token.level if p > token.level else token.level + 1
        yield from u.emit(u.outs[0], token.payload, level)


def reshape(u: Unit) -> Steps:
    yield from _reshape_innermost(u) if u.p["s"] == 0 else _reshape_outer(u)


def _send(u: Unit, payload: Payload, level: int, real: bool = True) -> Steps:
    """The data, and its mask if there is an output for it: true for what is no pad."""
    yield from u.emit(u.outs[0], payload, level)
    if len(u.outs) > 1:
        mask = tile(1, 1, 1, 0, 1)
        if real:
            mask["value"] = 1
        yield from u.emit(u.outs[1], mask, level)


def _pads(u: Unit, count: int, last_level: int) -> Steps:
    if u.p.get("pad") is None:
        raise Abort(f"unit {u.name}: a chunk is {count} short and there is no pad tile")
    rows, cols = u.p["pad"]
    pad = tile(rows, cols, u.p["bpe"], u.p.get("wb", False), 0)
    if u.p["bpe"] == 8:
        pad["value"] = 0  # integer tiles have content
    for i in range(count):
        yield from _send(u, pad, last_level if i == count - 1 else 0, real=False)


def _reshape_innermost(u: Unit) -> Steps:
    (data,) = u.ins
    q, outer = u.p["q"], u.p.get("outer", False)
    n = 0
    while (token := (yield from u.take(data))) is not CLOSED:
        x, level = token.payload, token.level
        full = n + 1 == q
        if level == 0 and not full:
            n += 1
            yield from _send(u, x, 0)
        elif level == 0 and not outer:
            n = 0
            yield from _send(u, x, 1)
        elif level == 0:
            n = 0
            following = yield from u.head(data)
            yield from _send(u, x, 2 if following is CLOSED else 1)
        elif full:
            n = 0
            yield from _send(u, x, level + 1)
        else:
            yield from _send(u, x, 0)
            yield from _pads(u, q - (n + 1), level + 1)
            n = 0
    if n > 0:
        if u.p["ri"] != 0:
            raise Abort(f"unit {u.name}: the stream ends inside a chunk of {q}")
        yield from _pads(u, q - n, 2 if outer else 1)


def _reshape_outer(u: Unit) -> Steps:
    s, q, n = u.p["s"], u.p["q"], 0
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        level = token.level
        if level >= s:
            n += 1
            if n == q:
                n = 0
                level += 1
        yield from _send(u, token.payload, level)


def _buffer_dims(levels: list[int], rank: int) -> list[int]:
    """Outermost first: dim k counts the tokens of level >= k up to the first of level > k."""
    dims = []
    for k in reversed(range(rank)):
        end = next(i for i, level in enumerate(levels) if level > k)
        dims.append(sum(level >= k for level in levels[: end + 1]))
    return dims


def bufferize(u: Unit) -> Steps:
    b = u.p["rank"]
    if b < 1:
        raise Abort(f"unit {u.name}: buffer rank {b}; it must be at least 1")
    tiles: list[Payload] = []
    levels: list[int] = []
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        tiles.append(token.payload)
        levels.append(token.level)
        if token.level < b:
            u.add(1)
            continue
        dims = _buffer_dims(levels, b)
        if prod(dims) != len(tiles):
            raise Abort(f"unit {u.name}: {len(tiles)} tiles do not fill a buffer of {dims}")
        yield from u.emit(u.outs[0], {"buffer": dims, "tiles": tiles}, token.level - b)
        tiles, levels = [], []
    if tiles:
        raise Abort(f"unit {u.name}: the stream ends inside a buffer of rank {b}")


def streamify(u: Unit) -> Steps:
    b, factors = u.p["rank"], list(u.p["repeat"])
    while (token := (yield from u.head(u.ins[0]))) is not CLOSED:
        # One entry per linear read: the level that replaces b on its last element.
        reads = [] if factors else [b + token.level]
        for j, count in enumerate(reversed(factors)):
            reads += [b] * (count - 1) + [b + token.level + 1 + j] * (count > 0)
        for last_level in reads:
            for x, level in read_buffer(token.payload):
                yield from u.emit(u.outs[0], x, last_level if level == b else level)
                u.add(1)
        yield from u.take(u.ins[0])


def dyn_streamify(u: Unit) -> Steps:
    data, ref = u.ins
    rr = u.p["rr"]
    while (token := (yield from u.head(data))) is not CLOSED:
        while (reference := (yield from u.take(ref))) is not CLOSED:
            if token.level == 0 and reference.level > 0:
                raise Abort(f"unit {u.name}: a stop in the reference of a rank-0 buffer stream")
            count = prod(u.p.get("shape") or token.payload["buffer"])
            for i, (x, level) in enumerate(_one_read(u, token.payload)):
                last = i == count - 1
                yield from u.emit(u.outs[0], x, level + reference.level if last else level)
                u.add(1)
            if token.level > 0 and reference.level >= rr + 1:
                break
        if token.level == 0:
            return
        yield from u.take(data)


def _one_read(u: Unit, buffer: Payload) -> Iterator[tuple[Payload, int]]:
    """The tiles of a linear or affine read with their levels."""
    if not u.p.get("shape"):
        yield from read_buffer(buffer)
        return
    shape = list(u.p["shape"])
    for place, level in zip(walk(shape, list(u.p["stride"])), linear_levels(shape), strict=True):
        if place >= len(buffer["tiles"]):
            raise Abort(f"unit {u.name}: tile {place} of a buffer of {len(buffer['tiles'])}")
        yield buffer["tiles"][place], level


SHAPE = {
    "RetileStreamify": retile_streamify,
    "FlatMap": flat_map,
    "ExpertAddrGen": expert_addr_gen,
    "CacheReadAddrGen": cache_read_addr_gen,
    "FilterLastTile": filter_last_tile,
    "ExpandRef": expand_ref,
    "RepeatStatic": repeat_static,
    "Flatten": flatten,
    "Promote": promote,
    "Reshape": reshape,
    "ReshapePadStream": reshape,
    "Bufferize": bufferize,
    "Streamify": streamify,
    "DynStreamify": dyn_streamify,
}
