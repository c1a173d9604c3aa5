"""The page on typed streams shows what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import run_page


def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not run_page("itensors.md")
