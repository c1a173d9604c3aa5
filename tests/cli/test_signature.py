"""Commands made of dataclasses: which options they have, and what they are called with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from stepsim.cli.signature import takes

Size = Annotated[int | None, typer.Option("--size", help="In tokens.")]


@dataclass(frozen=True)
class Left:
    name: Annotated[str, typer.Option()]
    size: Size = None


@dataclass(frozen=True)
class Right:
    size: Size = None
    wide: bool = False


def invoke(*arguments: str, required: tuple[str, ...] = ()) -> tuple[int, list[object], str]:
    """Exit code, what the command was called with, output."""
    seen: list[object] = []
    app = typer.Typer()

    @app.command()
    @takes(Left, Right, required=required)
    def show(left: Left, right: Right, loud: bool = False) -> None:
        """Show both."""
        seen.extend([left, right, loud])

    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, seen, done.output


def test_a_shared_field_is_one_option_and_reaches_both() -> None:
    assert invoke("--name", "x", "--size", "3", "--loud")[1] == [Left("x", 3), Right(3), True]


def test_defaults_are_those_of_the_fields() -> None:
    assert invoke("--name", "x")[1] == [Left("x"), Right(), False]


@pytest.mark.parametrize(("arguments", "required"), [((), ()), (("--name", "x"), ("size",))])
def test_what_has_no_default_or_is_required_must_be_given(arguments, required) -> None:
    code, seen, output = invoke(*arguments, required=required)
    assert (code, seen) == (2, [])
    assert "Missing option" in output


@dataclass(frozen=True)
class Other:
    size: Size = 7


@dataclass(frozen=True)
class Made:
    sizes: Annotated[list[int], typer.Option()] = field(default_factory=list)


@pytest.mark.parametrize(
    ("groups", "required", "message"),
    [
        ((Right, Other), (), "call: two different options size"),
        ((Right,), ("szie",), r"call: no options \['szie'\] to require"),
        ((Made,), (), r"Made: options with a default that is made for every instance: \['sizes'\]"),
    ],
)
def test_declarations_that_contradict_each_other(groups, required, message) -> None:
    def call(*taken: object) -> None: ...

    with pytest.raises(TypeError, match=f"^{message}$"):
        takes(*groups, required=required)(call)


def test_help_is_that_of_the_command_and_of_the_fields() -> None:
    code, _, output = invoke("--help")
    assert code == 0
    assert "Show both." in output
    assert output.count("In tokens.") == 1
