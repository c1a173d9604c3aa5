"""The page on the command line has every command and every option."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from stepsim.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def commands(command: Any, path: str) -> Iterator[tuple[str, set[str]]]:
    """Every command as typed, with its long options."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from commands(inner, f"{path} {name}")
    else:
        names = {name for parameter in command.params for name in parameter.opts}
        yield path, {name for name in names if name.startswith("--")}


APP: Any = typer.main.get_command(app)
COMMANDS = list(commands(APP, "stepsim"))


@pytest.mark.parametrize(("command", "options"), COMMANDS)
def test_commands_are_documented(command: str, options: set[str]) -> None:
    assert command in PAGE
    assert {option for option in options if f"`{option}" not in PAGE} == set()


def listed(group: Any) -> Iterator[tuple[Any, str, str]]:
    for places in group.places.values():
        for name, place in places.items():
            yield group, name, place.summary


@pytest.mark.parametrize(
    ("group", "name", "summary"), [*listed(APP), *listed(APP.commands["sweep"])]
)
def test_a_command_is_listed_by_the_first_sentence_of_its_help(
    group: Any, name: str, summary: str
) -> None:
    """The list does not import the command."""
    text = group.commands[name].help.partition("\n\n")[0]
    assert " ".join(text.split()) == summary


@pytest.mark.parametrize("command", [path for path, _ in COMMANDS])
def test_help_is_whole_on_a_narrow_terminal(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are longer than their column are broken into lines, and nothing is cut."""
    monkeypatch.setenv("COLUMNS", "80")
    text = CliRunner().invoke(app, [*command.split()[1:], "--help"]).output
    assert "Usage" in text
    assert [line for line in text.splitlines() if "…" in line] == []


def test_both_forms_of_a_flag_are_one_name_in_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = CliRunner().invoke(app, ["serve", "--help"]).output
    assert "--[no-]scheduler-reserve-full-isl " in text
    assert "--no-scheduler" not in text
    refused = CliRunner().invoke(app, ["serve", "--no-scheduler-reserve-full-isl"])
    assert "No such option" not in refused.output


def test_every_option_of_serve_has_its_default_on_the_page() -> None:
    """The other commands have few defaults; those of a service are a table."""
    section = PAGE.partition("\n## serve\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(--[\w-]+)[^|]*\| ([^|]+) \|$", section, re.MULTILINE))
    for parameter in APP.commands["serve"].params:
        default = re.search(r"\(default: (.*)\)$", parameter.help or "")
        long = next((name for name in parameter.opts if name.startswith("--")), "")
        if default is not None and long not in ("", "--tolerance"):
            assert rows[long].partition("; default: ")[2].replace("`", "") == default[1], long
