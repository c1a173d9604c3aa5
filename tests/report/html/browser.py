"""A headless browser that notes what a page must not do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["find_browser", "opened"]


def find_browser() -> str:
    """The path of a Chromium; without one, or without playwright, the test is skipped."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        pytest.skip("no browser: playwright is not installed")
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("no browser: chromium is not installed; apt-get install chromium")


@contextmanager
def opened(browser: Any, path: Path, **context: Any) -> Iterator[Any]:
    """A page; at the end, nothing was said on the console and nothing but the file was read."""
    page = browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **context}).new_page()
    page.set_default_timeout(8_000)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    yield page
    page.wait_for_timeout(100)
    assert said == []
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [path.as_uri()]
    page.context.close()
