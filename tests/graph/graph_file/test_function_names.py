"""The page of graph files names the functions that the format has, and those that it has not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import stepsim as st
from stepsim.errors import GraphFileError
from stepsim.graph.functions.table import FAMILIES, FUNCTIONS
from stepsim.graph.graph_file import functions

PAGE = Path(__file__).parents[3] / "docs" / "graphs.md"
BESIDE_THE_TABLE = {"matmul", "matmul_t", "cache_write_address"}


def _named(start: str) -> list[str]:
    """The names in the sentence of the page that starts so."""
    (found,) = re.findall(rf"^{start}(.*?)\.$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    return re.findall(r"`(\w+)`", found)


def test_the_page_names_what_the_format_has() -> None:
    maps, _, sums = " ".join(_named("Maps take")).partition(" add mul max ")
    assert {*maps.split()} == {*functions._ELEMENTWISE.values()} | BESIDE_THE_TABLE
    assert {"add", "mul", "max", *sums.split()} == {*functions._ACCUMULATED.values()}


def test_the_page_names_what_the_format_has_not() -> None:
    has = {*functions._ELEMENTWISE.values(), *functions._ACCUMULATED.values()} | BESIDE_THE_TABLE
    missing = _named("The other functions of `st.fn`[^:]*:")
    assert missing == sorted({*FUNCTIONS, *FAMILIES} - has)


def test_such_functions_are_refused() -> None:
    with st.Program(compute_bw=8) as program:
        st.linear_load(st.spec(8, 8, dtype="f32"), (8, 8)).map(st.fn.row_mean).consume()
    with pytest.raises(GraphFileError, match="the format has no function for row_mean"):
        program.to_graph()
