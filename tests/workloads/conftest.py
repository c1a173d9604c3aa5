"""Recorded routings, where they are at hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.shared import TRACES

FILES = {
    ("mixtral-8x7b", 64): "mixtral_b64/008_010.npz",
    ("qwen3-30b-a3b", 64): "qwen_b64/032_012.npz",
    ("mixtral-8x7b", 1024): "mixtral_b1024/019_009.npz",
    ("qwen3-30b-a3b", 1024): "qwen_b1024/022_016.npz",
}


@pytest.fixture(scope="session")
def recorded_routing() -> Callable[[str, int], np.ndarray]:
    """Index array ``[batch, K]`` of a recorded routing."""
    folder = TRACES / "expert_routing"

    def read(model: str, batch: int) -> np.ndarray:
        with np.load(folder / FILES[model, batch]) as file:
            return file["data"]

    return read
