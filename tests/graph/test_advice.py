"""What messages advise is what can be done."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import stepsim.graph as st
from stepsim.errors import ArgError, RankError, StepError
from stepsim.graph import fn
from tests.graph.support import scratch, tiles


@pytest.fixture(autouse=True)
def program() -> Iterator[st.Program]:
    with scratch(compute_bw=8) as p:
        yield p


def test_constants_are_no_multiples(program: st.Program) -> None:
    with pytest.raises(ArgError, match=r"dim 0 = 10 is no multiple of 4\. Pass pad=0"):
        tiles(10).reshape(4)
    with pytest.raises(ArgError, match=r"dim 0 = n is not known to be a multiple of 4\."):
        tiles(program.dim("n")).reshape(4)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: tiles(2, 3).accum(fn.add, 2), "2 does not fit [2, 3] of rank 1. Choose rank = 1"),
        (lambda: tiles(2, 3, 4).accum(fn.add, 3), "Choose 1 <= rank <= 2"),
        (lambda: tiles(2).accum(fn.add, 1), "The stream has too few dims"),
        (
            lambda: st.linear_load(st.spec(8, 8), (8, 8), ref=tiles(8), trigger_rank=1),
            "[8] has no inner dims; leave trigger_rank out",
        ),
        (
            lambda: st.linear_load(st.spec(8, 8), (8, 8), ref=tiles(8, 2), trigger_rank=2),
            "Choose 0 <= trigger_rank <= 1",
        ),
    ],
)  # fmt: skip
def test_ranks_to_choose(make: Callable[[], st.Stream], advice: str) -> None:
    with pytest.raises(RankError) as error:
        make()
    assert advice in str(error.value).splitlines()[0]  # the last has the source


@pytest.mark.parametrize(
    ("shape", "init", "message"),
    [
        ("m n; m n -> m n", [fn.zero((3, 8))], "the state of 'f' is Tile[2x8 bf16]"),
        ("m 1, m n; m n -> m 1, m n", [fn.zero((3, 1)), fn.zero((2, 8))], "state 1 of 'f' is Tile"),
        ("broadcast", [fn.zero((3, 8))], "'f': rows of the state Tile[3x8 bf16] and Tile[2x8"),
        ("m d; m n -> m d", [fn.zero((3, 5))], "rows of the state Tile[3x5 bf16] and rows of Tile"),
        ("m n; m n -> m n", [fn.zero((2, 8))] * 2, "init has 2 states, 'f' has 1: m n; m n"),
    ],
)
def test_states_are_distinguished_from_elements(
    shape: str, init: list[st.Init], message: str
) -> None:
    f = st.function("f", shape, 1)
    with pytest.raises(StepError) as error:
        tiles(3, 4, rows=2, cols=8).accum(f, 1, init)
    assert message in str(error.value).splitlines()[0]


def test_one_of_a_thing_is_singular() -> None:
    with pytest.raises(ArgError, match="init has 1 state, 'two' has 2: m n, m n; m n"):
        tiles(2, 3).accum(st.function("two", "m n, m n; m n -> m n, m n"), 1, fn.zero((1, 64)))
    with pytest.raises(ArgError, match="'exp' takes 1 operand, found 2"):
        st.map(fn.exp, tiles(2), tiles(2))
