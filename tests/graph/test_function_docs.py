"""The examples in the docstrings of functions and of what applies them run as they stand."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest

import stepsim as st
from stepsim.graph import Function, fn
from stepsim.graph.functions.selectors import SelectorFunction
from stepsim.simulation import run_functional

FUNCTIONS = [
    *(f for name in fn.__all__ if isinstance(f := getattr(fn, name), Function)),
    fn.add_const(1), fn.sub_const(1), fn.mul_const(1), fn.div_const(2), fn.floor_div_const(2),
    fn.pow(2), fn.clamp(0, 1), fn.full_like(0), fn.cast("f32"), fn.quantize("i8"),
    fn.dequantize("f32"), fn.concat_rows(2), fn.concat_cols(3), fn.slice_rows(0, 2),
    fn.slice_cols(1, 3), fn.rotary("half"), fn.causal_mask(), fn.length_mask(), fn.part(0, 2),
    fn.is_equal(0), fn.to_integer(1), *(f for name in fn.__all__
      if isinstance(f := getattr(fn, name), SelectorFunction)),
    fn.index_to_multihot(3), fn.integer_to_multihot(2),
]  # fmt: skip
OTHERS = [
    st.function,
    st.map,
    st.unzip,
    st.accum,
    st.map_accum,
    st.scan,
    st.row_stat,
    st.accum_buffer,
]


@pytest.mark.parametrize(
    "documented", [*FUNCTIONS, *OTHERS], ids=lambda f: getattr(f, "__name__", str(f))
)
def test_examples_run(documented: Any) -> None:
    names = {"st": st, "np": np, "run_functional": run_functional}
    test = doctest.DocTestParser().get_doctest(documented.__doc__, names, "doc", None, 0)
    if documented is not fn.append_row:  # needs a tile with room
        assert test.examples
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.failures == 0
