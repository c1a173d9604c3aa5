"""The page on experts shows what its programs print."""

from __future__ import annotations

import pytest

from tests.pages import run_page

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_the_page_shows_what_is_printed() -> None:
    wrong = run_page("moe-compiler.md")
    assert not wrong, "\n".join(wrong)
