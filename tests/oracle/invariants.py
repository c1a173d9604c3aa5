"""Laws that every run obeys, checked on the result alone; usable for any backend.

The dequeue clocks (``taken``) are optional in the result protocol; the checks that need them are
skipped for backends that do not record them.
"""

from __future__ import annotations

from math import prod
from typing import Any

from stepsim.lowering.network import Network, UnitSpec
from tests.oracle.compare import account_of, state_of

__all__ = [
    "check_accounts",
    "check_all",
    "check_clocks",
    "check_conservation",
    "check_depth",
    "check_dequeues",
    "check_run_length",
]

# One token out on every output for every token in, on every input.
_ONE_TO_ONE = frozenset(
    {"UnaryMap", "BinaryMap", "Scan", "Zip", "Flatten", "Promote", "PromoteOuter", "Broadcast"}
    | {"RandomOffChipLoad", "RandomOffChipStore"}
)


def check_all(network: Network, result: Any) -> None:
    """Every law of this module."""
    check_conservation(network, result)
    check_depth(network, result)
    check_dequeues(network, result)
    check_clocks(network, result)
    check_accounts(network, result)
    check_run_length(network, result)


def _names(network: Network, indices: tuple[int, ...]) -> list[str]:
    return [network.channels[i].name for i in indices]


def _state(result: Any, unit: UnitSpec) -> str:
    return state_of(result.unit_status[unit.name])


def check_conservation(network: Network, result: Any) -> None:
    """Tokens are neither lost nor invented."""
    for spec in network.channels:
        sent, removed = len(result.tokens[spec.name]), result.removed[spec.name]
        assert 0 <= removed <= sent, f"channel {spec.name}: {removed} removed of {sent} sent"
    for unit in network.units:
        if _state(result, unit) != "done":
            continue
        taken = [result.removed[name] for name in _names(network, unit.inputs)]
        made = [len(result.tokens[name]) for name in _names(network, unit.outputs)]
        if unit.op in _ONE_TO_ONE:
            assert len({*taken, *made}) == 1, f"{unit.name}: took {taken}, made {made}"
        elif unit.op == "EagerMerge":
            assert sum(taken) == made[0], f"{unit.name}: took {taken}, made {made}"
        elif unit.op == "Reassemble":
            assert sum(taken[:-1]) == made[0], f"{unit.name}: took {taken}, made {made}"
        elif unit.op == "Parallelize":
            assert taken[0] == sum(made), f"{unit.name}: took {taken}, made {made}"
        elif unit.op == "RepeatStatic":
            f = unit.params["f"]
            n = prod(f) if isinstance(f, list) else f
            assert taken[0] * n == made[0], f"{unit.name}: took {taken}, made {made}, factor {f}"
        elif unit.op in ("StaticReassemble", "ContextDeinterleave", "ContextInterleave"):
            assert sum(taken) == sum(made), f"{unit.name}: took {taken}, made {made}"
        elif unit.op == "ReshapePadStream":
            assert taken[0] <= made[0] == made[1], f"{unit.name}: took {taken}, made {made}"


def check_depth(network: Network, result: Any) -> None:
    """A FIFO never holds more than its capacity.

    Token k needs the slot of token k - C: removed at clock d, that slot is free at d + 1, and the
    new token is visible one cycle later.
    """
    dequeues = getattr(result, "taken", None)
    for spec in network.channels:
        if spec.capacity is None:
            continue
        tokens, removed = result.tokens[spec.name], result.removed[spec.name]
        held = len(tokens) - removed
        assert held <= spec.capacity, f"channel {spec.name} holds {held} of {spec.capacity}"
        if dequeues is None:
            continue
        for k in range(spec.capacity, len(tokens)):
            freed = dequeues[spec.name][k - spec.capacity] + 1
            assert tokens[k][0] >= freed + 1, (
                f"channel {spec.name}: token {k} stamped {tokens[k][0]}, slot free at {freed}"
            )


def check_dequeues(network: Network, result: Any) -> None:
    """Dequeue clocks of a port never go back and never precede the stamp of the token."""
    dequeues = getattr(result, "taken", None)
    if dequeues is None:
        return
    for spec in network.channels:
        clocks, tokens = dequeues[spec.name], result.tokens[spec.name]
        assert len(clocks) == result.removed[spec.name]
        assert clocks == sorted(clocks), f"channel {spec.name}: dequeue clocks go back: {clocks}"
        for k, clock in enumerate(clocks):
            assert clock >= tokens[k][0], f"channel {spec.name}: token {k} taken before its stamp"


def check_clocks(network: Network, result: Any) -> None:
    """Pace never exceeds the clock; publications are ordered and never after the stamp."""
    for spec in network.channels:
        pubs = [token[3] for token in result.tokens[spec.name]]
        assert pubs == sorted(pubs), f"channel {spec.name}: publications go back: {pubs}"
        for stamp, _, _, pub in result.tokens[spec.name]:
            assert 1 <= pub <= stamp, f"channel {spec.name}: published at {pub}, stamped {stamp}"
    for unit in network.units:
        clock, pace = result.final_clock[unit.name], result.final_pace[unit.name]
        assert 0 <= pace <= clock, f"{unit.name}: pace {pace}, clock {clock}"


def check_accounts(network: Network, result: Any) -> None:
    """The account of every unit adds up to the length of the run."""
    accounts = getattr(result, "accounts", None)
    if accounts is None:
        return
    for unit in network.units:
        account = account_of(accounts[unit.name])
        parts = [account["busy"], account["before"], account["after"], account["memory"]]
        parts += [*account["wait_in"].values(), *account["wait_out"].values()]
        assert min(parts) >= 0, f"{unit.name}: negative part in {account}"
        expected = max(result.cycles, result.final_clock[unit.name])
        assert sum(parts) == expected, f"{unit.name}: {account} does not add up to {expected}"
        assert set(account["wait_in"]) <= set(_names(network, unit.inputs)), unit.name
        assert set(account["wait_out"]) <= set(_names(network, unit.outputs)), unit.name


def check_run_length(network: Network, result: Any) -> None:
    """The run is as long as the unit that returned last, the memory node included."""
    done = [u for u in network.units if _state(result, u) == "done"]
    ends = [result.final_clock[u.name] for u in done]
    memory = [result.final_clock[u.name] for u in done if "OffChip" in u.op]
    node_end = max(memory) + 3 if memory else 0
    found = result.memory_node_end
    assert found == node_end, f"memory node ends at {found}, last operator + 3 is {node_end}"
    longest = max([0, *ends, found])
    assert result.cycles == longest, f"{result.cycles} cycles, the last unit returns at {longest}"
