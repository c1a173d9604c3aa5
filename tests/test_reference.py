"""The reference: every public operator and function says all about itself, and its example runs."""

from __future__ import annotations

import doctest
import inspect
import pydoc
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.graph.accounting import Accounting
from stepsim.simulation import run_functional
from tests.pages import module_of_docs

reference = module_of_docs("reference")
SUBJECTS = {subject.path: subject for subject in reference.subjects()}
INDEX = reference.index_page()
OTHERS = [
    path
    for path, subject in SUBJECTS.items()
    if subject.is_language
    and not (subject.is_class or subject.is_operator or path.startswith("fn."))
]
BEYOND = [
    path
    for path, subject in SUBJECTS.items()
    if inspect.isfunction(subject.thing) and not subject.is_language
]
"""What is done with programs."""
OPERATORS = [path for path, subject in SUBJECTS.items() if subject.is_operator]
FUNCTIONS = [path for path in SUBJECTS if path.startswith("fn.")]
MEMBERS = {
    f"{path}.{name}": member
    for path, subject in SUBJECTS.items()
    for name, member in subject.members()
}


def run_example(name: str, text: str) -> dict[str, Any]:
    """Run an example as a doctest; returns its names."""
    setting = {"st": st, "np": np, "run_functional": run_functional}
    example = doctest.DocTestParser().get_doctest(text, setting, name, None, None)
    assert example.examples, f"the example of {name} has no >>> line"
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=flags, verbose=False)
    runner.run(example, out=said.append, clear_globs=False)
    assert not runner.failures, "".join(said)
    return example.globs


def _missing(doc: Any, required: Iterator[str] | tuple[str, ...]) -> list[str]:
    wrong = [f"no section {title}" for title in required if not doc.sections.get(title, "").strip()]
    if not doc.summary.endswith("."):
        wrong.append("no summary that is a sentence")
    order = [title for title in reference.SECTIONS if title in doc.sections]
    if list(doc.sections) != order:
        wrong.append(f"sections in the order {list(doc.sections)}")
    return wrong


def _undocumented(thing: Any, doc: Any) -> list[str]:
    """Arguments that Parameters leaves out, and those it makes up.

    A label, and the stream that an operator is about, may go without saying.
    """
    known = inspect.signature(thing).parameters
    first = next(iter(known.values()), None)
    free = {"label"} | (
        {first.name} if first is not None and first.annotation == "Stream" else set()
    )
    text = doc.sections.get("Parameters", "")
    entries = re.findall(r"^(\S[^:\n]*?)(?: : |\n    )", text, flags=re.MULTILINE)
    named = {name.strip("* ") for entry in entries for name in entry.split(",")}
    return [
        f"argument {name}" for name in sorted(set(known) ^ named) if name not in free & set(known)
    ]


@pytest.mark.parametrize("path", OPERATORS)
def test_an_operator_says_all_about_itself(path: str) -> None:
    subject = SUBJECTS[path]
    doc = subject.doc()
    required: tuple[str, ...] = ("Fires", "Raises", "Example")
    if "Stream" in str(inspect.signature(subject.thing).return_annotation):
        required = ("Shape", *required)
    wrong = _missing(doc, required) + _undocumented(subject.thing, doc)
    if not re.search(r"paper|public simulator|helper", f"{doc.summary} {doc.meaning}"):
        wrong.append("no origin: the paper's name and section, or the public simulator")
    assert not wrong, f"docstring of st.{path}: {', '.join(wrong)}"


@pytest.mark.parametrize("path", OPERATORS)
def test_the_example_of_an_operator_uses_it_and_prints_what_it_shows(path: str) -> None:
    doc = SUBJECTS[path].doc()
    text = doc.sections.get("Example", "")
    assert re.search(rf"\b{path}\(", text), "the example does not call the operator"
    names = run_example(path, text)
    programs = {id(p): p for p in names.values() if isinstance(p, st.Program)}
    programs |= {id(x.program): x.program for x in names.values() if isinstance(x, st.Stream)}
    made = [op for program in programs.values() for op in program.operators]
    assert made, "the example makes no program"
    own = [op for op in made if op.name == path]
    if any(op.flops() != 0 for op in own):
        assert "FLOPs" in doc.sections, f"st.{path} computes, its docstring does not say how much"
    for counting in ("executed", "paper"):
        if any(op.memory(Accounting(counting, count_fifos=False)) != 0 for op in own):
            assert "Memory" in doc.sections, f"st.{path} holds bytes, its docstring is silent"


@pytest.mark.parametrize("path", OPERATORS)
def test_the_page_of_an_operator_says_what_it_computes_and_holds(path: str) -> None:
    page = reference.page_of(SUBJECTS[path])
    places = [page.index(f"\n{title}\n--") for title in ("Fires", "FLOPs", "Memory", "Example")]
    assert places == sorted(places)
    assert ("None by the default counting." in page) is (
        "Memory" not in SUBJECTS[path].doc().sections
    )


