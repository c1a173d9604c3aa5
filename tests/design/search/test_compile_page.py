"""The page on compiling shows what its programs print."""

from __future__ import annotations

import pytest

from tests.pages import run_page

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_the_page_shows_what_is_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    wrong = run_page("compile.md")
    assert not wrong, "\n".join(wrong)
