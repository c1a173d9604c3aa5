"""The file of a page: complete, its scripts named by digest, nothing of the data markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from stepsim.errors import OutputError
from stepsim.report.html import require_plotly, write_page
from stepsim.report.html.page import page
from tests.report.html.hostile import NAMES

DOCUMENT = {"kind": "run", "title": NAMES[1], "names": list(NAMES)}


class _Scripts(HTMLParser):
    """What a parser of HTML takes for scripts, and all addresses that are named."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[tuple[str | None, str]] = []
        self.addresses: list[str] = []
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "script":
            self.scripts.append((found.get("type"), ""))
        if found.get("http-equiv"):
            self.policy = found["content"] or ""
        self.addresses += [found[name] or "" for name in ("src", "href") if name in found]

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.scripts:
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)

    def handle_endtag(self, tag: str) -> None:
        self.lasttag = ""


@pytest.fixture(scope="module")
def parsed() -> _Scripts:
    found = _Scripts()
    found.feed(page(DOCUMENT, "var Plotly = '{{DATA}}';"))
    return found


def test_the_data_come_through(parsed: _Scripts) -> None:
    (data,) = (text for kind, text in parsed.scripts if kind == "application/json")
    assert json.loads(data) == DOCUMENT


def test_the_policy_allows_the_scripts_of_the_page_and_no_address(parsed: _Scripts) -> None:
    rules = dict(rule.split(" ", 1) for rule in parsed.policy.split("; "))
    assert rules["default-src"] == "'none'"
    scripts = [text for kind, text in parsed.scripts if kind is None]
    assert len(scripts) > 5
    digests = [hashlib.sha256(text.encode()).digest() for text in scripts]
    assert rules["script-src"].split() == [
        f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests
    ]
    assert "http" not in parsed.policy
    assert [one for one in parsed.addresses if not one.startswith("#")] == []


def test_the_plotting_library_is_whole_and_told_once(tmp_path: Path) -> None:
    source = require_plotly()
    assert source in page(DOCUMENT, source)
    # Parsers of HTML would end the script there, or change what its digest is of.
    assert not re.search("</script|<!--|\r", source)
    size = write_page(tmp_path / "page.html", DOCUMENT)
    assert size == (tmp_path / "page.html").stat().st_size
    assert 4e6 < size < 6e6


def test_without_plotly_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    with pytest.raises(OutputError, match=r"pip install 'stepsim\[report\]'"):
        require_plotly()


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        write_page(tmp_path / "missing" / "page.html", DOCUMENT)
    assert list(tmp_path.iterdir()) == []
