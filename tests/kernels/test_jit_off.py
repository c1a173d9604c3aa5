"""The kernels as plain Python, where an index out of range or an overflow is an error.

With few draws, as plain Python is slow. The compiled kernels take all of them in `make slow`, and
in `make checked` with every access to an array compared with its length.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stepsim.kernels

ROOT = Path(__file__).resolve().parents[2]


TESTS = (
    "tests/kernels/test_differential.py::test_engine_agrees_with_the_interpreter",
    "tests/kernels/test_differential.py::test_failures_and_deadlocks_agree",
    "tests/kernels/test_messages_of_tokens.py::test_engine_agrees_with_the_interpreter",
    "tests/kernels/test_messages_of_tokens.py::test_given_messages_take_the_times_of_messages_alone",
    "tests/kernels/test_cases.py",
    "tests/kernels/test_many_inputs.py::test_plans_are_those_of_a_scan",
    # `test_bounds.py` runs the other kernels of memory in plain Python.
    "tests/kernels/test_memory.py::test_long_accesses_are_skipped_over",
    "tests/kernels/test_dram_memory.py::test_routed_tuples_and_buffers_agree",
    "tests/noc/chips/test_messages.py::test_random_messages_are_those_of_the_oracle",
    "tests/noc/chips/test_collectives.py::test_published_run_of_the_reference",
    "tests/noc/test_closed_forms.py",
    "tests/noc/test_link_oracle.py",
    "tests/serving/test_schedulers.py::test_every_step_is_that_of_the_plain_scheduler",
)


@pytest.mark.slow
def test_plain_python_gives_the_same() -> None:
    # Warnings are errors there too, by the configuration of pytest.
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:benchmark", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-rA", *TESTS],
        cwd=ROOT, env={**os.environ, "NUMBA_DISABLE_JIT": "1", "STEPSIM_DRAWS": "few"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    for tests in TESTS:
        assert f"PASSED {tests}" in done.stdout


def test_no_field_of_a_record_is_an_attribute_of_numpys_records() -> None:
    # Plain Python would read the attribute, compiled code the field.
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(stepsim.kernels.__path__, "stepsim.kernels.")
    ]
    records = {
        (module.__name__, name): value.names
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, np.dtype) and value.names
    }
    assert ("stepsim.kernels.noc.npe", "TRANSFER") in records
    hidden = [
        (*where, field)
        for where, fields in records.items()
        for field in fields
        if hasattr(np.record, field)
    ]
    assert not hidden
