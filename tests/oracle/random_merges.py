"""Growth rules around EagerMerge: merges, what follows their selectors, and feedback loops."""

from __future__ import annotations

from tests.oracle.payloads import retag, selector
from tests.oracle.random_2026 import RULES_2026
from tests.oracle.random_grower import Grower
from tests.oracle.random_ops import RULES, Rule, keep
from tests.oracle.random_records import (
    record_accum,
    record_map,
    record_map_accum,
    record_scan,
)
from tests.oracle.random_scans import SCAN_RULES
from tests.oracle.random_streams import MAX_TOKENS, Wire, chunks, merged_content

__all__ = ["ALL_RULES", "detour", "eager_merge", "recirculation", "regions", "split_and_join"]


def _switch(g: Grower, n: int) -> list[int]:
    return [g.pick([1, 0, 3]) for _ in range(n)]


def _mergeable(w: Wire, rank: int) -> bool:
    return w.top <= rank and w.multiset_exact and chunks(w.content, rank) is not None


def _merge(g: Grower, ins: list[Wire], rank: int) -> tuple[Wire, Wire]:
    """Append an EagerMerge; its data and selector wires."""
    content, levels_exact, payload_exact = merged_content(ins, rank)
    data = Wire(ins[0].kind, content, levels_exact=levels_exact, payload_exact=payload_exact)
    chosen = [
        selector([i], len(ins))
        for i, wire in enumerate(ins)
        for _ in chunks(wire.content, rank) or []
    ]
    choice = Wire("selector", [(0, x) for x in chosen], payload_exact=len(ins) == 1)
    keep(ins[0], [data])
    g.attach("EagerMerge", {"rank": rank}, ins, [data, choice])
    return data, choice


def eager_merge(g: Grower, w: Wire) -> bool:
    """Merge the wire with open wires or new sources; perhaps take the merge apart again."""
    rank = w.top
    if not (w.exact and _mergeable(w, rank)):
        return False
    ins = [w]
    for _ in range(g.integer(0, 2)):
        others = [v for v in g.open if v.is_like(w) and v.exact and _mergeable(v, rank)]
        other = g.choose([v for v in others if all(v is not used for used in ins)])
        if other is not None and g.flag():
            ins.append(other)
        elif w.kind in ("float", "int", "selector"):
            levels = [level for _ in range(g.integer(0, 4)) for level in [0] * (rank > 0) + [rank]]
            shapes = {"shapes": [(4, 16)] * len(levels)} if w.kind == "float" else {}
            if w.kind == "selector":
                shapes = {"width": 3}
            ins.append(g.fresh(w.kind, levels, **shapes))
    data, choice = _merge(g, ins, rank)
    if g.integer(0, 2) == 0:
        return True
    contents = [wire.content for wire in ins]
    apart, loads = g.channel(), g.channel()
    name = choice.channel
    g.open = [wire for wire in g.open if wire is not data and wire is not choice]
    g.unit("Broadcast", [name], [apart, loads], {})
    addresses = choice.like("selector", choice.content, channel=loads)
    g.open.append(addresses)
    wb = g.flag()
    outs = [Wire(w.kind, content) for content in contents]
    keep(w, outs)
    for out in outs:
        out.channel = g.channel()
    params = {"rank": rank, "switch": _switch(g, len(ins)), "wb": wb}
    g.unit("Partition", [data.channel, apart], [out.channel for out in outs], params)
    for out in outs:
        out.content = [(level, retag(payload, wb)) for level, payload in out.content]
    g.open += outs
    return True


def split_and_join(g: Grower, w: Wire) -> bool:
    """Partition by a selector stream, work on the parts, Reassemble by the same selectors."""
    if not w.exact or w.top > 2:
        return False
    b = g.integer(0, w.top)
    parts = chunks(w.content, b)
    if parts is None or any(part[-1][0] != b for part in parts):
        return False
    width = g.integer(1, 3)
    picks = [sorted({g.integer(0, width - 1) for _ in range(g.integer(1, 2))}) for _ in parts]
    # Parts that go to two lanes come back twice.
    if sum(len(part) * len(pick) for part, pick in zip(parts, picks, strict=True)) > MAX_TOKENS:
        return False
    control = g.given("selector", [0] * len(parts), [selector(p, width) for p in picks])
    outs = g.add("Broadcast", {}, [control], ["selector", "selector"])
    assert outs is not None
    wb = g.flag()
    lanes = g.add(
        "Partition", {"rank": b, "switch": _switch(g, width), "wb": wb}, [w, outs[0]],
        [w.kind] * width,
    )  # fmt: skip
    assert lanes is not None
    ends = []
    for lane in lanes:
        worked = None
        if w.kind == "float" and g.flag():
            params = {"fn": "Silu", "bw": g.pick([1024, 64, 16]), "wb": g.flag()}
            worked = g.add("UnaryMap", params, [lane], ["float"])
        ends.append(worked[0] if worked else lane)
    params = {"rank": b, "switch": _switch(g, width), "wb": g.flag()}
    joined = g.add("Reassemble", params, [*ends, outs[1]], [w.kind])
    assert joined is not None
    if any(len(pick) > 1 for pick in picks):
        joined[0].levels_exact = joined[0].payload_exact = joined[0].multiset_exact = False
    return keep(w, joined)


