"""No room of the package has a circle of imports, not even one that hides inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import stepsim

ROOT = Path(stepsim.__file__).parent
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def module_of(path: Path, root: Path) -> str:
    parts = (root.name, *path.relative_to(root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import that may run, at the top of a file or in a function; not those for types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and is_type_checking(node):
            for other in node.orelse:
                yield from imports(ast.Module([other], []))
        else:
            yield from imports(node)


@cache
def import_graph(root: Path) -> dict[str, set[str]]:
    """Module -> modules of the package under ``root`` that it names in an import."""
    files = {module_of(path, root): path for path in sorted(root.rglob("*.py"))}
    edges: dict[str, set[str]] = {}
    for name, path in files.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found: set[str] = set()
        for node in imports(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
                continue
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                # `from package import module` needs the module, not what the package exports.
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in files else base)
        edges[name] = {target for target in found if target in files and target != name}
    return edges


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(edges[node]):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_no_circle_of_imports(room: str) -> None:
    edges = import_graph(ROOT)
    inside = {name for name in edges if name.split(".")[1:2] == [room]}
    assert circles({name: edges[name] & inside for name in inside}) == []


def test_rooms_together_have_no_circle_of_imports() -> None:
    edges = {name: targets for name, targets in import_graph(ROOT).items() if name != ROOT.name}
    assert circles({name: targets & edges.keys() for name, targets in edges.items()}) == []


def test_circles_are_found(tmp_path: Path) -> None:
    root = tmp_path / "pack"
    root.mkdir()
    sources = {
        "__init__": "from pack.a import f\n",
        "a": "def f():\n    from pack.b import g\n    return g\n",
        "b": "from . import c\ng = c.h\n",
        "c": "import pack.a\nh = 1\n",
        "d": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack.e import k\n",
        "e": "from pack.d import TYPE_CHECKING as k\n",
    }
    for name, text in sources.items():
        (root / f"{name}.py").write_text(text, encoding="utf-8")
    assert circles(import_graph(root)) == [["pack.a", "pack.b", "pack.c"]]
