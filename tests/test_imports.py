"""No circular import, not even one inside functions; and nothing heavy that is not needed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import stepsim
from stepsim.deferred import deferred, require
from stepsim.errors import ArgError
from tests.parsed import parsed

ROOT = Path(stepsim.__file__).parent
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def module_of(path: Path, root: Path) -> str:
    parts = (root.name, *path.relative_to(root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(
        "TYPE_CHECKING" in (getattr(part, "id", None), getattr(part, "attr", None))
        for part in ast.walk(node.test)
    )


def imports(tree: ast.AST, *, types: bool = False) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import at the top of a file or in a function; those for types only if wanted."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.expr):
            continue  # no statement is inside
        elif not types and isinstance(node, ast.If) and is_type_checking(node):
            for other in node.orelse:
                yield from imports(ast.Module([other], []))
        else:
            yield from imports(node, types=types)


def offered(root: Path) -> dict[str, str]:
    """Names that rooms offer in their stubs -> modules that have them."""
    found = {}
    for stub in root.rglob("__init__.pyi"):
        package = module_of(stub, root)
        for node in parsed(stub).body:
            assert isinstance(node, ast.ImportFrom)
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                path = root.parent / Path(*inner.split("."))
                is_module = path.is_dir() or path.with_suffix(".py").is_file()
                # Only the room of traces has another name for users.
                assert alias.asname == alias.name or is_module, (
                    f"{stub}: {alias.name} must be offered by its own name"
                )
                found[f"{package}.{alias.asname}"] = inner if is_module else str(node.module)
    return found


@cache
def import_graph(root: Path) -> dict[str, set[str]]:
    """Module -> modules of the package under ``root`` that it names in an import."""
    files = {module_of(path, root): path for path in sorted(root.rglob("*.py"))}
    homes = offered(root)
    edges: dict[str, set[str]] = {}
    for name, path in files.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found: set[str] = set()
        for node in imports(parsed(path)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
                continue
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                # `from package import module` needs the module, not what the package exports, and a
                # name that a room offers needs the module that has it.
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in files else homes.get(inner, base))
        edges[name] = {target for target in found if target in files and target != name}
    return edges


def cycles(edges: Mapping[str, set[str]]) -> list[list[str]]:
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


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_no_cycle_of_imports(room: str) -> None:
    edges = import_graph(ROOT)
    inside = {name for name in edges if name.split(".")[1:2] == [room]}
    assert cycles({name: edges[name] & inside for name in inside}) == []


def test_rooms_together_have_no_cycle_of_imports() -> None:
    edges = {name: targets for name, targets in import_graph(ROOT).items() if name != ROOT.name}
    assert cycles({name: targets & edges.keys() for name, targets in edges.items()}) == []


def test_cycles_are_found(tmp_path: Path) -> None:
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
    assert cycles(import_graph(root)) == [["pack.a", "pack.b", "pack.c"]]


@pytest.mark.slow
def test_a_room_offers_what_its_stub_lists() -> None:
    """The reader of stubs at run time is a simple one; Python's own reads the same."""
    listed: dict[str, list[str]] = {}
    for name in offered(ROOT):
        package, _, offer = name.rpartition(".")
        listed.setdefault(package, []).append(offer)
    for package, names in listed.items():
        room = import_module(package)
        assert set(room.__all__) <= set(names), package
        for name in names:
            assert getattr(room, name) is not None


def test_no_offered_name_is_that_of_a_module() -> None:
    """Importing the module would put it in the place of what is offered."""
    for name, home in offered(ROOT).items():
        path = ROOT.parent / Path(*name.split("."))
        assert home == name or not (path.is_dir() or path.with_suffix(".py").is_file()), name


def crossings(root: Path) -> tuple[int, list[str]]:
    """Names that rooms import from other rooms, and those that they take past the door."""
    rooms = {path.parent.name for path in root.glob("*/__init__.py")}
    count, past = 0, []
    for path in sorted(root.rglob("*.py")):
        own = path.relative_to(root).parts[0]
        for node in imports(parsed(path), types=True):
            if isinstance(node, ast.Import):
                taken = [(alias.name, alias.name) for alias in node.names]
            elif node.module:
                taken = [(node.module, f"{alias.name} of {node.module}") for alias in node.names]
            else:
                continue
            for module, what in taken:
                package, room, *inside = [*module.split("."), "", ""][:3]
                if package == root.name and room in rooms - {own}:
                    count += 1
                    if any(inside):
                        past.append(f"{path.relative_to(root)}:{node.lineno} takes {what}")
    return count, past


