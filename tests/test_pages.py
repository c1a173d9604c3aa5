"""What the pages of the documentation show is what their commands and programs print."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import DOCS, all_pages, blocks, run_page, strays

TESTS = Path(__file__).parent
ELSEWHERE = {
    "ci.md": "test_ci_page.py",
    "compile.md": "design/search/test_compile_page.py",
    "compiler-passes.md": "design/passes/test_passes_page.py",
    "energy.md": "simulation/test_pages_of_runs.py",
    "ensembles.md": "simulation/test_pages_of_runs.py",
    "extending.md": "test_extending.py",
    "fifo-sizing-lp.md": "sizing/test_fifo_sizing_page.py",
    "functions.md": "test_doc_programs.py",
    "itensors.md": "itensor/test_page.py",
    "moe-compiler.md": "design/search/test_experts_page.py",
    "nn.md": "test_doc_programs.py",
    "operator-graphs.md": "design/operators/test_operators_page.py",
    "pytorch.md": "design/operators/test_pytorch_page.py",
}
"""Pages that are run by tests of what they are about."""

PAGES = [
    page
    for page in all_pages()
    if not page.startswith("programs/")  # test_doc_programs.py
    and page not in ELSEWHERE
    and {"text", "{picture}"} & {block.kind for block in blocks(page)}
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, whose modules can be imported and are forgotten: their names recur."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


SLOW = {"timing.md", "parallel.md", "serving.md"}
"""Pages that need an engine of their own, that of a recorded run with a DRAM, or run longest."""


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page in SLOW else ()) for page in PAGES],
)
def test_a_page_shows_what_is_printed(page: str) -> None:
    wrong = run_page(page)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", ELSEWHERE)
def test_a_page_that_is_run_elsewhere_is_run_there(page: str) -> None:
    assert f'"{page}"' in (TESTS / ELSEWHERE[page]).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", all_pages())
def test_every_output_follows_what_prints_it(page: str) -> None:
    assert not list(strays(page)), "a text block is output; commands are sh or bash, others plain"


@pytest.mark.parametrize("page", all_pages())
def test_a_page_says_first_which_question_it_answers(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert re.match(r"# [^\n]+\n\n[A-Z][^.:;`]*(`[^`]*`[^.:;`]*)*\?\s", text), text[:200]


def test_every_page_is_in_one_place() -> None:
    """Every page but the first is in exactly one table of contents."""
    listed = []
    for page in all_pages():
        for block in blocks(page):
            if block.kind == "{toctree}":
                for line in block.body.splitlines():
                    if line and not line.startswith(":"):
                        name = re.sub(r"^.*<(.*)>$", r"\1", line)
                        listed.append(str((Path(page).parent / name).with_suffix("")))
    made = ["reference/index"]  # by docs/reference.py
    assert sorted(listed) == sorted(
        [*(page.removesuffix(".md") for page in all_pages() if page != "index.md"), *made]
    )
