"""``import stepsim as st``: light, complete and honest about what it has."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stepsim as st
from stepsim import errors, graph, simulation


@pytest.mark.parametrize("name", [*st.__all__, *graph.__all__, *errors.__all__])
def test_every_public_name_exists_and_is_listed(name: str) -> None:
    assert getattr(st, name) is not None
    assert name in dir(st)


@pytest.mark.parametrize("name", st.nn.__all__)
def test_every_layer_is_reachable_and_documented(name: str) -> None:
    assert getattr(st.nn, name).__module__.startswith("stepsim.graph.nn")
    assert getattr(st.nn, name).__doc__


def test_values_are_reached_without_a_submodule() -> None:
    assert st.run_functional is simulation.run_functional
    with st.Program() as program:
        x = st.linear_load(st.spec(2, 2, name="x", dtype="f32"), (1, 2))
        st.linear_store(x, "y")
    values = st.run_functional(program, {"x": [[1.0, 2.0], [3.0, 4.0]]})
    assert isinstance(values, st.FunctionalResult)
    assert values.stored["y"].tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="module 'stepsim' has no attribute 'simulat'"):
        _ = st.simulat


def test_the_import_itself_loads_nothing_heavy() -> None:
    code = (
        "import sys, stepsim;"
        "heavy = {'numba', 'numpy', 'sympy', 'pyarrow', 'pydantic'} & set(sys.modules);"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("room", "name", "hint"),
    [
        (st.fn, "softmax", "there is no function st.fn.softmax; st.nn.softmax is a layer"),
        (st.fn, "mxa", "there is no function st.fn.mxa; did you mean 'max'?"),
        (st.nn, "rmsnorm", "there is no layer st.nn.rmsnorm; did you mean 'rms_norm'?"),
        (st.nn, "add", "there is no layer st.nn.add; st.fn.add is a function"),
        (st.nn, "qqqqqq", "there is no layer st.nn.qqqqqq"),
        (st, "linear_loads", "no attribute 'linear_loads'; did you mean 'linear_load'?"),
        (st, "matmul", "module 'stepsim' has no attribute 'matmul'; there is st.fn.matmul"),
        (st, "qqqqqq", "module 'stepsim' has no attribute 'qqqqqq'"),
    ],
)
def test_unknown_names_get_the_nearest(room: object, name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(room, name)
    assert str(error.value).endswith(hint)