MOST_PAST = 0.15
"""Of the names that rooms take from each other; tests and kernels have to look inside at times."""

MOST_MODULES = 20
"""Files that a folder may have before its subjects are hard to see."""


@pytest.mark.slow
def test_rooms_take_names_from_each_other_at_the_door() -> None:
    count, past = crossings(ROOT)
    assert count > 1000
    assert len(past) <= MOST_PAST * count, (
        f"{len(past)} of {count} names come past the door of their room; offer them in its "
        "__init__.pyi and import them from the room:\n" + "\n".join(past)
    )


def test_imports_past_a_door_are_found(tmp_path: Path) -> None:
    sources = {
        "pack/__init__.py": "",
        "pack/a/__init__.py": "",
        "pack/a/f.py": "from pack.a.g import own\nfrom pack.b import one, two\nimport pack.b\n",
        "pack/b/__init__.py": "",
        "pack/b/g.py": "from pack.a.f import three, four\nimport pack.a.f\nimport sys\n",
        "pack/c.py": "from pack.a import f\n",
    }
    for name, text in sources.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    count, past = crossings(tmp_path / "pack")
    assert count == 7
    assert past == [
        "b/g.py:1 takes three of pack.a.f", "b/g.py:1 takes four of pack.a.f",
        "b/g.py:2 takes pack.a.f",
    ]  # fmt: skip


FOLDERS = sorted({str(path.parent.relative_to(ROOT.parent)) for path in ROOT.rglob("*.py")})


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_shows_its_subjects(folder: str) -> None:
    files = sorted(path.name for path in (ROOT.parent / folder).glob("*.py"))
    assert len(files) <= MOST_MODULES, (
        f"{folder} has {len(files)} modules; give each of its subjects a folder: {', '.join(files)}"
    )


IN_FUNCTIONS = {
    "kernels": "compiling and linking are for processes that find no compiled engine",
    "data/fetch.py": "Windows has no fcntl",
    "design/operators/models/sources.py": "importers ask for the models that are built in",
    "design/plan/compiled.py": "what writes a design is not needed to make it",
    "graph/nn/__init__.py": "functions of a graph are built of layers too",
    "pytest_plugin/plugin.py": "pytest looks at every name of a plugin, which would import it",
    "sweep/storage/disk.py": "Windows has no fcntl",
}
"""Room or file whose functions import something -> why that is neither at the top nor deferred."""


@pytest.mark.slow
def test_functions_import_nothing() -> None:
    """What is slow to import is deferred by `stepsim.deferred`; all else is imported at the top."""
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT)
        text = path.read_text(encoding="utf-8")
        if not re.search(r"^[ \t]+(import|from)\b", text, flags=re.MULTILINE):
            continue  # parsing takes longer
        functions = (
            node
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        if any(True for function in functions for _ in imports(function, types=True)):
            room = file.parts[0]
            found.add(room if room in IN_FUNCTIONS else file.as_posix())
    assert found == IN_FUNCTIONS.keys()


def test_a_deferred_module_has_its_modules_and_no_other_names() -> None:
    package = deferred("xml")
    assert package.etree.ElementTree.Element("a").tag == "a"
    with pytest.raises(AttributeError, match="'xml' has no attribute 'nothing'"):
        _ = package.nothing


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ArgError, match=r"duckdb, which is not installed: .*\[query\]'; or wait"):
        require("duckdb", ArgError, advice="; or wait")


