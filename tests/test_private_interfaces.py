"""Private interfaces of other packages: each is listed here, exists, and has an upper bound.

A release may change what is private or undocumented without notice. With the bound in
pyproject.toml it is not installed before somebody has run these tests with it.
"""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import stepsim
from tests.parsed import parsed

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


def private_names(tree: ast.AST) -> tuple[set[str], set[str], set[str]]:
    """Private names of a file: what it defines, in classes, on instances or in itself; attributes
    that it asks for; and what it imports from other packages."""
    defined, asked, imported = set(), set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                defined.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                defined.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                defined.add(name)
                asked.add(name)
            case ast.Attribute(attr=name):
                asked.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                module = getattr(node, "module", None) or ""
                for path in (f"{module}.{alias.name}".strip(".") for alias in names):
                    if path.partition(".")[0] not in ("stepsim", "__future__"):
                        imported.update(path.split("."))
    own, attributes, foreign = (
        set(filter(is_private, names)) for names in (defined, asked, imported)
    )
    return own, attributes, foreign


@pytest.mark.slow
def test_no_other_private_interface_is_used() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): private_names(parsed(path))
        for path in sorted(ROOT.rglob("*.py"))
    }
    listed = {file: {re.split(r"[.:]", place)[-1] for place in USED[file]} for file in USED}
    # A name that we override or set is defined here too.
    own = set().union(*(defined for defined, _, _ in found.values())) - set().union(
        *listed.values()
    )
    for file, (_, attributes, imported) in found.items():
        unlisted = (attributes - own | imported) - listed.get(file, set())
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
    project = tomllib.loads(text)["project"]
    wanted = project["dependencies"]
    packages = {place.partition(".")[0] for places in USED.values() for place in places}
    assert packages == BOUNDS.keys()
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    bounded = {re.split(r"\W", line)[0] for line in [*wanted, *extras] if "<" in line}
    assert bounded == packages, "other packages have no upper bound"
    for package, bound in BOUNDS.items():
        [line] = [line for line in wanted if re.match(rf"{package}\b", line)]
        assert line.endswith(f",<{bound}"), f"pyproject.toml: expected {package} below {bound}"
