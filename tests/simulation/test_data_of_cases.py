"""A case runs the data that its program was built for, and refuses other data by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepsim.errors import ArgError
from stepsim.simulation.cases.case import Case, make_case
from stepsim.workloads import Data

SMALL = {"model_dim": 64, "attention": {"heads": 4, "kv_heads": 2, "head_dim": 16}}


def attention(lengths: list[int]) -> Case:
    return make_case("attention", Data.of(kv_lengths=lengths), model=SMALL, kv_tile=16, regions=2)


USES: list[Callable[[Case, Data], Any]] = [
    Case.result,
    Case.run,
    Case.run_with_units,
    Case.bound,
    Case.counted,
    Case.describe,
    lambda case, data: case.measures(case.run(Data.of(kv_lengths=[20, 30])), data),
]


@pytest.mark.parametrize("use", USES)
def test_other_cached_tokens_are_refused(use: Callable[[Case, Data], Any]) -> None:
    case = attention([20, 30])
    with pytest.raises(ArgError) as caught:
        use(case, Data.of(kv_lengths=[20, 3000]))
    assert str(caught.value) == (
        "attention: kv_lengths: expected those that the program was built from, which they "
        "decide, found others; build a program of these data with make_case"
    )


def test_another_number_of_requests_is_named_too() -> None:
    with pytest.raises(ArgError, match=r"attention: rows, kv_lengths: expected those"):
        attention([20, 30]).result(Data.of(kv_lengths=[20, 30, 40]))


def test_equal_data_run() -> None:
    assert attention([20, 30]).result(Data.of(kv_lengths=[20, 30])).cycles > 0


def test_data_that_are_bound_to_the_program_may_differ() -> None:
    first, second = (Data.of(routing=[[0, 1]] * 7 + [[last, 3]]) for last in (1, 2))
    case = make_case(
        "moe", first, model={"model_dim": 64, "experts": {"count": 4, "active": 2,
        "inner_dim": 64}}, tile=4,
    )  # fmt: skip
    other = make_case("moe", second, model=case.resolved.workload.model, tile=4)
    assert case.result(second).cycles == other.result(second).cycles
