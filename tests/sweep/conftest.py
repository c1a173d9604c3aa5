"""What tests of sweeps share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.cli.conftest import cli

__all__ = ["cli", "signals_by_default"]


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
