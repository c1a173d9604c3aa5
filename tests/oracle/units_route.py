"""Bodies of the routing operators: Partition, Reassemble, EagerMerge, Broadcast, Parallelize."""

from __future__ import annotations

from tests.oracle.fabric import CLOSED, Abort, Channel, Steps, Token, Unit
from tests.oracle.payloads import load_cycles, retag, selector, store_cycles

__all__ = ["ROUTE", "decision", "decision_pace"]


def partition(u: Unit) -> Steps:
    data, select = u.ins
    b, wb, onchip = u.p["rank"], u.p["wb"], u.timing.onchip_bytes_per_cycle
    while (selected := (yield from u.head(select))) is not CLOSED:
        u.add(load_cycles(selected.payload, onchip))
        yield from u.take(select)
        targets = selected.payload["selector"]
        end_level = selected.level + b if selected.level > 0 else None
        while True:
            token = yield from u.head(data)
            if token is CLOSED:
                raise Abort(f"unit {u.name}: {data.name} ended, but a selector still wants data")
            x, level = token.payload, token.level
            if b == 0 and end_level is None and u.timing.model == "step-2026":
                level = 0  # a token with a stop is passed on as a plain one
            fits = level <= b if end_level is None else level in (0, end_level)
            if not fits:
                raise Abort(
                    f"unit {u.name}: data stop {level} does not fit selector level "
                    f"{selected.level} with rank {b}"
                )
            u.add(load_cycles(x, onchip))
            yield from u.take(data)
            for i in targets:
                if i >= len(u.p["switch"]) or i >= len(u.outs):
                    raise Abort(f"unit {u.name}: selector index {i} has no output")
            switch = max((u.p["switch"][i] for i in targets), default=0)
            u.add(switch + store_cycles(x, onchip, wb))
            out_level = b if level > 0 and end_level is not None else level
            for i in targets:
                yield from u.emit(u.outs[i], retag(x, wb), out_level)
            if (level == 0 and b == 0) or (level > 0 and level in (b, end_level)):
                break


def reassemble(u: Unit) -> Steps:
    *data, select = u.ins
    b, wb, onchip = u.p["rank"], u.p["wb"], u.timing.onchip_bytes_per_cycle
    while (selected := (yield from u.head(select))) is not CLOSED:
        u.add(load_cycles(selected.payload, onchip))
        yield from u.take(select)
        m_level = selected.level
        targets = selected.payload["selector"]
        if not targets or targets[-1] >= len(data) or targets[-1] >= len(u.p["switch"]):
            raise Abort(f"unit {u.name}: selector {targets} must name 1..{len(data)} inputs")
        heads = yield from _arrivals(u, [data[i] for i in targets])
        # Marks are compared with the clock at which the unit began to look.
        marks = [data[i].mark for i in targets]
        found = [
            max(x.pub, mark + 1 if mark > u.clk else 0)
            for x, mark in zip(heads, marks, strict=True)
        ]
        latest = max(range(len(targets)), key=lambda j: (found[j], -j))
        u.up_input(found[latest], data[targets[latest]], pace=max(x.pub for x in heads))
        arrival = {i: head.stamp for i, head in zip(targets, heads, strict=True)}
        order = sorted(targets, key=lambda i: (arrival[i], i))
        for v in order:
            final = v == order[-1]
            chunk_goes_on = True
            while chunk_goes_on:
                token = yield from u.head(data[v])
                if token is CLOSED:
                    raise Abort(f"unit {u.name}: {data[v].name} ended inside a chunk")
                x, level = token.payload, token.level
                u.up_busy(arrival[v] + u.p["switch"][v] + load_cycles(x, onchip))
                yield from u.take(data[v])
                u.add(store_cycles(x, onchip, wb))
                ends = b == 0 or (level > 0 and level >= b)
                if ends and final:
                    out_level = level + m_level + 1
                elif b == 0:
                    out_level = 0
                else:
                    out_level = level
                yield from u.emit(u.outs[0], retag(x, wb), out_level)
                chunk_goes_on = not ends


def _arrivals(u: Unit, channels: list[Channel]) -> Steps:
    """PROBE the selected inputs until each has a head; one that is CLOSED aborts."""
    while True:
        seen = [u.probe(channel) for channel in channels]
        for channel, found in zip(channels, seen, strict=True):
            if found is CLOSED:
                raise Abort(f"unit {u.name}: selected input {channel.name} has ended")
        u.stands_at = []
        if all(isinstance(found, Token) for found in seen):
            return seen
        u.stands_at = [c for c, found in zip(channels, seen, strict=True) if found is None]
        yield (
            lambda: (
                any(channel.drained for channel in channels)
                or all(not channel.empty for channel in channels)
            )
        )


def decision_pace(u: Unit) -> int | None:
    """The pace at which a waiting EagerMerge decides, given what its inputs hold now."""
    heads = [c for c in u.ins if not c.empty]
    if not heads:
        return None
    t = max(u.clk, min(c.first.stamp for c in heads))
    if all(u.probe(c) is not None for c in u.ins):
        published = [c.found_from for c in heads]
        published += [u.closure_pace(c) for c in u.ins if c.drained]
        t = min(t, max(published))
    return max(u.h, t)


def decision(u: Unit, t: int) -> int:
    """The input that a merge deciding at pace ``t`` serves: smallest (stamp, index)."""
    return min(
        (c.first.stamp, i) for i, c in enumerate(u.ins) if not c.empty and c.found_from <= t
    )[1]


def eager_merge(u: Unit) -> Steps:
    data_out, select_out = u.outs
    b = u.p["rank"]
    while True:
        u.deciding, u.chosen = True, None
        for channel in u.ins:
            if channel.empty:
                channel.looked.setdefault(channel.sent, u.clk)
        yield lambda: u.chosen is not None or all(c.drained for c in u.ins)
        u.deciding = False
        if u.chosen is None:
            last = max(u.closure_pace(c) for c in u.ins)
            u.see_all_closed(last)
            return
        i = u.chosen
        yield from u.emit(select_out, selector([i], len(u.ins)), 0)
        while True:
            token = yield from u.take(u.ins[i])
            if token is CLOSED:
                return
            yield from u.emit(data_out, token.payload, token.level)
            if token.level > b:
                raise Abort(f"unit {u.name}: stop level {token.level} exceeds the rank {b}")
            if token.level == b:
                break
            u.add(1)


def broadcast(u: Unit) -> Steps:
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        for out in u.outs:
            yield from u.reserve(out)
        now = u.clk
        for out in u.outs:
            yield from u.emit(out, token.payload, token.level, t=now)


def parallelize(u: Unit) -> Steps:
    b, i = u.p["rank"], 0
    switch = u.p.get("switch", [1] * len(u.outs))
    while (token := (yield from u.take(u.ins[0]))) is not CLOSED:
        yield from u.emit(u.outs[i], token.payload, token.level, t=u.clk + switch[i])
        if token.level > b:
            raise Abort(f"unit {u.name}: stop level {token.level} exceeds the rank {b}")
        if token.level == b:
            i = (i + 1) % len(u.outs)


ROUTE = {
    "Partition": partition,
    "Reassemble": reassemble,
    "EagerMerge": eager_merge,
    "Broadcast": broadcast,
    "Parallelize": parallelize,
}
