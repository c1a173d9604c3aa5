"""The reference page of machine files says what the validation does."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from stepsim.machine import Machine, list_machines
from stepsim.machine.loading import known_keys

PAGE = (Path(__file__).parents[2] / "docs" / "machines.md").read_text(encoding="utf-8")


def test_every_key_is_described_with_its_range() -> None:
    rows = dict(re.findall(r"^\| `([a-zA-Z0-9_.]+)` \|[^|]*\|([^|]*)\|", PAGE, flags=re.MULTILINE))
    for key, expectation in known_keys().items():
        bounds = re.search(r"from (\d+) to (\d+(?:\*\*\d+)?)", expectation)
        if bounds:
            assert rows[key].strip() == f"{bounds[1]}..{bounds[2]}", key
        elif least := re.search(r"a number ((?:from|above) 0)", expectation):
            assert rows[key].strip() == least[1], key
        else:
            # A value for each dimension is described as one.
            single = expectation.split(" (")[0].split(" or a non-empty list of ")[0]
            choices = re.findall(r"'([\w-]+)'", single)
            described = ", ".join(f"`{choice}`" for choice in choices) or "text"
            assert rows[key].strip() == described, key


def test_the_example_file_is_the_preset() -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert example is not None
    values = yaml.safe_load(example[1])
    machine = Machine(**values)
    assert machine.to_dict() == values
    assert machine.name in list_machines()


def test_every_preset_is_described() -> None:
    for name in list_machines():
        assert f"| `{name}` |" in PAGE
