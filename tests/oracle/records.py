"""Functions given as records: what one application makes of its operands, and how long it takes.

Written from the description of records alone. Sides are numbered: operand ``i`` has rows ``2 i``
and columns ``2 i + 1``, result ``j`` of ``n`` operands has ``2 (n + j)`` and ``2 (n + j) + 1``. The
operands are the states of an accumulation, then the elements.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tests.oracle.fabric import Abort, Payload
from tests.oracle.payloads import ceil_div, tile

__all__ = ["LARGEST_SIDE", "apply_record"]

LARGEST_SIDE = 2**20
_MOST_WORK = 2**62


def _evaluate(polynomial: list[Any], sides: list[int]) -> int:
    return sum(factor * prod(sides[i] for i in chosen) for factor, chosen in polynomial)


def _length(rule: dict[str, Any], sides: list[int]) -> int:
    if "poly" in rule:
        length = _evaluate(rule["poly"], sides)
    else:
        lengths = {sides[i] for i in rule["broadcast"]}
        wide = lengths - {1}
        if len(wide) > 1:
            raise Abort(f"sides {sorted(wide)} cannot be broadcast: make them equal or 1")
        length = wide.pop() if wide else 1
    if not 0 <= length <= LARGEST_SIDE:
        raise Abort(f"a side of {length}: tiles have sides from 0 to {LARGEST_SIDE}")
    return length


def _adopted(record: dict[str, Any], sides: list[int]) -> list[int]:
    sides = list(sides)
    for state, rows, cols, when in record["adopts"]:
        empty = [sides[2 * state] == 0, sides[2 * state + 1] == 0]
        if {"any": any(empty), "both": all(empty), "rows": empty[0], "cols": empty[1]}[when]:
            taken = [_length({"poly": rows}, sides), _length({"poly": cols}, sides)]
            sides[2 * state : 2 * state + 2] = taken
    return sides


def _check(checks: list[Any], sides: list[int]) -> None:
    for side, polynomial in checks:
        expected = _evaluate(polynomial, sides)
        if sides[side] != expected:
            raise Abort(f"side {side} is {sides[side]}, expected {expected}")


def _valid(rule: list[Any], rows: int, operands: list[Payload]) -> int:
    def high(listed: list[int]) -> list[int]:
        tiles = [operands[i]["tile"] for i in listed]
        return [off for height, _, _, _, off in tiles if height == rows]

    def off(i: int) -> int:
        return int(operands[i]["tile"][4])

    name, *given = rule
    if name == "rows":
        return rows
    if name == "first":
        return next(iter(high(given[0])), rows)
    if name == "max":
        return max(high(given[0]), default=rows)
    if name == "value":
        found = int(operands[given[0]].get("value", 0))
    elif name == "sum":
        found = sum(off(i) for i in given[0])
    elif name == "slice":
        found = min(max(off(given[0]) - int(given[1]), 0), rows)
    elif name == "append":
        found = off(given[0]) + int(operands[given[1]]["tile"][0])
    elif name == "packed":
        if 0 < off(given[1]) < operands[given[1]]["tile"][0]:
            raise Abort("a tile with some valid rows cannot be packed")
        found = off(given[0]) + off(given[1])
    elif name == "slice":
        return min(max(off(given[0]) - given[1], 0), rows)
    else:
        raise ValueError(f"unknown rule for valid rows {rule}")
    if not 0 <= found <= rows:
        raise Abort(f"{found} valid rows of a tile of {rows}")
    return found


def _number(rule: list[Any] | None, operands: list[Payload]) -> int:
    if rule is None:
        return 0
    if rule[0] == "constant":
        return int(rule[1])
    first = int(operands[rule[1]].get("value", 0))
    if rule[0] == "keep":
        return first
    if rule[0] == "equal":
        return int(first == rule[2])
    if rule[0] == "address":
        length = int(operands[rule[2]].get("value", 0))
        if length < 1:
            raise Abort(f"a request of length {length} has no last tile")
        return first * int(rule[3]) + length - 1
    if rule[0] in ("plus", "minus", "times", "divided"):
        made = _arithmetic(rule[0], first, int(rule[2]))
    elif rule[0] == "select":
        made = int(operands[rule[2 if first else 3]].get("value", 0))
    else:
        made = _arithmetic(rule[0], first, int(operands[rule[2]].get("value", 0)))
    if not 0 <= made < 2**63:
        raise Abort(f"{rule[0]} makes {made} of {first}")
    return made


def _arithmetic(name: str, a: int, b: int) -> int:
    if name in ("plus", "add"):
        return a + b
    if name in ("minus", "sub"):
        return a - b
    if name in ("times", "mul"):
        return a * b
    if name == "divided":
        return a // b
    if name in ("max", "min"):
        return max(a, b) if name == "max" else min(a, b)
    return int({"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b}[name])


def apply_record(
    record: dict[str, Any], operands: list[Payload], bw: int, wb: bool, model: str
) -> tuple[int, list[Payload]]:
    """Cycles and results of one firing; Abort when the operands do not fit."""
    if len(operands) != record["operands"]:
        raise Abort(f"{len(operands)} operands, expected {record['operands']}")
    if any("tile" not in x for x in operands):
        raise Abort("a function works on tiles")
    n, states = record["operands"], record["states"]
    sides = _adopted(record, [side for x in operands for side in x["tile"][:2]])
    of_results = [
        check
        for check in record["checks"]
        if max([check[0], *(i for _, chosen in check[1] for i in chosen)]) >= 2 * n
    ]
    _check([check for check in record["checks"] if check not in of_results], sides)
    for i, j in record["same_bits"]:
        if operands[i]["tile"][2] != operands[j]["tile"][2]:
            raise Abort(f"operands {i} and {j} have elements of different widths")
    for result in record["results"]:
        made = [_length(result[side], sides) for side in ("rows", "cols")]
        sides = [*sides, *made]
    _check(of_results, sides)
    flops, cycles = _evaluate(record["flops"], sides), _evaluate(record["cycles"], sides)
    if not (0 <= flops < _MOST_WORK and 0 <= cycles < _MOST_WORK):
        raise Abort(f"{flops} FLOPs and {cycles} cycles cannot be charged")
    results = []
    for j, result in enumerate(record["results"]):
        rows, cols = sides[2 * (n + j) : 2 * (n + j) + 2]
        bits = result["bits"]
        width = bits / 8 if isinstance(bits, int) else operands[bits[1]]["tile"][2]
        valid = result["valid"]
        if model == "step-2026" and states and valid == ["rows"] and "broadcast" in result["rows"]:
            valid = ["first", [*range(states, n), j]]
        off = _valid(valid, rows, operands)
        rd = wb if result["rd"] is None else operands[result["rd"][1]]["tile"][3]
        y = tile(rows, cols, int(width) if width == int(width) else width, rd, off)
        if width == 8:  # the integer tiles, with content
            y["value"] = _number(result["value"], operands)
        results.append(y)
    return (ceil_div(flops, bw) if flops else 0) + cycles, results
