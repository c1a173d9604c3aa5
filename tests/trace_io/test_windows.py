"""Windows by deviation: the published ones are found in the trace they come from."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.errors import ArgError
from stepsim.trace_io import (
    disjoint,
    load_requests,
    nearest_windows,
    select_windows,
    window_at,
    window_stdevs,
)
from stepsim.trace_io.requests.windows import Window
from tests.property_profile import profile

USED = {
    16: {"low": (1063, 2477, 3799), "med": (3181, 3275, 3349), "high": (985, 821, 2805)},
    64: {"low": (271, 4185, 2019), "med": (733, 3123, 4007), "high": (1727, 3239, 961)},
    80: {"low": (2025, 135, 4181), "med": (3989, 1891, 4687), "high": (815, 3227, 981)},
}
"""First requests of the windows of the published figures, by size and class."""

MISNAMED = {
    "conv_stdev0484_4185_4248": 493,
    "conv_stdev0986_3989_4068": 987,
    "conv_stdev1370_1727_1790": 1340,
}
"""Files whose name has another deviation than their lengths: the true one, rounded down."""


@pytest.fixture(scope="module")
def conv(recorded_traces: Path) -> np.ndarray:
    return load_requests(recorded_traces / "AzureLLMInferenceTrace_conv.csv").context_tokens


def published(recorded_traces: Path) -> list[Path]:
    return sorted((recorded_traces / "azure_trace").rglob("*.npy"))


def test_all_published_windows_are_found(recorded_traces: Path, conv: np.ndarray):
    files = published(recorded_traces)
    assert len(files) == 51
    for path in files:
        deviation, first, last = (int(part) for part in re.findall(r"\d+", path.stem))
        size = last - first + 1
        assert path.parent.name == f"b{size}"
        windows = {window.first: window for window in window_stdevs(conv[:5000], size)}
        window = windows[first]
        assert (window.first, window.last) == (first, last)
        assert (window.lengths(conv) == np.load(path)).all()
        if path.stem in MISNAMED:
            assert deviation != int(window.stdev) == MISNAMED[path.stem]
            assert int(np.load(path).std(ddof=1)) == MISNAMED[path.stem]
        else:
            assert window.name("conv") == path.stem


@pytest.mark.parametrize("size", USED)
def test_published_windows_by_their_first_request(
    recorded_traces: Path, conv: np.ndarray, size: int
):
    for path in published(recorded_traces):
        first, last = (int(part) for part in path.stem.split("_")[2:])
        if path.parent.name != f"b{size}":
            continue
        window = window_at(conv, size, first)
        assert window.last == last
        assert (window.lengths(conv) == np.load(path)).all()
        assert path.stem in MISNAMED or window.name("conv") == path.stem


@pytest.mark.parametrize("size", USED)
@pytest.mark.parametrize("kind", ["low", "med", "high"])
def test_the_classes_hold_the_published_windows(conv: np.ndarray, size: int, kind):
    chosen = {window.first for window in select_windows(conv, size)[kind]}
    assert len(chosen) == ((5000 - size) // 2 + 1) // 10
    if (size, kind) == (16, "low"):
        # The published ones are not within the lowest tenth: they resemble those of 64 requests.
        assert not chosen & set(USED[size][kind])
        wider = {window.first for window in select_windows(conv, size, share=0.16)[kind]}
        assert set(USED[size][kind]) <= wider
    else:
        assert set(USED[size][kind]) <= chosen


def test_the_deviation_of_the_whole(conv: np.ndarray):
    assert conv[:5000].std(ddof=1) == pytest.approx(986.35, abs=0.005)


@profile(30)
@given(
    st.lists(st.integers(0, 9000), min_size=2, max_size=40),
    st.data(),
)
def test_windows_are_those_of_the_definition(values, data):
    lengths = np.array(values)
    size = data.draw(st.integers(2, len(values)))
    stride = data.draw(st.integers(1, 5))
    expected = [
        Window(start + 1, start + size, float(np.std(lengths[start : start + size], ddof=1)))
        for start in range(0, len(values) - size + 1, stride)
    ]
    found = window_stdevs(lengths, size, stride=stride)
    assert [(w.first, w.last) for w in found] == [(w.first, w.last) for w in expected]
    np.testing.assert_allclose([w.stdev for w in found], [w.stdev for w in expected])
    classes = select_windows(lengths, size, stride=stride, share=1)
    assert all(
        sorted(w.first for w in part) == [w.first for w in found] for part in classes.values()
    )
    low, high = ([w.stdev for w in classes[kind]] for kind in ("low", "high"))
    assert low == sorted(low)
    assert high == sorted(high, reverse=True)


def test_many_windows_are_cut_into_pieces():
    lengths = np.random.default_rng(0).integers(0, 9000, 70_000)
    found = window_stdevs(lengths, 128, stride=1)
    assert len(found) == 70_000 - 127
    for index in (0, 32_767, 32_768, 69_872):
        window = found[index]
        assert window.first == index + 1
        assert window.stdev == pytest.approx(window.lengths(lengths).std(ddof=1))


def test_a_window_by_its_first_request():
    lengths = np.array([3, 5, 9, 1])
    for first in (1, 2, 3):
        expected = window_stdevs(lengths, 2, stride=1)[first - 1]
        assert window_at(lengths, 2, first) == expected
    assert window_at(lengths, 4, 1).name("x") == "x_stdev0003_0001_0004"
    for first in (0, -1, 4):
        with pytest.raises(ArgError) as caught:
            window_at(lengths, 2, first)
        assert str(caught.value) == (
            f"windows: a window of 2 requests begins at {first}, expected 1..3, since the trace "
            "has 4 requests"
        )
    with pytest.raises(ArgError, match="size is 5, expected at least 2 and at most 4"):
        window_at(lengths, 5, 1)


def test_windows_by_a_deviation():
    windows = [Window(1, 4, 9.0), Window(3, 6, 8.0), Window(5, 8, 7.0), Window(9, 12, 6.0)]
    assert [w.first for w in nearest_windows(windows, 7.6)] == [3, 5, 1, 9]
    # Equally near ones stay in their order.
    assert [w.first for w in nearest_windows(windows, 7.5)] == [3, 5, 1, 9]
    for stdev in (-1, math.nan, math.inf):
        with pytest.raises(ArgError, match=r"is (-1|nan|inf), expected a number from 0"):
            nearest_windows(windows, stdev)


def test_disjoint_windows():
    windows = [Window(1, 4, 9), Window(3, 6, 8), Window(5, 8, 7), Window(9, 12, 6)]
    assert [w.first for w in disjoint(windows, 3)] == [1, 5, 9]
    assert [w.first for w in disjoint(windows, 2)] == [1, 5]
    assert [w.first for w in disjoint(windows[:2], 3)] == [1]
    with pytest.raises(ArgError, match="count is 0, expected at least 1"):
        disjoint(windows, 0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"size": 1},
            "size is 1, expected at least 2 and at most 5, the number of requests",
        ),
        ({"size": 6}, "size is 6, expected at least 2 and at most 5"),
        ({"size": 4, "requests": 3}, "size is 4, expected at least 2 and at most 3"),
        ({"size": 2, "stride": 0}, "stride is 0, expected at least 1"),
        ({"size": 2, "by": "mean"}, "by is 'mean', expected 'stdev', the only measure available"),
        ({"size": 2, "share": 0}, "share is 0, expected above 0 and at most 1"),
        ({"size": 2, "share": 1.1}, "share is 1.1, expected"),
        ({"size": 2, "requests": 0}, "requests is 0, expected at least 1 or None"),
    ],
)
def test_arguments_are_checked(options, says):
    with pytest.raises(ArgError, match=says):
        select_windows(np.arange(5), **options)
