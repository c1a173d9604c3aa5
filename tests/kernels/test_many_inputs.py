"""Units of many inputs against the interpreter, and the tournament of a merge against a scan."""

from __future__ import annotations

from random import Random
from typing import Any

import numba
import pytest
from hypothesis import given, strategies as st

from stepsim.kernels.layout import INFINITY
from stepsim.kernels.units import merge
from stepsim.lowering import Network, TimingParams
from tests.engine_backend import run_engine
from tests.oracle.build import NetBuilder
from tests.oracle.compare import assert_same
from tests.oracle.interpreter import interpret
from tests.oracle.invariants import check_all
from tests.property_profile import profile

TILE = [1, 16, 2, 0, 1]
SIZES = st.one_of(st.integers(1, 9), st.integers(1, 300))
SEEDS = st.integers(0, 2**32 - 1)


def _builder(random: Random) -> NetBuilder:
    capacity = random.choice([1, 2, 8, None])
    return NetBuilder(TimingParams(closure_slack=random.choice([0, 0, 1])), capacity)


def _source(b: NetBuilder, random: Random, name: str, levels: list[int]) -> None:
    """Stamps and publications that often tie: at given times, by work, or all at once."""
    latest = random.choice([1, 6, 60])
    times = [random.randint(0, latest) for _ in levels]
    op = random.choice(["At", "Paced", "Src", "Gen"])
    tokens = [{"tile": TILE, "level": level} for level in levels]
    rules: dict[str, Any] = {
        "At": {"times": sorted(times), "tail": random.choice([0, 0, 9])},
        "Paced": {"times": sorted(times), "tail": random.choice([0, 0, 9])},
        "Src": {"n": random.choice([0, 1, 5])},
        "Gen": {},
    }[op]
    b.unit(f"source {name}", op, [], [name], tokens=tokens, **rules)


def _sink(b: NetBuilder, random: Random, name: str) -> None:
    if random.random() < 0.5:
        b.unit(f"sink {name}", "Consumer", [name], [])
    else:
        b.unit(f"sink {name}", "Hold", [name], [], n=random.randint(0, 3))


def merging(inputs: int, seed: int) -> Network:
    """One merge; some inputs end without a token, or in the middle of a chunk's wait."""
    random = Random(seed)
    b = _builder(random)
    rank = random.choice([0, 0, 1])
    most = random.choice([1, 3, 12 if inputs < 60 else 3])
    names = [f"in{i}" for i in range(inputs)]
    for name in names:
        chunks = random.choice([0, most, random.randint(0, most)])
        length = random.randint(1, 3) if rank else 1
        if rank == 0 and random.random() < 0.2:
            tokens = [{"tile": TILE, "level": 0}] * random.randint(0, 1)
            b.late(name, tokens, random.randint(0, 70))
            continue
        _source(b, random, name, ([0] * (length - 1) + [rank]) * chunks)
    b.unit("merge", "EagerMerge", names, ["out", "which"], rank=rank)
    _sink(b, random, "out")
    _sink(b, random, "which")
    return b.network()


def reassembling(inputs: int, seed: int) -> Network:
    """One reassemble of selectors of several inputs; some inputs may end too early."""
    random = Random(seed)
    b = _builder(random)
    chosen = [
        sorted(random.sample(range(inputs), random.choice([1, inputs, random.randint(1, inputs)])))
        for _ in range(random.randint(1, 4))
    ]
    names = [f"in{i}" for i in range(inputs)]
    missing = random.randrange(inputs) if random.random() < 0.2 else -1
    for i, name in enumerate(names):
        count = sum(i in one for one in chosen) - (i == missing)
        _source(b, random, name, [0] * max(0, count))
    tokens = [{"selector": one, "width": inputs, "level": 0, "rd": 0} for one in chosen]
    b.unit("selectors", "Src", [], ["which"], tokens=tokens, n=random.choice([0, 3]))
    switch = [random.choice([0, 1, 4]) for _ in names]
    b.unit("join", "Reassemble", [*names, "which"], ["out"], rank=0, switch=switch, wb=False)
    _sink(b, random, "out")
    return b.network()


def _scan(un: Any, state: Any, its: Any) -> tuple[int, int, int, int]:
    """Stamp and input of the first head, open inputs without one, and the latest known pace."""
    first, chosen, unsettled, settled_at = INFINITY, 0, 0, -1
    for i in range(un.nin):
        ch = state.channels[state.parameters[its.data + i]]
        if ch.removed != ch.sent:
            token = state.slots[ch.start + (ch.removed & ch.mask)]
            if token.stamp < first:
                first, chosen = int(token.stamp), i
            # Below 0 the release time is a mark: the producer parked.
            settled_at = max(settled_at, int(token.pub), -int(token.hrel))
        elif ch.closed:
            settled_at = max(settled_at, int(ch.hclose) + 1 - int(state.globals[0].slack))
        else:
            unsettled += 1
    return first, chosen, unsettled, settled_at


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the compiler, every plan is compared with one by a scan of all inputs."""
    if not numba.config.DISABLE_JIT:
        return
    look = merge._look

    def checked(un: Any, state: Any, its: Any) -> None:
        look(un, state, its)
        first, chosen, unsettled, settled_at = _scan(un, state, its)
        root = merge._node(un, 1)
        assert state.scratch[root] == first
        assert un.unsettled == unsettled
        if first < INFINITY:
            assert state.scratch[root + 1] == chosen
            # What left the inputs is no later than the pace.
            assert max(un.h, un.settled_at) == max(un.h, settled_at)

    monkeypatch.setattr(merge, "_look", checked)


def _agree(network: Network) -> None:
    engine = run_engine(network)
    assert_same(engine, interpret(network), accounts=True, names=("engine", "interpreter"))
    check_all(network, engine)


@pytest.mark.usefixtures("scanned")
@profile(25, 500)
@given(inputs=st.integers(1, 40), seed=SEEDS)
def test_plans_are_those_of_a_scan(inputs: int, seed: int) -> None:
    _agree(merging(inputs, seed))


@pytest.mark.slow
@profile(40, 1500)
@given(inputs=SIZES, seed=SEEDS)
def test_merges_of_many_inputs_agree(inputs: int, seed: int) -> None:
    _agree(merging(inputs, seed))


@pytest.mark.slow
@profile(40, 1500)
@given(inputs=SIZES, seed=SEEDS)
def test_reassembles_of_many_inputs_agree(inputs: int, seed: int) -> None:
    _agree(reassembling(inputs, seed))
