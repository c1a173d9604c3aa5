"""The pages of programs: what they print is what they say, and no operator is left out."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.lowering.rows.registry import REGISTRY

DOCS = Path(__file__).parents[1] / "docs"
PROGRAMS = sorted(path.name for path in (DOCS / "programs").glob("*.md") if path.stem != "index")
PAGES = [*(f"programs/{name}" for name in PROGRAMS), "functions.md", "nn.md"]

_BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", flags=re.DOTALL)
_PLACES = (
    "stepsim.graph.ops.",
    "stepsim.graph.ops.feedback",
    "stepsim.graph.ops.routing.routing_table",
)

OPERATORS = {
    name: thing
    for name in st.__all__
    if inspect.isfunction(thing := getattr(st, name)) and thing.__module__.startswith(_PLACES)
}
"""Public functions that add operators to a program."""

EVERYWHERE = {"label", "xs", "others"}
"""Arguments that say nothing about what an operator does, and lists of streams."""


def _text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


UNITS_OF_NETWORKS = {"At", "Gen", "Hold", "Paced", "Printer", "Src"}
"""Units that no operator becomes: those of networks that are simulated without a program."""

UNITS_OF_ROUTES = {
    "SendPacket", "MulticastPacket", "ReceivePacket", "SendMessage", "ReceiveMessage"
}  # fmt: skip
"""Ends of FIFOs whose producer and consumer are placed apart."""


@cache
def _run(page: str) -> tuple[list[tuple[str, str, str]], set[str]]:
    """Each block with what it prints and what the page shows, and the units of all programs."""
    names: dict[str, Any] = {}
    found = []
    units: set[str] = set()
    closed = st.Program.__exit__

    def close(program: st.Program, *error: Any) -> None:
        closed(program, *error)
        units.update(op.unit_kind for op in program.operators if hasattr(op, "unit_kind"))

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "programs")
        patch.setattr(st.Program, "__exit__", close)
        for block, shown in _BLOCK.findall(_text(page)):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block, page, "exec"), names)
            found.append((block, printed.getvalue(), shown))
    return found, units


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_programs_print_what_their_page_says(page: str) -> None:
    blocks, _ = _run(page)
    assert len(blocks) == _text(page).count("```python")
    assert sum(bool(shown) for _, _, shown in blocks) == _text(page).count("```text")
    for block, printed, shown in blocks:
        assert printed == shown, f"{page}:\n{block}"


@pytest.mark.slow
def test_every_unit_that_an_operator_can_become_is_in_a_program() -> None:
    used = set().union(*(_run(page)[1] for page in PAGES))
    assert set(REGISTRY) - UNITS_OF_NETWORKS - UNITS_OF_ROUTES - used == set()


def _calls() -> dict[str, set[str]]:
    """What the pages of programs call, as ``st.NAME`` or a method, with the arguments they give."""
    found: dict[str, set[str]] = defaultdict(set)
    for page in PROGRAMS:
        for block, _ in _BLOCK.findall(_text(f"programs/{page}")):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    _count(found, node, node.func)
    return found


def _count(found: dict[str, set[str]], call: ast.Call, func: ast.Attribute) -> None:
    owner, name = ast.unparse(func.value), func.attr
    if owner in ("np", "fn", "st.fn"):
        return
    name = "printer" if name == "print" else name
    if name not in OPERATORS:
        return
    parameters = list(inspect.signature(OPERATORS[name]).parameters)
    if name == "map" and owner != "st":
        parameters = parameters[1:]
    given = len(call.args) + (owner != "st")
    found[name] |= {*parameters[:given], *(k.arg for k in call.keywords if k.arg)}


CALLS = _calls()


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_is_in_a_program_with_every_argument(name: str) -> None:
    assert name in CALLS, f"no program of docs/programs uses st.{name}"
    missing = set(inspect.signature(OPERATORS[name]).parameters) - CALLS[name] - EVERYWHERE
    assert not missing, f"no program of docs/programs gives st.{name} {sorted(missing)}"


def _made(name: str) -> str:
    """The class of what ``st.fn`` has under a name, or of what it makes."""
    thing = getattr(st.fn, name)
    if not callable(thing):
        return type(thing).__name__
    made = inspect.signature(thing).return_annotation
    return made if isinstance(made, str) else made.__name__


@pytest.mark.parametrize("name", st.fn.__all__)
def test_every_function_is_in_a_program_or_the_table(name: str) -> None:
    kind = _made(name)
    assert kind in ("Function", "Init", "SelectorFunction", "StreamFunction")
    if kind == "StreamFunction":
        assert f"fn.{name}(" in _text("programs/flat-map.md")
    elif kind != "Init":
        table = " ".join(re.findall(r"^\|.*\|$", _text("functions.md"), flags=re.MULTILINE))
        assert name in re.findall(r"`(\w+)", table)


@pytest.mark.parametrize("name", st.nn.__all__)
def test_every_layer_is_in_the_table_and_in_a_program(name: str) -> None:
    text = _text("nn.md")
    assert f"st.nn.{name}(" in text
    rows = re.findall(r"^\| (`.*?) \|", text, flags=re.MULTILINE)
    assert f"`{name}`" in " ".join(rows) or name in ("LlamaWeights", "rope_tables")


@pytest.mark.parametrize("page", PROGRAMS)
def test_every_page_of_programs_is_in_the_contents(page: str) -> None:
    contents = _text("programs/index.md").split("```{toctree}")[1]
    assert page.removesuffix(".md") in contents.split()
