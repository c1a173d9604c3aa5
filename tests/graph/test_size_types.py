"""The type checker knows what a size is: an int or a sympy expression, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")

CONFIG = Path(__file__).parents[2] / "pyproject.toml"
CODE = """
import sympy
from stepsim.graph.dims import Dim
from stepsim.graph.sizes import Size, ceil_div, product

n = sympy.Symbol("n", integer=True, nonnegative=True)
good: list[Size] = [3, n, n + 1, 2 * n, ceil_div(n, 4), product((3, n)), Dim(n).expr]
reveal_type(n + 1)
a: Size = "3"
b: Size = 3.5
ceil_div("3", 2)
product(["n"])
Dim.of("n")
good[0].is_Symbol
sympy.no_such_name
"""
WRONG = {9: "assignment", 10: "assignment", 11: "arg-type", 12: "list-item", 13: "arg-type",
         14: "union-attr", 15: "attr-defined"}  # fmt: skip


def test_only_ints_and_expressions_are_sizes(tmp_path: Path) -> None:
    code = tmp_path / "size_snippet.py"
    code.write_text(CODE, encoding="utf-8")
    printed, errors, _ = api.run(["--config-file", str(CONFIG), "--no-pretty", str(code)])
    assert errors == ""
    lines = printed.splitlines()
    assert any('note: Revealed type is "sympy.Expr"' in line for line in lines)
    found = {
        int(line.split(": error: ")[0].rpartition(":")[2]): line.rpartition("[")[2].rstrip("]")
        for line in lines
        if "size_snippet.py:" in line and ": error: " in line
    }
    assert found == WRONG, printed
