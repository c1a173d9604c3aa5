"""Shared data for the benchmarks, found as the tests find it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("STEPSIM_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def routing() -> dict[str, NDArray[np.int64]]:
    """Recorded routing tables of the tiling figures; skips when the folder is absent."""
    folder = SHARED / "data" / "traces" / "expert_routing"
    if not folder.is_dir():
        pytest.skip(f"no recorded traces in {folder}; set STEPSIM_SHARED")
    files = {
        "mixtral-8x7b": folder / "mixtral_b64" / "008_010.npz",
        "qwen3-30b-a3b": folder / "qwen_b64" / "032_012.npz",
    }
    return {model: np.load(path)["data"] for model, path in files.items()}
