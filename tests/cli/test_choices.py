"""Choices of a design as options: which commands take them, and the answers to old names."""

from __future__ import annotations

import re

import pytest

import stepsim as st
from stepsim.design import SearchedChoices, compile
from stepsim.workloads import fields_of
from tests.cli.conftest import Cli


def test_choices_of_a_search_are_options(cli: Cli) -> None:
    said = re.sub(r"\x1b\[[0-9;]*m", "", cli("compile", "--help").out)
    for name, field in fields_of(SearchedChoices).items():
        assert field.option in said, name
    assert "--slowdown" not in said


@pytest.mark.parametrize(("old", "new"), [("fifo", "sizing"), ("slowdown", "max_slowdown")])
def test_old_names_are_answered_with_the_new(cli: Cli, old: str, new: str) -> None:
    with pytest.raises(st.errors.ArgError, match=f"'{old}'; it is now called '{new}'"):
        compile("gpt2-medium", **{old: "lp"})
    with pytest.raises(st.errors.ArgError, match=f"{old}: .*it is now called {new}"):
        st.simulation.make_case("compiled", **{old: "lp"})
    refused = cli("run", "compiled", f"--{old.replace('_', '-')}", "lp")
    assert refused.code == 2
    assert f"it is now called --{new.replace('_', '-')}" in refused.err


def test_a_command_that_finds_depths_takes_no_choice_of_them(cli: Cli) -> None:
    said = re.sub(r"\x1b\[[0-9;]*m", "", cli("size", "compiled", "--help").out)
    assert "--tile" in said
    assert "--shrink" not in said
