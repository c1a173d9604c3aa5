"""The page on operator graphs shows what its programs print, and lists what the builder has."""

from __future__ import annotations

import inspect
import re

from stepsim.design import GraphBuilder
from tests.pages import DOCS, run_page


def test_the_page_shows_what_is_printed() -> None:
    wrong = run_page("operator-graphs.md")
    assert not wrong, "\n".join(wrong)


def test_every_method_of_the_builder_is_in_the_table() -> None:
    text = (DOCS / "operator-graphs.md").read_text(encoding="utf-8").split("## What the builder")[1]
    listed = set(re.findall(r"`(\w+)`", text))
    methods = {
        name
        for name, thing in inspect.getmembers(GraphBuilder, inspect.isfunction)
        if not name.startswith("_")
    }
    assert methods - listed == {"at", "axis", "fail", "graph", "record", "single"}