@pytest.mark.slow
def test_the_package_is_imported_from_a_zip_file(tmp_path: Path) -> None:
    """Rooms read what they offer by the loader of the package, wherever that is."""
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as packages:
        for path in ROOT.rglob("*"):
            if path.suffix in (".py", ".pyi", ".toml"):
                packages.write(path, path.relative_to(ROOT.parent))
    code = """
import stepsim as st
with st.Program("copy") as program:
    st.linear_store(st.linear_load(st.spec(64, 64), tile=(16, 64)), "out")
print(st.__file__, len(program.operators), len(st.data.datasets()))
"""
    environment = os.environ | {"PYTHONPATH": str(archive)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    place, operators, datasets = done.stdout.split()
    assert place == str(archive / "stepsim" / "__init__.py")
    assert (operators, int(datasets) > 0) == ("2", True)


UNUSED = {
    "importlib.metadata", "llvmlite", "loky", "matplotlib", "numba", "numpy.ma", "pandas", "pooch",
    "psutil", "pyarrow", "pydantic", "requests", "stepsim.other_names",
    "stepsim.functional.evaluation", "stepsim.graph.graph_file", "stepsim.sweep.spec.specification",
}  # fmt: skip
"""What neither a run nor a help text needs, once the engine is compiled."""

SYMBOLS = {"sympy", "yaml"}
"""What only a size that stays symbolic and a file of the user need."""

COMMAND = """
import sys
from stepsim.cli.main import main
sys.argv[1:] = {arguments!r}
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""

FILE = """
import stepsim as st
def small(rows: int = 64) -> st.Program:
    with st.Program("small", compute_bw=1024) as program:
        st.linear_store(st.linear_load(st.spec(rows, 64), tile=(16, 64)), "out")
    return program
"""
"""A file of the user."""

SMALL = """
import sys
import stepsim as st
with st.Program("small", compute_bw=1024) as program:
    rows = st.linear_load(st.spec(64, 64), tile=(16, 64))
    weight = st.linear_load(st.spec(64, 64), tile=(64, 64), ref=rows)
    st.linear_store(st.map(st.fn.matmul, rows, weight.flatten(0, 1).flatten(0, 1)), "out")
result = st.simulate(program)
print(result)
assert result.status == "ok"
"""

TABLES = """
import sys
assert result.units.num_rows > 3 and result.fifos.num_rows > 2
assert result.to_arrow()["status"].to_pylist() == ["ok"]
print("read")
"""
"""Reads the tables of that run."""


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Of processes that find a compiled engine and were told nothing about compilers."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    command = [sys.executable, "-m", "stepsim", "warmup", "runs", "recorded"]
    subprocess.run(command, env=found, capture_output=True, check=True)
    return found


def command(*arguments: str) -> str:
    return COMMAND.format(arguments=list(arguments))


MOE = ("run", "moe", "--model", "mixtral-8x7b", "--routing", "routing.npy", "--tile")
NUMBERS = UNUSED | SYMBOLS | {"rich"}
"""What a run that prints no table does not need."""

STEPS = {
    "texts": {
        "help": (command("--help"), UNUSED | SYMBOLS | {
            "numpy", "tempfile", "stepsim.atomic", "stepsim.cli.data", "stepsim.cli.heartbeat",
            "stepsim.cli.runs.execution", "stepsim.cli.sweeps.group", "stepsim.workloads",
        }),
        "run-help": (command("run", "moe", "--help"), UNUSED | SYMBOLS | {"numpy"}),
        "machines": (command("machines"), UNUSED | SYMBOLS | {"numpy"}),
    },
    "runs": {
        "run": (command(*MOE, "32"), NUMBERS),
        "run-dynamic": (command(*MOE, "dynamic"), NUMBERS),
        "run-json": (command(*MOE, "32", "--json"), NUMBERS),
        "run-file": (command("run", "small.py"), NUMBERS),
        "inspect": (command("inspect", *MOE[1:], "dynamic"), UNUSED),
        "run-out": (command(*MOE, "32", "--out", "run.parquet"), {"pandas"}),
    },
    "python": {
        "python": (SMALL, UNUSED | SYMBOLS | {
            "rich", "subprocess", "tempfile", "typer", "zipfile", "stepsim.trace_io.schema",
            "stepsim.workloads.workload",
        }),
        "python-tables": (TABLES, {"pandas", "rich"}),
    },
}  # fmt: skip
"""Steps of a process, each with what it and those before it do not need."""


@pytest.mark.slow
@pytest.mark.parametrize("process", STEPS)
def test_nothing_heavy_is_imported_without_need(
    tmp_path: Path, environment: dict[str, str], process: str
) -> None:
    (tmp_path / "small.py").write_text(FILE, encoding="utf-8")
    np.save(tmp_path / "routing.npy", np.tile(np.arange(2, dtype=np.int32), (64, 1)))
    lines = ["import os, sys", "told, before = {}, 0"]
    for name, (code, unused) in STEPS[process].items():
        lines += [
            code, "sys.stdout.flush()", "printed = os.fstat(1).st_size",
            f"told[{name!r}] = printed > before, {unused!r} & sys.modules.keys()",
            "before = printed",
        ]  # fmt: skip
    lines.append("sys.stderr.write(f'told: {told}')")
    with (tmp_path / "printed.txt").open("w") as printed:
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(lines)],
            env=environment, stdout=printed, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    _, _, told = done.stderr.rpartition("told: ")
    assert eval(told) == dict.fromkeys(STEPS[process], (True, set()))
