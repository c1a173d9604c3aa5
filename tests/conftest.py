"""The order of the tests."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the file first that takes one process minutes, so that none waits for it at the end."""
    items.sort(key=lambda item: item.path.name != "test_platform_wheel.py")
