"""Growth rules for the further scans and reductions, and for maps of selectors."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.oracle.random_grower import Grower
from tests.oracle.random_ops import Rule
from tests.oracle.random_streams import BANDWIDTHS, Wire, shape_of

__all__ = ["SCAN_RULES", "accum_buffer", "general_scan", "row_stat", "steered"]

_IS = {side: [[1, [side]]] for side in range(8)}


def _result(rows: Any, cols: Any, element: int) -> dict[str, Any]:
    return {
        "rows": {"poly": rows}, "cols": {"poly": cols}, "valid": ["first", [element]],
        "bits": ["operand", element], "value": None, "rd": None,
    }  # fmt: skip


def _record(operands: int, states: int, results: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "name": "drawn", "operands": operands, "states": states, "checks": [], "same_bits": [],
        "adopts": [], "results": results, "flops": [], "cycles": [], **more,
    }  # fmt: skip


def _running(g: Grower, states: int) -> dict[str, Any]:
    """States of the size of the elements."""
    results = [_result(_IS[2 * j], _IS[2 * j + 1], states) for j in range(states)]
    adopts = [[j, _IS[2 * states], _IS[2 * states + 1], "any"] for j in range(states)]
    cost = [[g.integer(1, 5), [2 * states, 2 * states + 1]]]
    return _record(
        states + 1, states, results, adopts=adopts, flops=cost, cycles=[[g.integer(0, 2), []]]
    )


def _groups(w: Wire, rank: int) -> list[int]:
    lengths, seen = [], 0
    for level in w.levels:
        seen += 1
        if level >= rank:
            lengths.append(seen)
            seen = 0
    return [*lengths, seen] if seen else lengths


def _accumulation(g: Grower, w: Wire, states: int) -> dict[str, Any] | None:
    shape = shape_of(w)
    if not (w.exact and shape and w.kind == "float"):
        return None
    rank = g.integer(1, max(1, w.top))
    if states == 1 and g.flag():
        fn: Any = "Add"
        sides = g.pick([list(shape), list(shape), [0, 0], [shape[0], 1]])
    else:
        fn, sides = _running(g, states), g.pick([list(shape), list(shape), [0, shape[1]]])
    return {
        "fn": fn, "bw": g.pick(BANDWIDTHS), "wb": g.flag(), "rank": rank,
        "init": [[*sides, g.bpe]] * states,
    }  # fmt: skip


def general_scan(g: Grower, w: Wire) -> bool:
    states = g.pick([1, 1, 2])
    params = _accumulation(g, w, states)
    if params is None:
        return False
    ins, outs = [w], 1
    params |= {"exclusive": g.flag(), "counted": g.flag(), "second": None}
    kind = g.integer(0, 2)
    if kind == 1:
        ins.append(g.fresh("float", w.levels))
        sizes = [_result(_IS[0], [[1, [1]], [g.integer(0, 1), []]], 0)]
        if g.flag():
            sizes.append(_result(_IS[2], _IS[3], 1))
        cost = [[g.integer(1, 3), [0, 3]]]
        params["second"] = _record(states + 1, 0, sizes, flops=cost)
    elif kind == 2:
        params["exclusive"], outs = False, 2
    if params["counted"]:
        lengths = _groups(w, params["rank"])
        tokens = [{"tile": [1, 1, 8, 0, 1], "value": n} for n in lengths]
        ins.append(g.given("int", [0] * len(tokens), tokens))
    shown = len(params["second"]["results"]) if kind == 1 else states
    kinds = ["tuple" if shown > 1 else "float"] * outs
    return bool(g.add("GeneralScan", params, ins, kinds))


def row_stat(g: Grower, w: Wire) -> bool:
    params = _accumulation(g, w, 1)
    shape = shape_of(w)
    if params is None or shape is None:
        return False
    sums = _record(
        2, 1, [_result(_IS[2], [[1, []]], 1)], adopts=[[0, _IS[2], [[1, []]], "any"]],
        checks=[[0, _IS[2]], [1, [[1, []]]]], flops=[[g.pick([1, 3]), [2, 3]]],
    )  # fmt: skip
    finish = _record(1, 0, [_result(_IS[0], _IS[1], 0)], flops=[[g.pick([1, 4]), [0]]])
    sides = g.pick([[0, 1], [shape[0], 1]])
    params |= {"fn": sums, "finish": finish, "init": [[*sides, g.bpe]]}
    return bool(g.add("AccumRowStat", params, [w], ["float"]))


def accum_buffer(g: Grower, w: Wire) -> bool:
    params = _accumulation(g, w, 1)
    if params is None:
        return False
    params["dims"] = g.draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    outs = g.add("AccumBuffer", params, [w], ["buffer"])
    for out in outs or []:
        out.rank = len(params["dims"])
    return bool(outs)


_MOST_FLAGS = 12
"""More of them are refused where the image lists all sets."""


def _width(w: Wire) -> int | None:
    widths = {payload["width"] for payload in w.payloads}
    return widths.pop() if len(widths) == 1 and w.exact else None


def _map(g: Grower, name: str, width: int) -> dict[str, Any]:
    return {"fn": name, "width": width, "cycles": g.integer(0, 2), "wb": g.flag()}


def selector_logic(g: Grower, w: Wire) -> bool:
    """Not of a selector, or two selectors in one."""
    width = _width(w)
    if width is None or width > _MOST_FLAGS:
        return False
    others = [v for v in g.open if v is not w and v.kind == "selector" and v.levels == w.levels]
    other = g.choose([v for v in others if _width(v) == width])
    if other is None or g.flag():
        return bool(g.add("SelectorMap", _map(g, "Not", width), [w], ["selector"]))
    params = _map(g, g.pick(["And", "Or", "Xor"]), width)
    return bool(g.add("SelectorMap", params, [w, other], ["selector"]))


def selector_number(g: Grower, w: Wire) -> bool:
    """A number of a selector."""
    width = _width(w)
    if width is None or width > _MOST_FLAGS:
        return False
    hot = all(len(payload["selector"]) == 1 for payload in w.payloads)
    name = "SelectToScalar" if hot and g.flag() else "MultiHotToInteger"
    return bool(g.add("SelectorMap", _map(g, name, width), [w], ["int"]))


def steered(g: Grower, w: Wire) -> bool:
    """A selector of a number."""
    values = [payload.get("value", 0) for payload in w.payloads]
    most = max(values, default=0)
    if not w.exact or min(values, default=0) < 0 or most > 200:
        return False
    if g.flag():
        params = _map(g, "IndexToMultiHot", most + g.integer(1, 2))
    else:
        params = _map(g, "IntegerToMultiHot", max(1, most.bit_length()))
    return bool(g.add("SelectorMap", params, [w], ["selector"]))


SCAN_RULES: dict[str, list[Rule]] = {
    "float": [general_scan, row_stat, accum_buffer],
    "int": [steered],
    "selector": [selector_logic, selector_number],
}
