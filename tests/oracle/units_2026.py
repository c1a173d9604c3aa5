"""Bodies of the operators that the public simulator has had since 2026."""

from __future__ import annotations

from tests.oracle.fabric import CLOSED, Abort, Payload, Steps, Unit
from tests.oracle.payloads import ceil_div, load_cycles, nbytes, retag, selector, tile
from tests.oracle.units_basic import check_step

__all__ = ["SINCE_2026"]


def static_reassemble(u: Unit) -> Steps:
    b, i = u.p["rank"], 0
    while (token := (yield from u.take(u.ins[i]))) is not CLOSED:
        yield from u.emit(u.outs[0], token.payload, token.level, t=u.clk + u.p["switch"][i])
        if token.level > b:
            raise Abort(f"unit {u.name}: stop level {token.level} exceeds the rank {b}")
        if token.level == b:
            i = (i + 1) % len(u.ins)


def promote_outer(u: Unit) -> Steps:
    (data,), (out,) = u.ins, u.outs
    while (token := (yield from u.take(data))) is not CLOSED:
        following = yield from u.head(data)
        last = following is CLOSED
        yield from u.emit(out, token.payload, token.level + 1 if last else token.level)
        u.add(1)


def repeat_ref(u: Unit) -> Steps:
    data, ref = u.ins
    r, e = u.p["rank"], u.p["e"]
    while (token := (yield from u.take(data))) is not CLOSED:
        goes_on = True
        while goes_on:
            reference = yield from u.take(ref)
            if reference is CLOSED:
                raise Abort(f"unit {u.name}: reference {ref.name} ended inside a repetition")
            if reference.level < r:
                continue
            level = reference.level - r
            goes_on = level < e
            if not goes_on and level != token.level + e:
                raise Abort(f"unit {u.name}: reference level {level}, data level {token.level}")
            yield from u.emit(u.outs[0], token.payload, level)


def take_last(u: Unit) -> Steps:
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        if token.level > 0:
            yield from u.emit(u.outs[0], token.payload, token.level)


def deinterleave(u: Unit) -> Steps:
    n = len(u.outs)
    while True:
        group = []
        for i in range(n):
            token = yield from u.take(u.ins[0])
            if token is CLOSED and i == 0:
                return
            if token is CLOSED:
                raise Abort(f"unit {u.name}: the stream ends inside a group")
            if token.level > 0 and i < n - 1:
                raise Abort(f"unit {u.name}: a stop inside a group")
            group.append(token)
        for out, token in zip(u.outs, group, strict=True):
            yield from u.emit(out, token.payload, group[-1].level)


def interleave(u: Unit) -> Steps:
    while True:
        group = []
        for i, lane in enumerate(u.ins):
            token = yield from u.take(lane)
            if token is CLOSED and i == 0:
                return
            if token is CLOSED:
                raise Abort(f"unit {u.name}: lane {i} ended inside a group")
            if group and token.level != group[0].level:
                raise Abort(f"unit {u.name}: the levels of the lanes differ")
            group.append(token)
        for i, token in enumerate(group):
            level = token.level if i == len(group) - 1 else 0
            yield from u.emit(u.outs[0], token.payload, level)


def _mask_of(payload: Payload) -> list[bool]:
    if "selector" in payload:
        return [i in payload["selector"] for i in range(payload["width"])]
    return [bool(payload.get("value", 0))] * payload["tile"][0]


def filter_rows(u: Unit) -> Steps:
    while True:
        token = yield from u.take(u.ins[0])
        if len(u.ins) == 1:
            if token is CLOSED:
                return
            mask = [True] * token.payload["tile"][0]
        elif token is CLOSED:
            if (yield from u.head(u.ins[1])) is CLOSED:
                return
            raise Abort(f"unit {u.name}: there are more masks than tiles")
        else:
            flags = yield from u.take(u.ins[1])
            check_step(u, [token, flags])
            mask = _mask_of(flags.payload)
        rows, cols, bpe, rd, _ = token.payload["tile"]
        if len(mask) != rows:
            raise Abort(f"unit {u.name}: {len(mask)} flags for {rows} rows")
        kept = sum(mask)
        if kept == 0 and token.level > 0:
            raise Abort(f"unit {u.name}: no row is left to carry stop level {token.level}")
        for i in range(kept):
            row = tile(1, cols, bpe, rd, 1)
            yield from u.emit(u.outs[0], row, token.level if i == kept - 1 else 0)


def shuffle(u: Unit) -> Steps:
    data, select = u.ins
    out, marker = u.outs
    r, wb, width = u.p["rank"], u.p["wb"], u.p["width"]
    onchip = u.timing.onchip_bytes_per_cycle
    buckets: list[list[tuple[Payload, int]]] = [[] for _ in range(width)]
    while (chosen := (yield from u.head(select))) is not CLOSED:
        if chosen.payload["width"] != width:
            raise Abort(f"unit {u.name}: a selector of another width")
        u.add(load_cycles(chosen.payload, onchip))
        yield from u.take(select)
        targets = chosen.payload["selector"]
        level = -1
        while level < r - 1:
            token = yield from u.head(data)
            if token is CLOSED:
                raise Abort(f"unit {u.name}: {data.name} ended inside an item")
            if "tile" not in token.payload:
                raise Abort(f"unit {u.name}: only tiles are shuffled")
            level = token.level
            u.add(load_cycles(token.payload, onchip))
            if targets:
                u.add(ceil_div(nbytes(token.payload), onchip))
            yield from u.take(data)
            for i in targets:
                buckets[i].append((token.payload, level))
        if level != chosen.level + r - 1:
            raise Abort(f"unit {u.name}: an item ends with {level}, its selector {chosen.level}")
        if level < r:
            continue
        filled = [i for i in range(width) if buckets[i]]
        if not filled:
            raise Abort(f"unit {u.name}: no item of a group has a bucket")
        for i in filled:
            ends = i == filled[-1]
            yield from u.emit(marker, selector([i], width), level - (r - 1) if ends else 0)
            for k, (x, own) in enumerate(buckets[i]):
                u.add(ceil_div(nbytes(x), onchip))
                if wb:
                    u.add(ceil_div(nbytes(x), onchip))
                stop = min(own, r - 1)
                if k == len(buckets[i]) - 1:
                    stop = level + 1 if ends else r
                yield from u.emit(out, retag(x, wb), stop)
        buckets = [[] for _ in range(width)]
    if any(buckets):
        raise Abort(f"unit {u.name}: the selectors end inside a group")


SINCE_2026 = {
    "StaticReassemble": static_reassemble,
    "PromoteOuter": promote_outer,
    "RepeatRef": repeat_ref,
    "TakeLast": take_last,
    "ContextDeinterleave": deinterleave,
    "ContextInterleave": interleave,
    "FlatmapFilterRowStreamify": filter_rows,
    "Shuffle": shuffle,
}
