"""The FAQ and the how-to pages show what the commands and programs on them print."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.pages import DOCS, run_page

PAGES = ["faq.md", *sorted(f"how-to/{path.name}" for path in (DOCS / "how-to").glob("*.md"))]


@pytest.mark.parametrize("page", [page for page in PAGES if not page.endswith("index.md")])
def test_a_page_shows_what_is_printed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    try:
        wrong = run_page(page)
    finally:
        # Pages have modules of the same name.
        for name in set(sys.modules) - before:
            if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
                del sys.modules[name]
    assert not wrong, "\n".join(wrong)


def test_every_page_is_in_the_contents() -> None:
    contents = (DOCS / "how-to" / "index.md").read_text(encoding="utf-8").split("```{toctree}")[1]
    listed = {f"how-to/{name}.md" for name in contents.split()}
    assert {page for page in PAGES if page.startswith("how-to/")} <= listed | {"how-to/index.md"}
