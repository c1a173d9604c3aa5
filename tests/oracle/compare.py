"""Compare two runs of the same network, whatever backend they come from.

The result protocol is that of :class:`tests.oracle.interpreter.OracleResult`: ``cycles``,
``memory_node_end``, ``final_clock``, ``final_pace``, ``tokens``, ``removed``, ``unit_status``,
``status`` and, for :func:`assert_same_accounts`, ``accounts``. A unit status may be an object with
``state`` or the state itself; an account may be an object or a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["account_of", "assert_same", "assert_same_accounts", "state_of"]

_PARTS = ("busy", "before", "after", "memory", "wait_in", "wait_out")


def state_of(status: Any) -> str:
    """ "done", "failed" or "blocked"."""
    return str(getattr(status, "state", status))


def account_of(account: Any) -> dict[str, Any]:
    """An account as a plain dict, without empty waits."""
    get = account.__getitem__ if isinstance(account, Mapping) else lambda k: getattr(account, k)
    parts = {part: get(part) for part in _PARTS}
    for side in ("wait_in", "wait_out"):
        parts[side] = {channel: cycles for channel, cycles in parts[side].items() if cycles}
    return parts


def assert_same(
    a: Any, b: Any, *, accounts: bool = False, names: tuple[str, str] = ("a", "b")
) -> None:
    """Both runs have the same tokens, clocks, cycles and statuses.

    What has no defined value is left out: the clocks of units that did not finish, and the length
    of a run in which a unit is blocked.
    """
    states_a = {unit: state_of(status) for unit, status in a.unit_status.items()}
    states_b = {unit: state_of(status) for unit, status in b.unit_status.items()}
    problems = _differences("status of unit", states_a, states_b)
    problems += _token_differences(a.tokens, b.tokens)
    problems += _differences("tokens removed from", dict(a.removed), dict(b.removed))
    done = [unit for unit, state in states_a.items() if state == "done"]
    for what, of_a, of_b in (
        ("final clock of", a.final_clock, b.final_clock),
        ("final pace of", a.final_pace, b.final_pace),
    ):
        problems += _differences(what, _only(of_a, done), _only(of_b, done))
    if "blocked" not in states_a.values():
        problems += _differences("", {"cycles": a.cycles}, {"cycles": b.cycles})
        ends = {"memory node end": a.memory_node_end}, {"memory node end": b.memory_node_end}
        problems += _differences("", *ends)
    problems += _differences("", {"overall status": a.status}, {"overall status": b.status})
    assert not problems, _report(problems, names)
    if accounts:
        assert_same_accounts(a, b, names=names)


def assert_same_accounts(a: Any, b: Any, *, names: tuple[str, str] = ("a", "b")) -> None:
    """The accounts of all finished units are the same; nothing to compare in a blocked run."""
    states = {unit: state_of(status) for unit, status in a.unit_status.items()}
    if "blocked" in states.values():
        return
    problems: list[str] = []
    for unit, state in states.items():
        if state == "done":
            of_a, of_b = account_of(a.accounts[unit]), account_of(b.accounts[unit])
            problems += _differences(f"account of {unit}:", of_a, of_b)
    assert not problems, _report(problems, names)


def _only(values: Mapping[str, int], keep: list[str]) -> dict[str, int]:
    return {key: values[key] for key in keep if key in values}


def _differences(what: str, a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    keys = list(a) + [key for key in b if key not in a]
    missing = "(missing)"
    return [
        f"{what} {key}: {a.get(key, missing)} != {b.get(key, missing)}".strip()
        for key in keys
        if a.get(key, missing) != b.get(key, missing)
    ]


def _token_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    problems = []
    for channel in a:
        if channel not in b:
            problems.append(f"channel {channel}: missing")
            continue
        left, right = [tuple(t) for t in a[channel]], [tuple(t) for t in b[channel]]
        if left == right:
            continue
        k = next(
            (i for i, (x, y) in enumerate(zip(left, right, strict=False)) if x != y),
            min(len(left), len(right)),
        )
        shown = [repr(side[k]) if k < len(side) else "(no such token)" for side in (left, right)]
        problems.append(
            f"channel {channel} ({len(left)} vs {len(right)} tokens), first difference at token "
            f"{k} (stamp, level, payload, pub): {shown[0]} != {shown[1]}"
        )
    problems += [f"channel {channel}: unexpected" for channel in b if channel not in a]
    # The difference with the earliest stamp is usually the cause of the others.
    return sorted(problems, key=lambda line: _first_stamp(line, a, b))


def _first_stamp(line: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> int:
    channel = line.split()[1].rstrip(":")
    if channel not in a or channel not in b:
        return -1
    pairs = zip(a[channel], b[channel], strict=False)
    return min((min(x[0], y[0]) for x, y in pairs if tuple(x) != tuple(y)), default=1 << 62)


def _report(problems: list[str], names: tuple[str, str], limit: int = 25) -> str:
    shown = problems[:limit]
    if len(problems) > limit:
        shown.append(f"... and {len(problems) - limit} more")
    return f"{names[0]} != {names[1]}:\n  " + "\n  ".join(shown)
