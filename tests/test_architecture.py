"""The page on the architecture: its picture is that of the code, and what it names exists."""

from __future__ import annotations

import re

import pytest

from tests.pages import DOCS, module_of_docs

PACKAGE = DOCS.parent / "stepsim"
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")
rooms = module_of_docs("rooms")


def test_the_picture_is_that_of_the_code() -> None:
    assert rooms.drawn(PAGE) == PAGE, "run python docs/rooms.py"


def test_every_room_and_module_has_its_place() -> None:
    placed = [name for layer in rooms.layers() for name in layer]
    there = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    there |= {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert sorted(placed) == sorted(there), "the layers in pyproject.toml must have every module"


@pytest.mark.parametrize(
    "room", sorted(str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("__init__.py"))
)
def test_a_room_says_what_it_is_for(room: str) -> None:
    assert rooms.purpose(PACKAGE / room), (
        f"{room} needs a docstring whose first sentence says what it is for"
    )


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?:stepsim|tests)/[\w/.]+)`", PAGE))))
def test_what_the_page_names_is_there(name: str) -> None:
    assert (DOCS.parent / name).exists()
