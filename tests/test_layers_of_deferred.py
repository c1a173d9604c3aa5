"""Modules that are imported late, by `deferred`, keep to the rules of pyproject.toml too.

import-linter reads import statements alone. Here its contracts are checked on the graph of imports
together with the names that `deferred` is called with.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter.configuration import configure
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

import stepsim
from tests.test_imports import module_of

ROOT = Path(stepsim.__file__).parent
RULES = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = RULES["tool"]["importlinter"]["contracts"]
KINDS: dict[str, Any] = {"layers": LayersContract, "forbidden": ForbiddenContract}


def deferred_in(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of the module of every call of ``deferred`` with a constant."""
    tree = ast.parse(source if "deferred(" in source else "")  # most files have none
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name("deferred") | ast.Attribute(attr="deferred"),
                args=[ast.Constant(str(name))],
            ):
                yield node.lineno, name


def deferred_imports(root: Path) -> list[tuple[str, int, str]]:
    """Importing module, line and imported module of all files below a package."""
    return [
        (module_of(path, root), line, name)
        for path in sorted(root.rglob("*.py"))
        for line, name in deferred_in(path.read_text(encoding="utf-8"))
    ]


def add_imports(graph: grimp.ImportGraph, imports: list[tuple[str, int, str]]) -> None:
    """Add deferred imports to a graph, which has other packages by their name alone."""
    for importer, line, name in imports:
        outside = name.partition(".")[0]
        if outside == "stepsim":
            assert name in graph.modules, f"{importer}:{line} defers {name}, which does not exist"
        elif outside not in graph.modules:
            graph.add_module(outside, is_squashed=True)
        imported = name if outside == "stepsim" else outside
        graph.add_import(
            importer=importer, imported=imported, line_number=line, line_contents="deferred"
        )


def broken(contract: Mapping[str, Any], graph: grimp.ImportGraph) -> Mapping[str, Any]:
    """What a contract finds in a graph; empty if it is kept."""
    checked = KINDS[contract["type"]](
        contract["name"],
        {"root_packages": ["stepsim"], "include_external_packages": True},
        # Options are texts, as in files of other formats.
        {
            key: str(value) if isinstance(value, bool) else value
            for key, value in contract.items()
            if key not in ("name", "type")
        },
    ).check(deepcopy(graph), verbose=False)
    return {} if checked.kept else checked.metadata


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    configure()  # what contracts take from the settings of the command
    return grimp.build_graph("stepsim", include_external_packages=True, cache_dir=None)


@pytest.mark.slow
def test_deferred_modules_keep_to_the_contracts(imports: grimp.ImportGraph) -> None:
    graph = deepcopy(imports)
    add_imports(graph, deferred_imports(ROOT))
    found = {contract["name"]: broken(contract, graph) for contract in CONTRACTS}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("importer", "name", "contract"),
    [
        ("stepsim.machine.model", "stepsim.hardware.loading", "Data goes down the rooms"),
        ("stepsim.deferred", "stepsim.other_names", "Data goes down the rooms"),
        ("stepsim.design.choices", "stepsim.design.plan.plan", "A design is made"),
        ("stepsim.machine.model", "numpy", "A machine is a description"),
    ],
)
def test_a_module_deferred_against_a_contract_is_found(
    imports: grimp.ImportGraph, importer: str, name: str, contract: str
) -> None:
    graph = deepcopy(imports)
    add_imports(graph, [(importer, 1, name)])
    (rules,) = (one for one in CONTRACTS if one["name"].startswith(contract))
    assert not broken(rules, imports)
    assert broken(rules, graph)


@pytest.mark.slow
def test_calls_are_found_in_the_source() -> None:
    source = "import a\nb = deferred('c.d')\nif a:\n    e = stepsim.deferred.deferred('f')\n"
    assert list(deferred_in(source)) == [(2, "c.d"), (4, "f")]
    assert len(deferred_imports(ROOT)) > 50
