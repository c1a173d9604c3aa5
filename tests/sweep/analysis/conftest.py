"""A finished sweep to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepsim.sweep import (
    run_sweep,
)
from tests.sweep.support import tiny


@pytest.fixture(scope="package")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep") / "out"
    run_sweep(tiny(), folder)
    return folder


@pytest.fixture(scope="module")
def deeper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep `done` with deeper FIFOs: other runs, the same axes."""
    folder = tmp_path_factory.mktemp("deeper") / "out"
    run_sweep(tiny(parameters={"tile_inter": 32, "fifo_depth": 8}), folder)
    return folder
