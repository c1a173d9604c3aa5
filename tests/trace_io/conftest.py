"""Where the recorded traces are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of recorded traces, which is not part of the repository."""
    shared = Path(os.environ.get("STEPSIM_SHARED", ROOT.parent / "shared"))
    folder = shared / "data" / "traces"
    if not folder.is_dir():
        pytest.skip(f"recorded traces not found in {folder}; set STEPSIM_SHARED")
    return folder
