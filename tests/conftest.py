"""The order of tests, which replay recorded data, when garbage is collected, and signals."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator, Iterator

import pytest

from tests.shared import FIXTURES, needs_traces


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give the marker ``recorded`` to what takes recorded traces; skip what has no data."""
    if any(name.startswith(FIXTURES) for name in getattr(item, "fixturenames", ())):
        item.add_marker(needs_traces)
    for marker in item.iter_markers("recorded"):
        path, reason = marker.args
        if not path.exists():
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the file first that takes one process minutes, so that none waits for it at the end."""
    items.sort(key=lambda item: item.path.name != "test_platform_wheel.py")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while thousands of tests are made, nor look at them ever after.

    It takes a third of the time that the collection of all tests takes.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Leave nothing behind: extension modules complain of what is never released."""
    gc.unfreeze()


@pytest.fixture
def signals_by_default() -> Iterator[None]:
    """No signal is ignored, here and by what is started, as under ``nohup`` and after ``&``."""
    wanted = {
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
    }
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
