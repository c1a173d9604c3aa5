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
