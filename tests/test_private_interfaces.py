"""Private interfaces of other packages: each is listed here, exists, and has an upper bound.

A release may change what is private or undocumented without notice. With the bound in
pyproject.toml it is not installed before somebody has run these tests with it.
"""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import stepsim

ROOT = Path(stepsim.__file__).parent

BOUNDS = {"numba": "0.69", "sympy": "1.15", "typer": "0.30"}
"""Package -> first version that has not been tried."""

USED = {
    "kernels/build/compiling.py": {"numba.core.cgutils:_StructProxy._getvalue"},
    "kernels/build/folding.py": {
        "numba.core.dispatcher:_FunctionCompiler",
        "numba.core.dispatcher:_FunctionCompiler._customize_flags",
        "numba.core.dispatcher:_DispatcherBase._compiler",
    },
    "kernels/build/linking.py": {
        "numba.core.codegen:CodeLibrary._dynamic_globals",
        "numba.core.codegen:CodeLibrary._finalized",
        "numba.core.codegen:CodeLibrary._raise_if_finalized",
        "numba.core.codegen:CPUCodeLibrary._final_module",
        "numba.core.codegen:CPUCodeLibrary._finalize_dynamic_globals",
        "numba.core.codegen:CPUCodeLibrary._get_module_for_linking",
        "numba.core.codegen:CPUCodeLibrary._linking_libraries",
        "numba.core.codegen:CPUCodeLibrary._optimize_functions",
        "numba.core.codegen:CPUCodegen._customize_tm_options",
        "numba.core.codegen:CPUCodegen._data_layout",
        "numba.core.codegen:CPUCodegen._module_pass_manager",
    },
    "kernels/build/reference_type.py": {"numba.core.datamodel.models:StructModel._fields"},
    "graph/sizes/sympy_forms.py": {"sympy.printing.printer:Printer._print"},
    # Without an underscore, but in no documentation.
    "cli/commands.py": {
        "typer.core:_TyperParameter.get_runtime_param",
        "typer.core:_TyperParameter.type_descriptor",
    },
}
"""File -> what it uses, by the place where the package defines it."""

PUBLIC = {"_asdict", "_exit", "_fields", "_getframe", "_replace"}
"""Documented in spite of the underscore: of named tuples, `os` and `sys`."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def own_names(trees: dict[str, ast.AST]) -> set[str]:
    """Private names that the package defines itself, in classes, on instances or in modules."""
    found = set()
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
    return {name for name in found if is_private(name)}


def foreign_names(tree: ast.AST, own: set[str]) -> Iterator[str]:
    """Private names that a file takes from objects and modules of other packages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            yield node.attr
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            for path in (f"{module}.{alias.name}".strip(".") for alias in node.names):
                if path.partition(".")[0] not in ("stepsim", "__future__"):
                    yield from filter(is_private, path.split("."))


def sources() -> dict[str, ast.AST]:
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(ROOT.rglob("*.py"))
    }


def test_no_other_private_interface_is_used() -> None:
    trees = sources()
    listed = {file: {re.split(r"[.:]", place)[-1] for place in USED[file]} for file in USED}
    # A name that we override or set is defined here too.
    own = own_names(trees) - set().union(*listed.values())
    for file, tree in trees.items():
        unlisted = set(foreign_names(tree, own)) - listed.get(file, set())
        assert not unlisted, f"{file}: {sorted(unlisted)} must be listed in USED"


@pytest.mark.parametrize(
    ("file", "place"), [(file, place) for file in USED for place in sorted(USED[file])]
)
def test_a_private_interface_is_used_and_exists(file: str, place: str) -> None:
    module, _, path = place.partition(":")
    owner, _, name = path.rpartition(".")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(rf"\b{name}\b", text), f"{file} uses no {name} any more; take it out of USED"
    package = module.partition(".")[0]
    advice = f"{package} has changed: adapt stepsim/{file}, or lower the bound in pyproject.toml"
    home = import_module(module)
    if owner:
        assert hasattr(home, owner), advice
        # Attributes of instances are seen in the source only.
        assert re.search(rf"\b{name}\b", inspect.getsource(getattr(home, owner))), advice
    else:
        assert hasattr(home, name), advice


def test_every_such_package_has_its_upper_bound() -> None:
    text = (ROOT.parent / "pyproject.toml").read_text(encoding="utf-8")
    wanted = tomllib.loads(text)["project"]["dependencies"]
    packages = {place.partition(".")[0] for places in USED.values() for place in places}
    assert packages == BOUNDS.keys()
    for package, bound in BOUNDS.items():
        [line] = [line for line in wanted if re.match(rf"{package}\b", line)]
        assert line.endswith(f",<{bound}"), f"pyproject.toml: expected {package} below {bound}"
