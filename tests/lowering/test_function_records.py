"""Records of functions that are not: what is wrong is named, and nothing is ignored."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from stepsim.errors import LoweringError
from stepsim.graph.published_functions import ACCUMULATIONS, MAP_ACCUMULATIONS, MAPS
from stepsim.lowering import build_image
from tests.lowering.support import one_unit

PARAMS: dict[str, Any] = {"bw": 64, "wb": False}
INIT: dict[str, Any] = {"init": [[1, 1, 2]], "rank": 1}


def refused(op: str, inputs: int = 1, **params: Any) -> str:
    with pytest.raises(LoweringError) as caught:
        build_image(one_unit(op, inputs, **{**PARAMS, **params}))
    return str(caught.value)


def changed(place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The record of Silu with one entry replaced."""
    record = deepcopy(MAPS["Silu"])
    at: Any = record
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    return record


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("operands",), 0, "operands is 0, expected an int from 1 to 1024"),
        (("operands",), True, "operands is True, expected an int from 1 to 1024"),
        (("states",), 1, "states is 1, expected an int from 0 to 0"),
        (("more",), 1, "the record has an unknown entry 'more'"),
        (("results",), [], "it has 0 results"),
        (("results",), 3, "results is 3, expected a list"),
        (("results", 0), 3, "result 0 is 3, expected a dict"),
        (("results", 0, "rows"), {"poly": [[1, [2]]]},
         "a side in rows of result 0 is 2, expected an int from 0 to 1"),
        (("results", 0, "rows"), {"broadcast": []}, "rows of result 0 broadcasts no side"),
        (("results", 0, "cols"), ["side", 0],
         "cols of result 0 is ['side', 0], expected {'poly': ...} or {'broadcast': ...}"),
        (("results", 0, "bits"), 0, "bits of result 0 is 0, expected ['operand', i] or 1..8192"),
        (("results", 0, "bits"), ["operand", 1],
         "an operand in bits of result 0 is 1, expected an int from 0 to 0"),
        (("results", 0, "rd"), 1, "rd of result 0 is 1, expected None or ['operand', i]"),
        (("flops",), [[1, [4]]], "a side in flops is 4, expected an int from 0 to 3"),
        (("flops",), [[0.5, [0]]],
         "a coefficient of flops is 0.5, expected an int from -4611686018427387903 to "
         "4611686018427387903"),
        (("cycles",), [1], "a term of cycles is 1, expected [coefficient, [side, ...]]"),
        (("checks",), [[0]], "a check is [0], expected [side, polynomial]"),
        (("same_bits",), [[0]], "an entry of same_bits is [0], expected two operands"),
        (("adopts",), [[0, [], [], "any"]], "it adopts a state but has no states"),
        (("adopts",), [[0, [], [], "never"]],
         "an entry of adopts is [0, [], [], 'never'], expected [state, rows, cols, one of any, "
         "both, rows, cols]"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_record_is_named(
    place: tuple[Any, ...], value: Any, problem: str
) -> None:
    text = refused("UnaryMap", fn=changed(place, value))
    assert text == f"UnaryMap 'u': the record of function 'Silu' cannot be used: {problem}"


@pytest.mark.parametrize("rule", [["rows", 0], ["first", []], ["value"], ["most", [0]], "rows"])
def test_a_rule_for_valid_rows_that_is_none(rule: Any) -> None:
    text = refused("UnaryMap", fn=changed(("results", 0, "valid"), rule))
    assert f"valid of result 0 is {rule!r}, expected ['rows'], ['first' | 'max' | 'sum'" in text


@pytest.mark.parametrize("rule", [["keep"], ["address", 0, 0, 0], 1])
def test_a_rule_for_numbers_that_is_none(rule: Any) -> None:
    assert "value of result 0 is " in refused("UnaryMap", fn=changed(("results", 0, "value"), rule))


def test_entries_must_be_there() -> None:
    record = {key: value for key, value in MAPS["Silu"].items() if key != "cycles"}
    assert "the record has no entry 'cycles'" in refused("UnaryMap", fn=record)


def test_a_map_has_no_state_and_a_reduction_has() -> None:
    add, product = ACCUMULATIONS["Add"], MAP_ACCUMULATIONS["Matmul"]()
    assert refused("BinaryMap", 2, fn=add) == (
        "BinaryMap 'u': its function has 1 states, expected a map, which has no state"
    )
    assert refused("Accum", fn=MAPS["Silu"], **INIT) == (
        "Accum 'u': its function has 0 states, expected an accumulation, which has states"
    )
    two = refused("Accum", fn=product, rank=1, init=[[1, 1, 2], [1, 1, 2]])
    assert two == "Accum 'u': init has 2 states, its function 1"


def test_operands_and_inputs() -> None:
    assert refused("BinaryMap", 2, fn=MAPS["Silu"]) == (
        "BinaryMap 'u': its function takes 1 elements, fewer than the 2 inputs"
    )
    assert refused("NaryMap", 2, fn=MAPS["Mul"]) == (
        "NaryMap 'u': 2 inputs, expected at least 3; fewer are a UnaryMap or a BinaryMap"
    )


def test_nothing_beside_a_record_is_ignored() -> None:
    assert refused("BinaryMap", 2, fn=MAPS["Mul"], stride=2) == (
        "BinaryMap 'u': stride is for published functions; a record states it itself"
    )
    fn = MAP_ACCUMULATIONS["Matmul"]()
    assert refused("BinaryMapAccum", 2, fn=fn, bpe=2, **INIT) == (
        "BinaryMapAccum 'u': bpe has no effect when init has the widths"
    )


def test_only_work_needs_a_rate() -> None:
    fn = changed(("flops",), [])
    build_image(one_unit("UnaryMap", fn=fn, bw=0, wb=False))
    assert refused("UnaryMap", fn=MAPS["Silu"], bw=0) == (
        "UnaryMap 'u': compute bandwidth is 0 FLOPs per cycle; function Silu needs at least 1"
    )


def test_a_result_lies_where_the_one_element_lies() -> None:
    record = deepcopy(MAPS["Add"])
    record["results"][0]["rd"] = ["operand", 1]
    assert refused("BinaryMap", 2, fn=record).endswith(
        "rd of result 0 is ['operand', 1], but there are several elements"
    )
