"""Sphinx extension: the reference, a page for each name of ``st`` and for each namespace.

Nothing is listed by hand. The pages follow from the names that :mod:`stepsim` and its namespaces
offer and from their docstrings, and are written to ``docs/reference`` when the documentation is
built.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import stepsim as st
from stepsim.graph import fn

FAMILIES = {
    "stepsim.graph.ops.memory.linear_loads": "Off-chip memory operators",
    "stepsim.graph.ops.memory.offchip": "Off-chip memory operators",
    "stepsim.graph.ops.memory.random_access": "Off-chip memory operators",
    "stepsim.graph.ops.memory.onchip": "On-chip memory operators",
    "stepsim.graph.ops.routing.partitioning": "Routing and merging operators",
    "stepsim.graph.ops.routing.merging": "Routing and merging operators",
    "stepsim.graph.ops.routing.fixed_order": "Routing and merging operators",
    "stepsim.graph.ops.routing.selecting": "Routing and merging operators",
    "stepsim.graph.ops.higher_order.scans": "Higher-order operators",
    "stepsim.graph.ops.higher_order.group_results": "Higher-order operators",
    "stepsim.graph.ops.higher_order.maps": "Higher-order operators",
    "stepsim.graph.ops.higher_order.reductions": "Higher-order operators",
    "stepsim.graph.ops.flat_map.flat_maps": "Higher-order operators",
    "stepsim.graph.ops.shape.levels": "Shape operators",
    "stepsim.graph.ops.shape.chunks": "Shape operators",
    "stepsim.graph.ops.shape.repeats": "Shape operators",
    "stepsim.graph.ops.shape.references": "Shape operators",
    "stepsim.graph.ops.sources": "Sources and sinks",
    "stepsim.graph.ops.flat_map.numbers": "Sources and sinks",
    "stepsim.graph.ops.routing.routing_table": "Sources and sinks",
    "stepsim.graph.ops.feedback": "Sources and sinks",
    "stepsim.graph.programs.chips": "Programs on several chips",
    "stepsim.graph.types": "Tensors and element types",
    "stepsim.dtypes": "Tensors and element types",
    "stepsim.graph.functions.define": "Functions of your own",
    "stepsim.graph.graph_file.reader": "Programs as files and units",
    "stepsim.graph.rewrites.wiring": "Programs as files and units",
    "stepsim.machine": "Machines and runs",
    "stepsim.simulation": "Machines and runs",
    "stepsim.results": "Machines and runs",
    "stepsim.explain": "What a run depends on",
    "stepsim.sizing": "What a run depends on",
    "stepsim.placement": "What a run depends on",
    "stepsim.design": "Designs",
    "stepsim.serving": "Services under load",
    "stepsim.errors": "Errors and versions",
    "stepsim._version": "Errors and versions",
}
"""Headings of modules and rooms, in the order of the index; others use their docstring's head."""

FUNCTION_FAMILIES = {
    "stepsim.graph.ops.flat_map.flat_maps": "Stream functions (st.fn)",
    "stepsim.graph.ops.flat_map.cutting": "Stream functions (st.fn)",
    "stepsim.graph.ops.flat_map.numbers": "Stream functions (st.fn)",
    "stepsim.graph.accumulation": "Initial states of accumulations (st.fn)",
}
"""Headings of modules whose own head does not fit their functions."""

SECTIONS = (
    "Shape", "Parameters", "Attributes", "Returns", "Fires", "FLOPs", "Memory", "Messages",
    "Raises", "Example", "Examples", "Notes",
)  # fmt: skip
"""Sections of a docstring, in their order."""

SETTING = ("import numpy as np", "import stepsim as st")
"""What every example may use without importing it."""

_COLONS = {
    "Args:": "Parameters",
    "Attributes:": "Attributes",
    "Returns:": "Returns",
    "Raises:": "Raises",
}
"""Heads of sections in the other style of docstrings."""

_VALUES = "from stepsim.simulation import run_functional"
_ENTRY = re.compile(r"^(\S[^:]*?) : (.+)$")


@dataclass(frozen=True)
class Doc:
    """A docstring, taken apart."""

    summary: str
    meaning: str
    sections: dict[str, str]


