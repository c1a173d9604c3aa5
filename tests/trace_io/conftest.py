"""Where the recorded traces are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared import NO_TRACES, TRACES


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of recorded traces, which is not part of the repository."""
    if not TRACES.is_dir():
        pytest.skip(NO_TRACES)
    return TRACES