def detour(g: Grower, w: Wire) -> bool:
    """One copy goes through a buffer and meets the other one: deadlocks if FIFOs are shallow."""
    b = g.integer(1, max(1, w.top))
    if not w.exact or g.add("Bufferize", {"rank": b}, [w], ["buffer"], dry=True) is None:
        return False
    copies = g.add("Broadcast", {}, [w], ["float", "float"])
    assert copies is not None
    buffers = g.add("Bufferize", {"rank": b}, [copies[0]], ["buffer"])
    assert buffers is not None
    back = g.add("Streamify", {"rank": b, "repeat": []}, buffers, ["float"])
    if back is not None:
        params = {"fn": ["Mul"], "bw": g.pick([1024, 64, 16]), "wb": g.flag()}
        g.add("BinaryMap", params, [copies[1], back[0]], ["float"])
    return True


def recirculation(g: Grower, w: Wire) -> bool:
    """A loop: merged chunks either leave or go round again, as a finite selector stream says."""
    rank = w.top
    if not (g.loops and w.exact and _mergeable(w, rank) and w.content):
        return False
    count, again = len(chunks(w.content, rank) or []), g.integer(1, 4)
    back = Wire(w.kind, [], channel=g.channel(None))
    data, choice = g.channel(), g.channel()
    g.open = [wire for wire in g.open if wire is not w]
    g.unit("EagerMerge", [w.channel, back.channel], [data, choice], {"rank": rank})
    # The last chunk must leave, so that the loop is empty when the selectors end.
    turns = [0] * again + [1] * (count - 1)
    order = [turns.pop(g.integer(0, len(turns) - 1)) for _ in range(len(turns))] + [1]
    control = g.given("selector", [0] * len(order), [selector([i], 2) for i in order])
    outs = [g.channel(None), g.channel()]
    wb = g.flag()
    params = {"rank": rank, "switch": _switch(g, 2), "wb": wb}
    g.unit("Partition", [data, g.realise(control)], outs, params)
    params = {"fn": "Exp", "bw": g.pick([1024, 64, 16]), "wb": g.flag()}
    if g.flag():
        g.unit("UnaryMap", [outs[0]], [back.channel], params)
    else:
        g.unit("Flatten", [outs[0]], [back.channel], {"lo": rank + 1, "hi": rank + 2})
    chosen = [(0, selector([0], 2))] * len(order)
    g.open.append(Wire("selector", chosen, channel=choice, payload_exact=False))
    leaving = Wire(w.kind, w.content, channel=outs[1], levels_exact=False, payload_exact=False)
    leaving.multiset_exact = False
    g.open.append(leaving)
    return True


def regions(g: Grower, w: Wire) -> bool:
    """Work goes to the region that is free: completion signals are merged and steer the Partition.

    The first selectors are the regions in turn, the others come from the merge of the completion
    signals, of which the last ones are not needed.
    """
    if not w.exact or w.top != 1 or not chunks(w.content, 1):
        w = g.fresh("float", [level for _ in range(g.integer(1, 6)) for level in (0, 1)])
    parts = chunks(w.content, 1) or []
    width = g.integer(1, min(3, len(parts)))
    rest = len(parts) - width
    signals = [g.channel(None) for _ in range(width)]
    merged, finished = g.channel(), g.channel(None)
    g.unit("EagerMerge", signals, [merged, finished], {"rank": 0})
    g.unit("Consumer", [merged], [], {})
    spare, free = g.channel(), g.channel(None)
    keep = [selector([1], 2)] * rest + [selector([0], 2)] * width
    first = [selector([i], width) for i in range(width)]
    source = [selector([0], 2)] * width + [selector([1], 2)] * rest
    controls = [
        g.realise(g.given("selector", [0] * len(x), x)) for x in (keep, first, source)
    ]  # fmt: skip
    params = {"rank": 0, "switch": _switch(g, 2), "wb": False}
    g.unit("Partition", [finished, controls[0]], [spare, free], params)
    g.unit("Consumer", [spare], [], {})
    joined, steering = g.channel(None), g.channel(None)
    params = {"rank": 0, "switch": _switch(g, 2), "wb": False}
    g.unit("Reassemble", [controls[1], free, controls[2]], [joined], params)
    g.unit("Flatten", [joined], [steering], {"lo": 0, "hi": 1})
    lanes = [g.channel() for _ in range(width)]
    g.open = [wire for wire in g.open if wire is not w]
    params = {"rank": 1, "switch": _switch(g, width), "wb": g.flag()}
    g.unit("Partition", [g.realise(w), steering], lanes, params)
    for lane, signal in zip(lanes, signals, strict=True):
        worked = g.channel()
        params = {"fn": "Silu", "bw": g.pick([1024, 64, 16]), "wb": g.flag()}
        g.unit("UnaryMap", [lane], [worked], params)
        params = {"fn": "SignalReqAllRead", "bw": 0, "rank": 1, "init": [1, 1], "bpe": 8}
        g.unit("Accum", [worked], [signal], {**params, "wb": False})
    return True


ALL_RULES: dict[str, list[Rule]] = {
    kind: [*RULES.get(kind, []), *RULES_2026.get(kind, [])] for kind in {**RULES, **RULES_2026}
}
for _kind in ("float", "int", "selector"):
    ALL_RULES[_kind].insert(1, eager_merge)
for _kind in ("buffer", "tuple"):
    ALL_RULES[_kind] += [eager_merge, split_and_join]
for _kind in ("float", "tuple"):
    ALL_RULES[_kind] += [record_map, record_accum, record_map_accum, record_scan, record_map]
ALL_RULES["int"].append(record_map)
ALL_RULES["float"] += [detour, split_and_join, eager_merge, recirculation, regions]
for _kind, _rules in SCAN_RULES.items():
    ALL_RULES[_kind] += _rules