@dataclass(frozen=True)
class Subject:
    """Something that has a page."""

    path: str
    """The public name behind ``st.``."""
    thing: Any
    module: ModuleType

    @property
    def is_class(self) -> bool:
        return isinstance(self.thing, type)

    @property
    def room(self) -> str:
        """The namespace that it is in, empty for names of ``st`` itself."""
        return self.path.rpartition(".")[0]

    @property
    def is_language(self) -> bool:
        """Part of what programs are written in."""
        return self.module.__name__.startswith(("stepsim.graph.", "stepsim.dtypes"))

    @property
    def is_operator(self) -> bool:
        """A function that adds operators to a program."""
        name = self.module.__name__
        places = (
            "stepsim.graph.ops.",
            "stepsim.graph.ops.feedback",
            "stepsim.graph.ops.routing.routing_table",
        )
        return inspect.isfunction(self.thing) and "." not in self.path and name.startswith(places)

    @property
    def page(self) -> str:
        """File name without suffix; ``Routing`` and ``routing`` differ on every file system."""
        name = self.path.replace(".", "-")
        return f"class-{name.lower()}" if self.is_class else name

    @property
    def family(self) -> str:
        name = self.module.__name__
        if not self.is_language:
            return FAMILIES[".".join(name.split(".")[:2])]
        if self.is_class:
            return FAMILIES.get(name, "Classes of programs")
        if self.room in ("", "graph"):
            return FAMILIES.get(name) or _head(self.module)
        if name in FUNCTION_FAMILIES:
            return FUNCTION_FAMILIES[name]
        return f"{_head(self.module)} (st.{self.room})"

    def doc(self) -> Doc:
        name = self.path.rpartition(".")[2]
        return parse(documentation(self.thing) or constants(self.module).get(name, ""))

    def members(self) -> Iterator[tuple[str, Any]]:
        """Public methods and properties of a class, in the order of their definition."""
        if not self.is_class:
            return
        seen = set()
        for owner in self.thing.__mro__:
            if not owner.__module__.startswith("stepsim."):
                continue
            for name, member in vars(owner).items():
                plain = inspect.isfunction(member) or isinstance(
                    member, property | classmethod | staticmethod
                )
                if plain and not name.startswith("_") and name not in seen:
                    seen.add(name)
                    yield name, member


def _head(module: ModuleType) -> str:
    """What a module is about: its docstring up to the first colon, parenthesis or period."""
    text = " ".join((module.__doc__ or module.__name__).split())
    return re.split(r": |\.(?: |$)|[(,]", text, maxsplit=1)[0].replace("`", "").strip()


