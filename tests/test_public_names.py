"""``import stepsim as st``: light, complete and honest about what it has."""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import ModuleType

import pytest

import stepsim as st
from stepsim import simulation
from stepsim.other_names import MOVED, NAMESPACES

MOST_NAMES = 90
"""What a user can look through; what is used less often belongs to a namespace."""


@pytest.mark.parametrize("name", st.__all__)
def test_every_public_name_exists_and_is_listed(name: str) -> None:
    assert getattr(st, name) is not None
    assert name in dir(st)


def test_the_face_is_small() -> None:
    assert len(dir(st)) <= MOST_NAMES, "put what is rarely used into a namespace of stepsim"


@pytest.mark.parametrize("name", MOVED)
def test_a_name_that_moved_says_where_it_is(name: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(st, name)
    now = f"st.{MOVED[name]}.{name}"
    assert str(error.value) == f"module 'stepsim' has no attribute {name!r}; st.{name} is now {now}"
    assert getattr(getattr(st, MOVED[name]), name) is not None


def test_namespaces_are_the_modules_of_the_face() -> None:
    modules = {name for name in st.__all__ if isinstance(getattr(st, name), ModuleType)}
    assert set(NAMESPACES) == modules
    assert set(MOVED.values()) <= modules


@pytest.mark.parametrize("name", NAMESPACES)
def test_a_namespace_shows_what_users_need_and_gives_other_rooms_theirs(name: str) -> None:
    room = getattr(st, name)
    assert room.__doc__
    for offered in room.__all__:
        assert getattr(room, offered) is not None
        assert not offered.startswith("_")


def test_names_for_other_rooms_are_not_shown() -> None:
    from stepsim.machine import Section

    assert st.machine.Section is Section
    assert "Section" not in dir(st.machine)
    assert "Machine" in dir(st.machine)


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
    assert isinstance(values, st.functional.FunctionalResult)
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
        (st, "run_sweep", "no attribute 'run_sweep'; there is st.sweep.run_sweep"),
        (st, "qqqqqq", "module 'stepsim' has no attribute 'qqqqqq'"),
        (st.explain, "size_fifos", "no attribute 'size_fifos'; there is st.size_fifos"),
        (st.explain, "fix_deadlock", "; there is st.fix_deadlock"),
        (st.explain, "DeadlockFix", "; there is st.sizing.DeadlockFix"),
        (st.explain, "FifoSizes", "; there is st.sizing.FifoSizes"),
        (st.simulation, "Ensemble", "; there is st.ensembles.Ensemble"),
        (st.design, "compile_over_traces", "; it is now st.compile, with the routings as traces="),
        (st.design, "CompiledExperts", "; it is now st.design.Compiled"),
        (st, "CompiledExperts", "; it is now st.design.Compiled"),
        (
            st.design.Compiled(None),
            "fifo_table",
            "'Compiled' object has no attribute 'fifo_table'; it is now "
            "stepsim.reproduce.fifo_table(compiled, group)",
        ),
        (st.design.Compiled(None), "cycles", "'NoneType' object has no attribute 'programs'"),
        (st.sweep, "run_sweeps", "no attribute 'run_sweeps'; did you mean 'run_sweep'?"),
    ],
)
def test_unknown_names_get_the_nearest(room: object, name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(room, name)
    assert str(error.value).endswith(hint)


@pytest.mark.parametrize(
    ("old", "new"),
    [("compiler", "design"), ("flow", "design"), ("testing", "pytest_plugin")],
)
def test_rooms_of_earlier_releases_are_refused_with_the_new_one(old: str, new: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"stepsim.{old} is now stepsim.{new}"):
        importlib.import_module(f"stepsim.{old}")


def test_private_names_are_not_looked_for_in_all_rooms() -> None:
    with pytest.raises(AttributeError, match="no attribute '_repr_html_'"):
        _ = st._repr_html_
