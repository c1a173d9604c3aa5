"""The comparison and the invariants notice what they are there for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from stepsim.lowering.network import ChannelSpec, Network
from tests.oracle.build import NetBuilder
from tests.oracle.compare import assert_same, assert_same_accounts
from tests.oracle.example import tile_tokens
from tests.oracle.fabric import Account
from tests.oracle.interpreter import OracleResult, UnitStatus, interpret
from tests.oracle.invariants import check_all


@pytest.fixture(name="network")
def small_network() -> Network:
    b = NetBuilder(capacity=2)
    b.unit("source", "Gen", [], ["a"], tokens=tile_tokens([16, 16, 2, 1], [0, 0, 1, 0]))
    b.unit("map", "UnaryMap", ["a"], ["b"], fn="Silu", bw=205, wb=True)
    b.unit("store", "OffChipStore", ["b"], [], tile=[16, 16], par=2)
    return b.network()


def _with_token(result: OracleResult, channel: str, k: int, **changes: int) -> OracleResult:
    tokens = {name: list(items) for name, items in result.tokens.items()}
    tokens[channel][k] = tokens[channel][k]._replace(**changes)
    return replace(result, tokens=tokens)


def _shift(values: dict[str, int], key: str) -> dict[str, int]:
    return {**values, key: values[key] + 1}


CHANGES: dict[str, Callable[[OracleResult], OracleResult]] = {
    "channel b": lambda r: _with_token(r, "b", 2, stamp=r.tokens["b"][2].stamp + 1),
    "channel a": lambda r: _with_token(r, "a", 1, level=3),
    "token 3": lambda r: _with_token(r, "b", 3, pub=1),
    "no such token": lambda r: replace(r, tokens={**r.tokens, "b": r.tokens["b"][:-1]}),
    "final clock of map": lambda r: replace(r, final_clock=_shift(r.final_clock, "map")),
    "final pace of store": lambda r: replace(r, final_pace=_shift(r.final_pace, "store")),
    "tokens removed from a": lambda r: replace(r, removed=_shift(r.removed, "a")),
    "cycles": lambda r: replace(r, cycles=r.cycles + 1),
    "memory node end": lambda r: replace(r, memory_node_end=0),
    "overall status": lambda r: replace(r, status="failed"),
    "status of unit source": lambda r: replace(
        r, unit_status={**r.unit_status, "source": UnitStatus("blocked")}
    ),
}


@pytest.mark.parametrize("message", CHANGES)
def test_every_difference_is_reported(network: Network, message: str) -> None:
    result = interpret(network)
    assert_same(result, interpret(network), accounts=True)
    with pytest.raises(AssertionError, match=message):
        assert_same(result, CHANGES[message](result))


def test_differing_accounts_are_reported(network: Network) -> None:
    result = interpret(network)
    other = replace(result, accounts={**result.accounts, "map": Account(busy=1)})
    assert_same(result, other)
    with pytest.raises(AssertionError, match="account of map: busy"):
        assert_same_accounts(result, other)


BROKEN: dict[str, Callable[[OracleResult], OracleResult]] = {
    "took": lambda r: replace(r, tokens={**r.tokens, "b": [*r.tokens["b"], r.tokens["b"][-1]]}),
    "removed of": lambda r: replace(r, removed={**r.removed, "a": 99}),
    "slot free at": lambda r: _with_token(r, "a", 2, stamp=3),
    "taken before its stamp": lambda r: _with_token(r, "b", 3, stamp=10**6),
    "dequeue clocks go back": lambda r: replace(
        r, taken={**r.taken, "a": r.taken["a"][:2] + r.taken["a"][:1:-1]}
    ),
    "published at": lambda r: _with_token(r, "a", 3, pub=10**6),
    "publications go back": lambda r: _with_token(r, "b", 3, pub=1),
    "pace": lambda r: replace(r, final_pace={**r.final_pace, "map": 10**6}),
    "add up": lambda r: replace(r, accounts={**r.accounts, "map": Account(busy=1)}),
    "memory node ends at": lambda r: replace(r, memory_node_end=r.memory_node_end + 1),
}


@pytest.mark.parametrize("message", BROKEN)
def test_every_invariant_can_fail(network: Network, message: str) -> None:
    result = interpret(network)
    check_all(network, result)
    with pytest.raises(AssertionError, match=message):
        check_all(network, BROKEN[message](result))


def test_overfull_channels_are_noticed(network: Network) -> None:
    result = interpret(network)
    shallow = replace(network, channels=(ChannelSpec("a", 1), ChannelSpec("b", 2)))
    with pytest.raises(AssertionError, match="slot free at"):
        check_all(shallow, result)
