"""Every property test draws as many examples, and which ones, as its profile says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

_PROFILES = {"profile", "repeatable"}
"""The functions of `tests.property_profile` that make settings."""


def _without_profile(source: str) -> list[str]:
    """The property tests of a module that have no profile, or settings beside it."""
    return [
        function.name
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef)
        if "given" in (names := [_called(one) for one in function.decorator_list])
        if not _PROFILES & set(names) or "settings" in names
    ]


def _called(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2]


@pytest.mark.slow
def test_property_tests_have_a_profile() -> None:
    root = Path(__file__).parents[1]
    missing = {
        f"{path.relative_to(root)}: {name}"
        for folder in ("tests", "bench")
        for path in (root / folder).rglob("*.py")
        if "given" in (source := path.read_text(encoding="utf-8"))  # parsing takes longer
        for name in _without_profile(source)
    }
    assert not missing, "decorate them with tests.property_profile.profile"


@pytest.mark.parametrize(
    ("decorators", "found"),
    [
        ("@given(seed=integers())", True),
        ("@hypothesis.given(integers())\n@settings(max_examples=4)", True),
        ("@given(integers())\n@settings(max_examples=4)\n@profile(8)", True),
        ("@given(integers())\n@profile(8)", False),
        ("@repeatable(4)\n@given(integers())", False),
        ("@pytest.mark.slow", False),
    ],
)
def test_one_without_is_found(decorators: str, found: bool) -> None:
    assert _without_profile(f"{decorators}\ndef test_x(seed): ...") == ["test_x"] * found
