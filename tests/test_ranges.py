"""Messages of ranges: the limits that are printed are those that hold."""

from __future__ import annotations

import re
from typing import Any

import pytest

import stepsim as st
from stepsim.arguments import Range, label_of
from stepsim.errors import ArgError
from stepsim.graph import fn
from stepsim.graph.sizes import limits
from stepsim.simulation.programs.prepared import SEED
from stepsim.trace_io.routing import reading as routing
from tests.graph.support import scratch, tiles

RANGES = {
    f"{module.__name__}.{name}": value
    for module in (limits, routing)
    for name, value in vars(module).items()
    if isinstance(value, Range)
} | {"SEED": SEED}


@pytest.mark.parametrize("name", RANGES)
def test_printed_limits_hold(name: str) -> None:
    limits = RANGES[name]
    message = limits.refusal("it", None)
    found = re.search(r"an int from (-?\d+) to ([0-9* -]+), found None", message)
    assert found is not None, message
    low, high = int(found[1]), eval(found[2])
    assert limits.checked("it", low) == low
    assert limits.checked("it", high) == high
    for beyond in (low - 1, high + 1):
        with pytest.raises(ArgError, match="it must be an int from"):
            limits.checked("it", beyond)


@pytest.mark.parametrize(
    ("high", "text"),
    [
        (4096, "4096"), (5000, "5000"), (2**13, "2**13"), (2**31 - 1, "2**31 - 1"),
        (2**128 - 1, "2**128 - 1"), (2**50, "2**50"), (2**50 + 1, str(2**50 + 1)),
    ],
)  # fmt: skip
def test_large_limits_are_powers(high: int, text: str) -> None:
    assert f"from 1 to {text}, found 0 (why)" in Range(high, "why").refusal("it", 0)


def test_a_label_is_a_string() -> None:
    with pytest.raises(ArgError, match="it must be a string or None, found 3"):
        label_of("it", 3)


def load(**walk: Any) -> st.Stream:
    return st.linear_load(st.spec(16, 8), **({"tile": (4, 8)} | walk))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: load(tile=16), r"tile must be two ints \(rows, columns\), found 16"),
        (lambda: load(tile=(1, 2, 3)), r"tile must be two ints \(rows, columns\), found \(1, 2, 3"),
        (lambda: fn.zero(4), r"zero: shape must be two ints \(rows, columns\), found 4"),
        (lambda: load(base=-1), r"base must be .*\(tiles or bytes before the first\)"),
        (
            lambda: load(shape=(-1,), stride=(1,)),
            r"shape\[0\] .*\(tiles along each dim",
        ),
        (lambda: load(shape=(1,), stride=(-1,)), r"stride\[0\] .*\(tiles from one step of a walk"),
        (
            lambda: tiles(2, 2).bufferize(1).streamify(shape=(1,), stride=(-1,)),
            r"stride\[0\] .*\(tiles from one step of a walk to the next\)",
        ),
        (
            lambda: tiles(2, 2).bufferize(1).streamify(repeat=0),
            r"repeat .*\(times that each element is repeated\)",
        ),
        (
            lambda: st.parallelize(tiles(4), 2, switch_cycles=-1),
            r"switch_cycles .*\(cycles that a change of stream takes\)",
        ),
    ],
)
def test_a_refusal_says_what_is_counted(make: Any, message: str) -> None:
    with scratch(), pytest.raises(ArgError, match=message):
        make()
