"""Recorded routings, read from the shared data folder when it is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

FILES = {
    ("mixtral-8x7b", 64): "mixtral_b64/008_010.npz",
    ("qwen3-30b-a3b", 64): "qwen_b64/032_012.npz",
    ("mixtral-8x7b", 1024): "mixtral_b1024/019_009.npz",
    ("qwen3-30b-a3b", 1024): "qwen_b1024/022_016.npz",
}


@pytest.fixture(scope="session")
def routing_trace() -> Callable[[str, int], np.ndarray]:
    """Index array ``[batch, K]`` of a recorded routing."""
    root = Path(__file__).resolve().parents[2]
    shared = Path(os.environ.get("STEPSIM_SHARED", root.parent / "shared"))
    folder = shared / "data" / "traces" / "expert_routing"
    if not folder.is_dir():
        pytest.skip(f"no recorded routings at {folder}; set STEPSIM_SHARED")

    def read(model: str, batch: int) -> np.ndarray:
        with np.load(folder / FILES[model, batch]) as file:
            return file["data"]

    return read
