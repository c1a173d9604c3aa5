"""The table of refused arguments in ``pytorch.md``, drawn from the importers; run me to draw it
anew.

Readers of operators refuse arguments by ``raise Unsupported(...)``. A row has what such a line says
and the operators whose readers can come to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from drawn import redrawn

from stepsim.design.operators.importers import values
from stepsim.design.operators.importers.onnx_files import ops as onnx_ops
from stepsim.design.operators.importers.pytorch import ops as torch_ops

PAGE = Path(__file__).parent / "pytorch.md"
IMPORTERS = Path(values.__file__).parent
OWN = "stepsim.design.operators.importers"
Place = tuple[str, str]
"""A module of the importers and a function in it."""


@cache
def functions() -> dict[Place, ast.FunctionDef]:
    """All functions of the importers that are not inside of others."""
    return {
        (".".join(path.relative_to(IMPORTERS).with_suffix("").parts), node.name): node
        for path in sorted(IMPORTERS.rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }


@cache
def names_of(module: str) -> dict[str, Place | str]:
    """What the names of a module stand for: another module of the importers, or a function."""
    found: dict[str, Place | str] = {name: (own, name) for own, name in functions()
                                     if own == module}  # fmt: skip
    text = IMPORTERS.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OWN):
            own = (node.module or "").removeprefix(OWN).removeprefix(".")
            for alias in node.names:
                name = alias.asname or alias.name
                path = f"{own}.{alias.name}" if own else alias.name
                inner = IMPORTERS.joinpath(*path.split(".")).with_suffix(".py").is_file()
                found[name] = path if inner else (own, alias.name)
    return found


def called(place: Place) -> Iterator[Place]:
    """Functions of the importers that a function names."""
    names, within = names_of(place[0]), list(ast.walk(functions()[place]))
    own = {node.arg for node in within if isinstance(node, ast.arg)}
    own |= {node.id for node in within
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}  # fmt: skip
    for node in within:
        if isinstance(node, ast.Name) and node.id in own:
            continue
        if isinstance(node, ast.Name) and isinstance(names.get(node.id), tuple):
            yield names[node.id]  # type: ignore[misc]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = names.get(node.value.id)
            if isinstance(module, str):
                yield module, node.attr


def reached(place: Place) -> set[Place]:
    """A function and all that it calls, directly or not."""
    found, left = set[Place](), [place]
    while left:
        one = left.pop()
        if one in functions() and one not in found:
            found.add(one)
            left += called(one)
    return found


def operators(table: Mapping[str, Any]) -> dict[Place, list[str]]:
    """Operators of a table whose readers come to each function."""
    found: dict[Place, list[str]] = {}
    for name, reader in table.items():
        place = (
            reader.__module__.removeprefix(f"{OWN}."), reader.__qualname__.partition(".")[0],
        )  # fmt: skip
        for one in reached(place):
            short = name.partition(".")[0]
            found.setdefault(one, [])
            if short not in found[one]:
                found[one].append(short)
    return found


def text_of(message: ast.expr) -> str:
    """A message, with dots for what is known when it is made."""
    if isinstance(message, ast.Constant):
        return str(message.value)
    assert isinstance(message, ast.JoinedStr)
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "..." for part in message.values
    )


def rows() -> Iterator[tuple[str, list[str], list[str]]]:
    """What is refused, and of which operators of PyTorch and ONNX."""
    of_torch, of_onnx = operators(torch_ops.OPS), operators(onnx_ops.OPS)
    for place, node in functions().items():
        for one in ast.walk(node):
            if not isinstance(one, ast.Raise) or not isinstance(one.exc, ast.Call):
                continue
            if isinstance(one.exc.func, ast.Name) and one.exc.func.id == "Unsupported":
                yield text_of(one.exc.args[0]), of_torch.get(place, []), of_onnx.get(place, [])


def table() -> str:
    lines = ["| refused | of PyTorch | of ONNX |", "|---|---|---|"]
    for text, of_torch, of_onnx in sorted(rows(), key=lambda row: (row[1:], row[0])):
        cells = [", ".join(f"`{name}`" for name in sorted(names)) for names in (of_torch, of_onnx)]
        lines.append(f"| {text.replace('|', ' or ')} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines) + "\n"


def drawn(page: str) -> str:
    """The page with the table of today."""
    return redrawn(page, "refusals", table())


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
