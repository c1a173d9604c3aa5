"""Pictures of traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.report import draw_requests
from stepsim.trace_io import RequestTrace


def test_lengths_are_counted_in_equal_bins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axes = pytest.importorskip("matplotlib.axes")
    bins: list[Any] = []
    real = axes.Axes.hist

    def hist(self: Any, values: Any, **look: Any) -> Any:
        bins.append(look["bins"])
        return real(self, values, **look)

    monkeypatch.setattr(axes.Axes, "hist", hist)
    trace = RequestTrace(np.array([0, 100, 319]), np.array([7, 8, 9]))
    draw_requests(trace, "", tmp_path / "x.png")
    assert len(bins) == 2
    assert bins[0] == bins[1]
    assert (bins[0][0], bins[0][-1]) == (0, 319)
    assert np.allclose(np.diff(bins[0]), 319 / 80)
