"""What ``stepsim compile FILE.py:NAME`` takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepsim.design.operators.models.sources import find_model
from stepsim.errors import CompileError
from stepsim.machine import load_machine

FILE = """
from stepsim.design import GraphBuilder


def layer(batch=4, hidden=8):
    b = GraphBuilder("layer")
    b.output(b.linear(b.input("x", (batch, hidden)), b.weight("w", (hidden, hidden))), "y")
    return b.graph()


def unset(hidden, rows):
    return layer(rows, hidden)


def any_size(**sizes):
    return layer(**sizes)
"""


def test_sizes_are_arguments_of_a_function(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(FILE)
    machine = load_machine("u55c")
    for name in ("layer", "any_size"):
        graph = find_model(f"{tmp_path}/own.py:{name}", machine, {"batch": 2, "hidden": 16}).graph
        assert graph.tensors["x"].shape == (2, 16)
    with pytest.raises(CompileError) as caught:
        find_model(f"{tmp_path}/own.py:layer", machine, {"tokens": 64})
    assert str(caught.value) == (
        "own.py:layer: tokens: the function has no such argument. Its arguments: batch, hidden"
    )
    with pytest.raises(CompileError) as caught:
        find_model(f"{tmp_path}/own.py:unset", machine, {"hidden": 16})
    assert str(caught.value) == (
        "own.py:unset: rows: the argument has no value; give it one by --rows, for which it needs "
        "an annotation such as rows: int, or a default"
    )
