"""Every layer says what it takes, what it costs and what goes wrong, and its example runs."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import stepsim as st

LAYERS = [name for name in st.nn.__all__ if inspect.isfunction(getattr(st.nn, name))]
MOVING = ("all_gather", "all_to_all", "dispatch_rows")
TIMED = [name for name in LAYERS if name not in ("rope_tables", "top_k", *MOVING)]


@pytest.mark.parametrize("name", LAYERS)
def test_the_example_runs(name: str) -> None:
    text = inspect.getdoc(getattr(st.nn, name)) or ""
    example = doctest.DocTestParser().get_doctest(text, {"st": st, "np": np}, name, None, None)
    assert f"st.nn.{name}(" in text
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", TIMED)
def test_shapes_costs_and_errors_are_documented(name: str) -> None:
    text = inspect.getdoc(getattr(st.nn, name)) or ""
    for section in ("Shape", "Parameters", "FLOPs", "Raises", "Example"):
        assert f"\n{section}\n{'-' * len(section)}\n" in text, section
    parameters = inspect.signature(getattr(st.nn, name)).parameters
    assert {"compute_bw", "label"} <= set(parameters)
