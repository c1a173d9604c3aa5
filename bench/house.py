"""Counts of the house: code lines, imports, names, commands and their options, files of rooms.

``python -m bench.house [--base REV]`` prints them as a Markdown table, beside those of a revision.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.test_imports import cycles, import_graph

__all__ = ["counts", "main", "option_slots"]

_ROOT = Path(__file__).parents[1]
_COMMAND = "run decoder"
"""The command with the most options."""

_OF_PROCESS = """
import json
import stepsim
from bench.house import option_slots
print(json.dumps([len(dir(stepsim)), option_slots()]))
"""


def option_slots() -> dict[str, int]:
    """The number of options of every command that can be run, by what is typed.

    Help and hidden options are not counted; an option with a ``--no-`` form is one.
    """
    import typer.main

    from stepsim.cli.main import app

    def found(command: Any, path: str) -> Iterator[tuple[str, int]]:
        if hasattr(command, "list_commands"):
            for name in command.list_commands(None):
                yield from found(command.get_command(None, name), f"{path} {name}".strip())
        else:
            yield (
                path,
                sum(one.param_type_name == "option" and not one.hidden for one in command.params),
            )

    return dict(found(typer.main.get_command(app), ""))


def counts(root: Path = _ROOT) -> dict[str, float]:
    """All counts of the tree at ``root``."""
    package = root / "stepsim"
    files = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in files.items()}
    crossing, past = _crossing(package, trees)
    names, slots = _of_process(root)
    graph = import_graph(package)
    # The package itself is above its rooms.
    inner = graph.keys() - {package.name}
    edges = {name: graph[name] & inner for name in inner}
    arrows: dict[str, set[str]] = {_room(name): set() for name in inner}
    for name, targets in edges.items():
        arrows[_room(name)] |= {_room(one) for one in targets} - {_room(name)}
    return {
        "lines in stepsim/": sum(len(text.splitlines()) for text in files.values()),
        "code lines in stepsim/": sum(
            _code_lines(text, trees[path]) for path, text in files.items()
        ),
        "modules": len(files),
        "modules of the largest flat folder": max(
            Counter(path.parent for path in files if path.stem != "__init__").values()
        ),
        "rooms": sum((package / name).is_dir() for name in arrows),
        "arrows: rooms and files at the top that import another": sum(map(len, arrows.values())),
        "cycles of imports between these": len(cycles(arrows)),
        "cycles of imports between modules": len(cycles(edges)),
        "imports across rooms": crossing,
        "of these past a door": past,
        "of these past a door, %": round(100 * past / crossing, 1),
        "imports in functions": sum(_inner_imports(tree) for tree in trees.values()),
        "names in dir(stepsim)": names,
        "commands": len(slots),
        "option slots": sum(slots.values()),
        f"options of {_COMMAND}": slots[_COMMAND],
        **_files(package, trees),
    }


def _room(module: str) -> str:
    """The room of a module, or the module itself where it is beside them."""
    return module.split(".")[1]


def _files(package: Path, trees: Mapping[Path, ast.Module]) -> dict[str, float]:
    """Files of every room, the largest first."""
    parts = (path.relative_to(package).parts for path in trees)
    rooms = Counter(f"{own[0]}/" if len(own) > 1 else "beside the rooms" for own in parts)
    return {f"files of {room}": count for room, count in rooms.most_common()}


def _code_lines(text: str, tree: ast.Module) -> int:
    """Lines with code: no blank ones, comments, or strings that are statements."""
    strings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    empty = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
             tokenize.ENDMARKER}  # fmt: skip
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in empty:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - strings)


def _crossing(package: Path, trees: Mapping[Path, ast.Module]) -> tuple[int, int]:
    """Names that one room takes from another, and how many of these not from its door."""
    crossing = past = 0
    for path, tree in trees.items():
        own = path.relative_to(package).parts[0]
        used = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                top, *parts = node.module.split(".")
                if top == "stepsim" and parts and parts[0] != own and (package / parts[0]).is_dir():
                    crossing += len(node.names)
                    past += len(node.names) * (len(parts) > 1)
            elif isinstance(node, ast.Attribute):
                used.add(ast.unparse(node))
        # Rooms that are imported whole, as stepsim.results in stepsim.results.Result.
        for _, room, name in (one.split(".") for one in used if one.count(".") == 2):
            if f"stepsim.{room}.{name}" in used and room != own and (package / room).is_dir():
                crossing += 1
                past += _is_module(package / room / name)
    return crossing, past


def _is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()


def _inner_imports(tree: ast.Module) -> int:
    """Imports in functions, each counted once."""
    found = {
        (inner.lineno, inner.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    }
    return len(found)


def _of_process(root: Path) -> tuple[int, dict[str, int]]:
    """What only a process that imports the tree can count: names and options."""
    # The tree first, and this file for trees that lack it.
    paths = [str(root), str(_ROOT)]
    done = subprocess.run(
        [sys.executable, "-c", _OF_PROCESS],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    names, slots = json.loads(done.stdout)
    return names, slots


def _of_revision(revision: str) -> dict[str, float]:
    packed = subprocess.run(
        ["git", "archive", revision, "stepsim"], cwd=_ROOT, stdout=subprocess.PIPE, check=True
    ).stdout
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        return counts(Path(folder))


def main() -> None:
    """Print the counts, beside those of a revision if one is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", metavar="REV", help="revision of git to compare with")
    base = parser.parse_args().base
    tables = [counts()] if base is None else [_of_revision(base), counts()]
    print("| count |", " | ".join(["now"] if base is None else [base, "now"]), "|")
    print("|---|" + "---:|" * len(tables))
    for name in dict.fromkeys(name for one in tables for name in one):
        print(f"| {name} |", " | ".join(_cell(one.get(name)) for one in tables), "|")


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:,}"


if __name__ == "__main__":
    main()