@pytest.mark.parametrize("path", OTHERS)
def test_any_other_function_says_all_about_itself(path: str) -> None:
    subject = SUBJECTS[path]
    doc = subject.doc()
    wrong = _missing(doc, ("Raises", "Example")) + _undocumented(subject.thing, doc)
    assert not wrong, f"docstring of st.{path}: {', '.join(wrong)}"
    run_example(path, doc.sections["Example"])


@pytest.mark.parametrize("path", BEYOND)
def test_what_is_done_with_programs_says_all_about_itself(path: str) -> None:
    subject = SUBJECTS[path]
    doc = subject.doc()
    wrong = _missing(doc, ("Raises",)) + _undocumented(subject.thing, doc)
    assert not wrong, f"docstring of st.{path}: {', '.join(wrong)}"


@pytest.mark.parametrize("path", FUNCTIONS)
def test_a_function_says_all_about_itself(path: str) -> None:
    subject = SUBJECTS[path]
    doc = subject.doc()
    wrong = _missing(doc, ("Shape", "Example"))
    if callable(subject.thing):
        wrong += _undocumented(subject.thing, doc)
    if isinstance(subject.thing, st.Function) and "FLOPs" not in doc.sections:
        wrong.append("no section FLOPs")
    assert not wrong, f"docstring of st.{path}: {', '.join(wrong)}"
    assert doc.summary in pydoc.plain(pydoc.render_doc(subject.thing)), "help() says something else"
    text = doc.sections["Example"]
    name = path.removeprefix("fn.")
    assert re.search(rf"\bfn\.{name}\b", text), "the example does not use the function"
    run_example(path, text)


@pytest.mark.parametrize("path", [path for path, subject in SUBJECTS.items() if subject.is_class])
def test_a_class_says_what_it_is(path: str) -> None:
    doc = SUBJECTS[path].doc()
    wrong = _missing(doc, ())
    assert not wrong, f"docstring of st.{path}: {', '.join(wrong)}"
    if "Example" in doc.sections:
        run_example(path, doc.sections["Example"])


@pytest.mark.parametrize("path", MEMBERS)
def test_a_member_says_what_it_does(path: str) -> None:
    doc = reference.parse(reference.documentation(MEMBERS[path]))
    wrong = _missing(doc, ())
    assert not wrong, f"docstring of st.{path}: {', '.join(wrong)}"
    operator = getattr(MEMBERS[path], "operator", None)
    if operator is None and "Example" in doc.sections:
        run_example(path, doc.sections["Example"])


def test_every_operator_of_one_stream_says_all_as_a_method() -> None:
    for name, method in SUBJECTS["Stream"].members():
        operator = getattr(method, "operator", None)
        if operator is None:
            assert not hasattr(st, name), f"Stream.{name} does not refer to st.{name}"
            continue
        own = inspect.cleandoc(method.__doc__)
        assert reference.documentation(operator).partition("\n\n")[2] in own
        taken = list(inspect.signature(method).parameters.values())[1:]
        named = {argument.name for argument in taken if argument.kind not in (2, 4)}
        assert named <= set(inspect.signature(operator).parameters), name
        assert "Example\n" in pydoc.plain(pydoc.render_doc(method)), name


@pytest.mark.parametrize("name", st.__all__)
def test_every_name_of_st_is_in_the_reference(name: str) -> None:
    """Under a heading of the index, with a page of its own."""
    lines = INDEX.splitlines()
    (row,) = (number for number, line in enumerate(lines) if f":doc:`st.{name} <" in line)
    headings = [n for n, line in enumerate(lines) if re.fullmatch(r"-{3,}", line)]
    assert headings[0] < row
    assert lines[row + 1].removeprefix("     - ").endswith("."), "it has no summary"


@pytest.mark.parametrize("space", reference.namespaces(), ids=lambda space: str(space.name))
def test_every_name_of_a_namespace_is_on_its_page(space: Any) -> None:
    page = reference.page_of_namespace(space)
    for name, _, text in space.things():
        assert f"\n{name}\n{'-' * len(name)}\n" in page
        assert text, f"st.{space.name}.{name} has no docstring"


def test_the_index_names_every_page() -> None:
    for subject in SUBJECTS.values():
        assert f"   {subject.page}\n" in INDEX
    order = [
        "Off-chip memory operators", "On-chip memory operators", "Routing and merging operators",
        "Higher-order operators", "Shape operators", "Sources and sinks",
    ]  # fmt: skip
    places = [INDEX.index(f"\n{heading}\n") for heading in order]
    assert places == sorted(places)


@pytest.mark.slow
def test_pages_are_written_once_and_old_ones_go(tmp_path: Path) -> None:
    folder = tmp_path / "reference"
    reference.write_pages(folder)
    first = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    for subject in SUBJECTS.values():
        page = (folder / f"{subject.page}.rst").read_text(encoding="utf-8")
        assert page.startswith("st.")
    (folder / "gone.rst").write_text("an operator that is no more")
    reference.write_pages(folder)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == first
