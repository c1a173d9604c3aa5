"""Shared data for the benchmarks, found as the tests find it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conftest import pytest_itemcollected
from tests.shared import NO_TRACES, TRACES

__all__ = ["pytest_itemcollected", "routing"]


@pytest.fixture(scope="session")
def routing() -> dict[str, NDArray[np.int64]]:
    """Recorded routing tables of the tiling figures; skips when the folder is absent."""
    if not TRACES.is_dir():
        pytest.skip(NO_TRACES)
    folder = TRACES / "expert_routing"
    files = {
        "mixtral-8x7b": folder / "mixtral_b64" / "008_010.npz",
        "qwen3-30b-a3b": folder / "qwen_b64" / "032_012.npz",
    }
    return {model: np.load(path)["data"] for model, path in files.items()}
