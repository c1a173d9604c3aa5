"""Where the recorded traces are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared import TRACES


@pytest.fixture(scope="session")
def recorded_traces() -> Path:
    """The folder of recorded traces, which is not part of the repository."""
    return TRACES
