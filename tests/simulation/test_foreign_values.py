"""Values of other types than public functions take: an error of ours names the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy

import stepsim as st
from stepsim.errors import ArgError, MachineError, OutputError
from stepsim.functional import evaluate
from stepsim.graph import wire
from stepsim.simulation import prepare, run_functional


@pytest.fixture
def program() -> st.Program:
    with st.Program("one", compute_bw=4) as made:
        st.linear_load(st.spec(2, 2), (1, 2)).consume()
    return made


class WithOperators:
    operators = ()


@pytest.mark.parametrize("foreign", [1, None, WithOperators(), "program"])
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (evaluate, "evaluate"), (run_functional, "evaluate"), (wire, "wire"), (prepare, "prepare"),
        (st.simulate, "prepare"),
    ],
)  # fmt: skip
def test_what_is_no_program(function: Any, name: str, foreign: object) -> None:
    with pytest.raises(ArgError) as caught:
        function(foreign)
    assert str(caught.value) == f"{name}: expected a stepsim Program, found {foreign!r}"


@pytest.mark.parametrize("decisions", [3, {}, "x", True])
def test_decisions_that_are_none(program: st.Program, decisions: Any) -> None:
    with pytest.raises(ArgError, match=r"program 'one': decisions are .*, expected Decisions"):
        evaluate(program, decisions=decisions)


@pytest.mark.parametrize("tensors", [np.ones((2, 2)), "x", 1, True])
def test_tensors_that_are_no_mapping(program: st.Program, tensors: Any) -> None:
    with pytest.raises(ArgError, match="tensors must be a mapping"):
        evaluate(program, tensors)


def test_a_machine_with_a_name_longer_than_any_file_is_not_known() -> None:
    with pytest.raises(MachineError, match="unknown machine"):
        st.load_machine("a" * 5000)
    with pytest.raises(MachineError, match="no such file"):
        st.load_machine("a" * 5000 + ".yaml")


@pytest.mark.parametrize("quantity", [None, 3, [], "", "table", "program", "cycles"])
def test_quantities_that_there_are_not(program: st.Program, quantity: Any) -> None:
    with pytest.raises(ArgError, match="unknown quantity"):
        program.metrics().lambdify(quantity, [])


@pytest.mark.parametrize(
    "size", [True, np.True_, None, "n", {1}, 1.5, sympy.nan, sympy.oo, sympy.Rational(1, 2)]
)
def test_sizes_that_are_none(program: st.Program, size: Any) -> None:
    bound = program.metrics().bind()
    with pytest.raises(ArgError, match="expected a dim or an expression"):
        bound.value(size)
    assert bound.value(st.graph.Dim(3)) == bound.value(3) == bound.value(sympy.Integer(3)) == 3


@pytest.mark.parametrize("arguments", [3, None, "x", [[]], [1], [st.graph.Dim(3)], {1: 2}])
def test_arguments_that_are_no_symbols(program: st.Program, arguments: Any) -> None:
    with pytest.raises(ArgError, match="expected a list of symbols"):
        program.metrics().lambdify("flops", arguments)


@pytest.mark.parametrize("path", [None, 3, "", ".", "/", "a\0b", b"run.parquet"])
def test_places_that_are_no_file(program: st.Program, path: Any) -> None:
    with pytest.raises(OutputError, match="expected the path of a file"):
        st.simulate(program).to_parquet(path)