def constants(module: ModuleType) -> dict[str, str]:
    """The texts below the constants of a module."""
    blocks = [
        node.body
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Module | ast.If)
    ]
    return {
        ast.unparse(target): str(text.value.value)
        for body in blocks
        for assignment, text in pairwise(body)
        if isinstance(assignment, ast.Assign | ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        for target in (
            assignment.targets if isinstance(assignment, ast.Assign) else [assignment.target]
        )
    }


def documentation(thing: Any) -> str:
    """The docstring of a thing itself, not that of its class."""
    if isinstance(thing, classmethod | staticmethod):
        thing = thing.__func__
    text = getattr(thing, "__doc__", None)
    if not (isinstance(thing, type | property) or inspect.isroutine(thing)):
        own = type(thing).__doc__
        text = None if text == own else text
    return inspect.cleandoc(text or "")


def _underlined(text: str) -> str:
    """A docstring whose sections are headed ``Args:`` in the style of those with underlines."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line in _COLONS:
            inside = True
            lines += [_COLONS[line], "-" * len(_COLONS[line])]
        elif inside and line.startswith("    "):
            lines.append(re.sub(r"^([^\s:][^:]*): ", r"\1 : ", line[4:]))
        else:
            inside = inside and not line
            lines.append(line)
    return "\n".join(lines)


def parse(text: str) -> Doc:
    """A docstring as summary, meaning and sections."""
    lines = _underlined(text).splitlines()
    starts = [
        number
        for number, line in enumerate(lines[1:])
        if re.fullmatch(r"-{3,}", line) and lines[number] in SECTIONS
    ]
    cuts = [*starts, len(lines)]
    opening = "\n".join(lines[: cuts[0]]).strip()
    summary, _, meaning = opening.partition("\n\n")
    sections = {
        lines[start]: "\n".join(lines[start + 2 : end]).strip("\n") for start, end in pairwise(cuts)
    }
    return Doc(" ".join(summary.split()), meaning.strip(), sections)


@cache
def subjects() -> list[Subject]:
    """What has a page of its own, families together, in the order of the index.

    That is every name of ``st``, and what programs are made of in ``st.fn``, ``st.nn`` and
    ``st.graph``.
    """
    found = [
        Subject(name, thing, _home(name, thing))
        for name in st.__all__
        if not isinstance(thing := getattr(st, name), ModuleType)
    ]
    known = {id(subject.thing) for subject in found}
    for path in ("fn", "nn", "graph"):
        room = getattr(st, path)
        for name in room.__all__:
            thing = getattr(room, name)
            if id(thing) not in known:
                found.append(Subject(f"{path}.{name}", thing, _home(name, thing)))
    order = {heading: number for number, heading in enumerate(dict.fromkeys(FAMILIES.values()))}
    last = len(order)

    def place(subject: Subject) -> tuple[int, str, str, str]:
        if not subject.is_language:
            return 3 * (last + 1) + order[subject.family], "", subject.family, subject.path
        depth = 2 if subject.is_class else int(subject.room in ("fn", "nn"))
        known = order.get(subject.family, last) if depth != 1 else last
        room = subject.room if depth == 1 else ""
        return depth * (last + 1) + known, room, subject.family, subject.path

    return sorted(found, key=place)


def _home(name: str, thing: Any) -> ModuleType:
    """The module that defines a thing."""
    if name in st._version.__all__:
        return st._version
    module = getattr(thing, "__module__", None)
    if isinstance(thing, type) or inspect.isroutine(thing):
        return sys.modules[str(module)]
    for key, found in sorted(sys.modules.items()):
        # Packages and ``fn`` only pass on what a module of theirs defines.
        if (
            key.startswith("stepsim.graph.")
            and key != fn.__name__
            and not hasattr(found, "__path__")
        ):
            values = (vars(found).get(public) for public in getattr(found, "__all__", ()))
            if any(value is thing for value in values):
                return found
    return fn


# pages


def signature(name: str, thing: Any, *, method: bool = False) -> str:
    """``name(argument: type = default, ...) -> type``; nothing to call has the name alone."""
    if isinstance(thing, classmethod | staticmethod):
        thing = thing.__func__
    if isinstance(thing, property) or not (isinstance(thing, type) or inspect.isroutine(thing)):
        return name
    try:
        known = inspect.signature(thing)
    except ValueError:
        return name
    arguments = list(known.parameters.values())[int(method) :]
    text = str(known.replace(parameters=arguments))
    text = re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", text)
    return name + re.sub(r"'([^']*)'", _unquoted, text)


def _unquoted(found: re.Match[str]) -> str:
    """Annotations lose their quotes; defaults that are words keep them."""
    before = found.string[: found.start()]
    return found[1] if before.endswith((": ", "-> ")) else found[0]


def example_source(text: str) -> str:
    """An example as shown: preceded by the imports that it takes for granted."""
    lines = [
        *(line for line in SETTING if re.search(rf"\b{line[-2:]}\.", text)),
        *([_VALUES] if "run_functional(" in text else []),
    ]
    given = [f">>> {line}" for line in lines if line not in text]
    return "\n".join([*given, text])


def _entries(text: str) -> str:
    """``name : text`` entries as a definition list."""
    lines = []
    for line in text.splitlines():
        entry = _ENTRY.match(line)
        lines += [f"``{entry[1]}``", f"    {entry[2]}"] if entry else [line]
    return "\n".join(lines)


_NOTHING = {"FLOPs": "None.", "Memory": "None by the default counting."}
"""What a page says where the docstring of an operator has nothing to say."""


def _complete(doc: Doc) -> Doc:
    """With the sections that an operator without FLOPs or memory leaves out."""
    sections = _NOTHING | doc.sections
    order = [title for title in SECTIONS if title in sections]
    return Doc(doc.summary, doc.meaning, {title: sections[title] for title in order})


def _body(doc: Doc, heading: str) -> Iterator[str]:
    """Meaning and sections; ``heading`` underlines a title, or is empty for rubrics."""
    if doc.meaning:
        yield doc.meaning
    for title, text in doc.sections.items():
        shown = "What goes wrong" if title == "Raises" else title
        yield f"{shown}\n{heading * len(shown)}" if heading else f".. rubric:: {shown}"
        if title in ("Parameters", "Attributes", "Raises", "Returns"):
            yield _entries(text)
        else:
            yield example_source(text) if title.startswith("Example") else text


def _indented(parts: Iterator[str]) -> str:
    text = "\n\n".join(parts)
    return "\n".join(f"   {line}" if line else "" for line in text.splitlines())


def page_of(subject: Subject) -> str:
    """The page of a subject as reStructuredText."""
    doc = subject.doc()
    name = f"st.{subject.path}"
    parts = [
        f"{name}\n{'=' * len(name)}",
        ".. py:currentmodule:: stepsim",
        doc.summary,
    ]
    kind = "class" if subject.is_class else "function" if callable(subject.thing) else "data"
    made = subject.is_class and "Made by" in documentation(subject.thing)
    head = subject.path if made else signature(subject.path, subject.thing)
    parts.append(f".. py:{kind}:: {head}")
    if not callable(subject.thing):
        operands = getattr(subject.thing, "arity", None)
        if operands is not None:
            parts.append(f"A function of {operands} operand{'s' if operands != 1 else ''}.")
    parts += _body(_complete(doc) if subject.is_operator else doc, "-")
    for title, member in subject.members():
        parts.append(f"{title}\n{'-' * len(title)}")
        parts.append(_member(subject.path, title, member))
    return "\n\n".join(parts) + "\n"


@dataclass(frozen=True)
class Namespace:
    """A room whose names users reach through ``st``."""

    name: str
    room: ModuleType

    @property
    def page(self) -> str:
        return f"room-{self.name}"

    @property
    def summary(self) -> str:
        return parse(documentation(self.room)).summary

    def things(self) -> Iterator[tuple[str, Any, str]]:
        """Name, thing and docstring of all that the namespace offers."""
        for name in self.room.__all__:
            thing = getattr(self.room, name)
            yield name, thing, documentation(thing) or self._below(name, thing)

    def _below(self, name: str, thing: Any) -> str:
        """The text below the constant of this name, in the module that has it."""
        for key, module in sorted(sys.modules.items()):
            if key.startswith(self.room.__name__) and vars(module).get(name) is thing:
                text = constants(module).get(name)
                if text:
                    return text
        return ""


def namespaces() -> list[Namespace]:
    """Those of ``st``, in alphabetical order."""
    return [
        Namespace(name, room)
        for name in st.__all__
        if isinstance(room := getattr(st, name), ModuleType)
    ]


def page_of_namespace(space: Namespace) -> str:
    """The page of a namespace as reStructuredText: what it is for, and all its names."""
    heading = f"st.{space.name}"
    doc = parse(documentation(space.room))
    parts = [f"{heading}\n{'=' * len(heading)}", ".. py:currentmodule:: stepsim", doc.summary]
    parts += [doc.meaning] if doc.meaning else []
    pages = {id(subject.thing): subject for subject in subjects()}
    for title, thing, text in space.things():
        parts.append(f"{title}\n{'-' * len(title)}")
        own = pages.get(id(thing))
        if own is not None:
            parts.append(f":doc:`st.{own.path} <{own.page}>`: {own.doc().summary}")
            continue
        path = f"{space.name}.{title}"
        kind = "class" if isinstance(thing, type) else "function" if callable(thing) else "data"
        about = parse(text)
        body = _indented(iter((about.summary, *_body(about, ""))))
        head = f".. py:{kind}:: {signature(path, thing)}\n   :no-index:"
        parts.append(f"{head}\n\n{body}")
        if isinstance(thing, type) and issubclass(thing, Exception):
            continue
        for name, member in Subject(path, thing, space.room).members():
            parts.append(_member(path, name, member, index=False))
    return "\n\n".join(parts) + "\n"


def _member(owner: str, name: str, member: Any, *, index: bool = True) -> str:
    doc = parse(documentation(member))
    bound = not isinstance(member, staticmethod)
    kind = "property" if isinstance(member, property) else "method"
    head = f".. py:{kind}:: {owner}.{signature(name, member, method=bound)}"
    if not index:
        head += "\n   :no-index:"  # names of other namespaces would make its links ambiguous
    operator = getattr(member, "operator", None)
    if operator is not None:
        (subject,) = (s for s in subjects_by_thing(operator))
        link = f"Everything about it: :doc:`st.{subject.path} <{subject.page}>`."
        body = iter((doc.summary, link))
    else:
        body = iter((doc.summary, *_body(doc, "")))
    return f"{head}\n\n{_indented(body)}"


def subjects_by_thing(thing: Any) -> Iterator[Subject]:
    """The subject that a thing is, if it has a page."""
    return (subject for subject in subjects() if subject.thing is thing)


def index_page() -> str:
    """The contents of the reference, family by family."""
    title = "Reference"
    parts = [
        f"{title}\n{'=' * len(title)}",
        "Which operators, functions and classes are there, and what do they take and return? Here "
        "is everything in ``st``: what programs are made of, with functions for tiles (``st.fn``) "
        "and layers (``st.nn``), what is done with programs, and, at the end, the namespaces that "
        "have the rest. The text is that of the docstrings, so "
        "``help(st.map)`` and ``help(st.fn.matmul)`` say the same. Shapes are written outermost "
        "dim first, and dim 0 is the innermost. Arguments that many operators share, such as "
        "``write_back`` and ``par_dispatch``, are explained :doc:`on a page of their own "
        "</arguments>`. Every example is run by the tests, and its output is what it prints.",
    ]
    families: dict[str, list[Subject]] = {}
    for subject in subjects():
        families.setdefault(subject.family, []).append(subject)
    for heading, members in families.items():
        pages = "\n".join(f"   {subject.page}" for subject in members)
        rows = "\n".join(
            f"   * - :doc:`st.{s.path} <{s.page}>`\n     - {s.doc().summary}" for s in members
        )
        parts.append(f"{heading}\n{'-' * len(heading)}")
        parts.append(f".. toctree::\n   :hidden:\n\n{pages}")
        parts.append(f".. list-table::\n   :widths: 30 70\n\n{rows}")
    heading = "Namespaces"
    pages = "\n".join(f"   {space.page}" for space in namespaces())
    rows = "\n".join(
        f"   * - :doc:`st.{space.name} <{space.page}>`\n     - {space.summary}"
        for space in namespaces()
    )
    parts.append(f"{heading}\n{'-' * len(heading)}")
    parts.append(f".. toctree::\n   :hidden:\n\n{pages}")
    parts.append(f".. list-table::\n   :widths: 30 70\n\n{rows}")
    return "\n\n".join(parts) + "\n"


def takers(argument: str) -> list[Subject]:
    """Operators that take an argument of this name."""
    return [
        subject
        for subject in subjects()
        if subject.is_operator and argument in inspect.signature(subject.thing).parameters
    ]


def write_pages(folder: Path) -> None:
    """All pages; files that say the same already stay as they are, others of before go."""
    pages = {f"{subject.page}.rst": page_of(subject) for subject in subjects()}
    pages |= {f"{space.page}.rst": page_of_namespace(space) for space in namespaces()}
    pages["index.rst"] = index_page()
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.rst"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Write the pages before Sphinx looks for files, and register the list of takers."""
    from docutils import nodes
    from docutils.parsers.rst import Directive

    class Takers(Directive):
        """``{takers} ARGUMENT``: the operators that take the argument."""

        required_arguments = 1

        def run(self) -> list[nodes.Node]:
            items = nodes.paragraph("", "Taken by ")
            found = takers(self.arguments[0])
            if not found:
                raise self.error(f"no operator takes {self.arguments[0]}")
            for number, subject in enumerate(found):
                items += nodes.Text(", " if number else "")
                link = nodes.reference(
                    "", "", internal=True, refuri=f"reference/{subject.page}.html"
                )
                link += nodes.literal(text=subject.path)
                items += link
            items += nodes.Text(".")
            return [items]

    app.add_directive("takers", Takers)
    write_pages(Path(app.srcdir) / "reference")
    return {"version": st.__version__, "parallel_read_safe": True}
