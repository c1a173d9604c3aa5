"""A choice of a design is declared once: argument, option, parameter and key of a plan are it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import yaml

import stepsim as st
from stepsim.design import Choices, CompiledWorkload, SearchedChoices, compile
from stepsim.workloads import ParameterError, fields_of

WRITTEN = Path(__file__).parent / "plan" / "data" / "mlp.yaml"
"""A plan of an earlier version."""


def test_the_arguments_of_compile_are_no_choices() -> None:
    assert not set(inspect.signature(compile).parameters) & set(fields_of(Choices))


def test_parameters_of_a_search_are_choices() -> None:
    known, choices = fields_of(CompiledWorkload), fields_of(Choices)
    for name in fields_of(SearchedChoices):
        assert known[name].kind.described() == choices[name].kind.described()
        assert known[name].param == choices[name].param
    assert set(known) - set(choices) == {"group"}


def test_keys_of_plans_are_choices_and_plans_of_before_are_read() -> None:
    text = WRITTEN.read_text()
    plan, written = st.design.Plan.from_yaml(text), yaml.safe_load(text)
    assert dict(plan.choices) == written["choices"]
    names = {field.param.formerly or name: name for name, field in fields_of(Choices).items()}
    assert set(plan.choices) - set(names) == {"orders_tried"}
    assert yaml.safe_load(plan.to_yaml()) == written
    choices = {names[key]: plan.choices[key] for key in plan.choices if key != "orders_tried"}
    again = compile(plan.graph.operators, plan.machine, choices=Choices(**choices, runs=20)).plan
    assert again.groups == plan.groups
    assert again.choices == {n: v for n, v in plan.choices.items() if n != "orders_tried"}


def test_all_mistakes_are_listed_with_their_choice() -> None:
    with pytest.raises(st.errors.ArgError) as caught:
        Choices(tile=0, sizing="lps", max_slowdown=-1, packed=1)  # type: ignore[arg-type]
    assert str(caught.value).splitlines() == [
        "tile: expected a whole number from 1, found 0",
        "packed: expected true or false, found 1",
        "sizing: expected one of lp, normal, conservative, recorded, unbounded, found 'lps'; did "
        "you mean 'lp'?",
        "max_slowdown: expected a number from 0 to 1000, found -1",
    ]


@pytest.mark.parametrize(("text", "size"), [("41MB", 41_000_000), ("2KiB", 2048), ("600", 600)])
def test_bytes_have_units_on_the_command_line(text: str, size: int) -> None:
    assert fields_of(Choices)["budget"].parsed(text) == size
    with pytest.raises(st.errors.ArgError, match="expected bytes, as in 41MB"):
        fields_of(Choices)["budget"].parsed("41XB")


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("1%", 0.01),
        ("0.5 %", 0.005),
        ("0.02", 0.02),
        ("0.7%", 0.007),
        ("2.9%", 0.029),
        ("1e1%", 0.1),
    ],
)
def test_shares_may_be_in_percent_on_the_command_line(text: str, share: float) -> None:
    assert fields_of(Choices)["max_slowdown"].parsed(text) == share
    with pytest.raises(st.errors.ArgError, match="expected a number from 0 to 1000, found "):
        fields_of(Choices)["max_slowdown"].parsed("1.2.3%")
    with pytest.raises(st.errors.ArgError, match=r"from 0 to 1000, found -0\.01"):
        fields_of(Choices)["max_slowdown"].parsed("-1%")


def test_passes_need_a_budget_and_an_order() -> None:
    graph = st.design.Plan.load(WRITTEN).graph.operators
    with pytest.raises(st.errors.CompileError, match="found no budget"):
        st.design.designed(graph, Choices())
    with pytest.raises(st.errors.CompileError, match="found the order 'fastest'"):
        st.design.designed(graph, Choices(budget=0))


@pytest.mark.parametrize("name", ["runs", "effort"])
def test_limits_of_what_is_off_are_refused(name: str) -> None:
    Choices(shrink=False, fit=False)
    Choices(fit=False, **{name: 5})
    with pytest.raises(ParameterError, match=f"{name}: limits shrinking and further"):
        Choices(shrink=False, fit=False, **{name: 5})
