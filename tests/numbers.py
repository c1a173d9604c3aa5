"""The numbers of the pages that no tested output contains: tables, and figures in sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.pages import DOCS, all_pages

__all__ = ["in_prose", "number_pages", "tables"]

_MADE = re.compile(r"<!-- (?:drawn|generated|written)\b[^>]*-->.*?<!-- end of [^>]*-->", re.DOTALL)
_FENCE = re.compile(r"^ *(`{3,}).*?^ *\1$", re.DOTALL | re.MULTILINE)
_NAMES = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]*>")
_TABLE = re.compile(r"^(\|.*\|)\n\|[-: |]+\|\n((?:\|.*\|\n?)+)", re.MULTILINE)
_NUMBER = re.compile(
    r"\d{1,3}(?:,\d{3})+"
    r"|\d[\d.]* ?(?:%|cycles|ms|us|ns|s|seconds|minutes|hours|kB|MB|GB|MiB|GiB|times)(?!\w)"
)

WRITTEN = {
    "noc-validation.md", "serving-validation.md", "stepdb.md", "streamtensor-validation.md",
    "validation.md",
}  # fmt: skip
"""Pages that a command writes as a whole; the tests of these commands compare them."""


def number_pages() -> list[str]:
    """The pages that are written by hand."""
    return [page for page in all_pages() if page not in WRITTEN]


def _by_hand(page: str) -> str:
    """A page without its code, its outputs, and the parts that a command writes."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return _FENCE.sub("", _MADE.sub("", text))


def tables(page: str) -> Iterator[str]:
    """The header of every table that has a number in a cell, apart from names and code."""
    for header, body in _TABLE.findall(_by_hand(page)):
        if re.search(r"(?<![A-Za-z\-.])\d", _NAMES.sub("", body)):
            yield " ".join(header.strip("| ").split())


def in_prose(page: str) -> set[str]:
    """Numbers outside of tables that look like results: with thousands, or with a unit."""
    text = _NAMES.sub("", _TABLE.sub("", _by_hand(page)))
    return {" ".join(found.split()) for found in _NUMBER.findall(text)}
