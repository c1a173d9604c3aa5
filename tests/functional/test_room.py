"""What the room loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stepsim.graph as st
from stepsim.errors import EvaluationError
from stepsim.functional import evaluate
from tests.functional.support import tiles


def test_values_need_neither_engine_nor_tables():
    code = (
        "import sys, stepsim.functional;"
        "heavy = {'numba', 'pyarrow', 'pydantic', 'ml_dtypes', 'stepsim.kernels',"
        " 'stepsim.lowering', 'stepsim.workloads'} & set(sys.modules);"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_bf16_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with st.Program() as p:
        st.linear_load(st.spec(1, 1, name="x"), (1, 1)).consume()
    with pytest.raises(EvaluationError, match=r"pip install 'stepsim\[values\]'.*scalar=\"f32\""):
        evaluate(p, {"x": [[1]]})
    evaluate(p, {"x": [[1]]}, scalar="f32")
    with st.Program() as p:
        tiles((1,))[0].consume()
    assert evaluate(p).stored == {}
