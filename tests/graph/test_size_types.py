"""The type checker knows what a size is: an int, a formula or a sympy expression, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")

CONFIG = Path(__file__).parents[2] / "pyproject.toml"
CODE = """
import sympy
from stepsim.graph.sizes.atoms import Symbol
from stepsim.graph.sizes.dims import Dim, DimLike
from stepsim.graph.sizes.sizes import Expression, Size, ceil_div, product

n, m = sympy.Symbol("n", integer=True, nonnegative=True), Symbol("m")
good: list[Expression] = [3, n, n + 1, 2 * n, m.sympy(), Dim(n).expr]
own: list[Size] = [3, m, m + 1, 2 * m, ceil_div(m, 4), product((3, m)), Dim(n).size]
alike: list[DimLike] = [*good, *own, Dim(n)]
reveal_type(n + 1)
a: Size = "3"
b: Size = 3.5
ceil_div("3", 2)
product(["n"])
Dim.of("n")
good[0].is_Symbol
own[0].is_symbol
own[1].is_Symbol
wrong: list[Size] = [n]
sympy.no_such_name
"""
WRONG = {12: "assignment", 13: "assignment", 14: "arg-type", 15: "list-item", 16: "arg-type",
         17: "union-attr", 18: "union-attr", 19: "union-attr", 20: "list-item",
         21: "attr-defined"}  # fmt: skip


@pytest.mark.slow
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
