"""Only errors of stepsim leave the readers of files, within limits, whatever is in the files.

The same short draw every time. What a case does is cheap, so that it is longer than that of all
fuzzers; many new cases are drawn in ``test_fuzzers.py``.
"""

from __future__ import annotations

import random
import sys

import pytest
from hypothesis import given, strategies as st

from tests.fuzz import json_files, plans, sweep_parts, traces, yaml_files
from tests.property_profile import repeatable

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits of memory and time are those of Linux"
)

SEEDS = st.integers(0, 2**63 - 1)


@pytest.mark.slow
@repeatable(100)
@given(SEEDS)
def test_damaged_yaml(seed: int) -> None:
    yaml_files.one(random.Random(seed))


@pytest.mark.slow
@repeatable(12)
@given(SEEDS)
def test_damaged_plans(seed: int) -> None:
    plans.one(random.Random(seed))


@pytest.mark.slow
@repeatable(60)
@given(SEEDS)
def test_damaged_json(seed: int) -> None:
    json_files.one(random.Random(seed))


@pytest.mark.slow
@repeatable(400)
@given(SEEDS)
def test_damaged_traces(seed: int) -> None:
    traces.one(random.Random(seed))


@pytest.mark.slow
@repeatable(40)
@given(SEEDS)
def test_damaged_parts_of_a_sweep(seed: int) -> None:
    sweep_parts.one(random.Random(seed))
