"""``import stepsim as st``: light, complete and honest about what it has."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stepsim as st
from stepsim import errors, graph


@pytest.mark.parametrize("name", [*st.__all__, *graph.__all__, *errors.__all__])
def test_every_public_name_exists_and_is_listed(name: str) -> None:
    assert getattr(st, name) is not None
    assert name in dir(st)


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
