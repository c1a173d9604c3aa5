"""Which environments are tried, and what is shown of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.packages import __main__ as matrix, page
from tests.packages.requirements import EXTRAS, oldest, requirements
from tests.packages.smoke import EXTRAS as SMOKE


def test_every_extra_is_tried_with_the_oldest_and_the_newest_versions() -> None:
    tried = {(one.distribution, one.extra, one.versions) for one in matrix.installs([])}
    for extra in EXTRAS:
        assert {("wheel", extra, "newest"), ("wheel", extra, "oldest")} <= tried
    plain = {one for one in tried if not one[1]}
    assert {one[0] for one in plain} == {"wheel", "platform wheel", "sdist"}
    assert ("wheel", "", "oldest") in plain


def test_chosen_extras_are_tried_alone() -> None:
    assert {one.extra for one in matrix.installs(["plot"])} == {"plot"}


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_the_oldest_versions_are_allowed(extra: str) -> None:
    extras = [extra] if extra else []
    pins = [Requirement(line) for line in oldest(*extras)]
    for pin, wanted in zip(pins, requirements(*extras), strict=True):
        (exact,) = pin.specifier
        assert pin.name == wanted.name
        assert wanted.specifier.contains(exact.version)


@pytest.mark.parametrize("extra", SMOKE)
def test_what_shows_that_an_extra_works_is_a_program(extra: str) -> None:
    compile(SMOKE[extra], extra, "exec")


ROWS = """python,distribution,extra,versions,result,seconds,installed
3.11.7,wheel,,oldest,works,99,numpy==2.0.0 scipy==1.13.0
3.11.7,wheel,plot,newest,fails,9,numpy==2.4.6 scipy==1.17.1 matplotlib==3.11.2
"""


def test_the_table_has_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, target = tmp_path / "matrix.csv", tmp_path / "page.md"
    found.write_text(ROWS, encoding="utf-8")
    target.write_text("before\n" + page._BEGIN + "old\n" + page._END + "after\n", encoding="utf-8")
    monkeypatch.setattr(page, "PAGE", target)
    for _ in range(2):
        page.write_page(found)
        text = target.read_text(encoding="utf-8")
        assert text.startswith("before\n")
        assert text.endswith("after\n")
        assert "old\n" not in text
        assert (
            "| wheel | oldest versions | 3.11.7 | works | numpy 2.0.0, scipy 1.13.0 |\n"
            "| extra `plot` | newest versions | 3.11.7 | fails | matplotlib 3.11.2 |\n"
        ) in text


def test_the_documentation_shows_the_last_matrix() -> None:
    """Written by `make packages`, of which each row was tried."""
    text = page.PAGE.read_text(encoding="utf-8")
    shown = text.partition(page._BEGIN)[2].partition(page._END)[0]
    for one in matrix.installs([]):
        if one.extra not in matrix._SKIPPED:
            what = f"extra `{one.extra}`" if one.extra else one.distribution
            assert f"| {what} | {one.versions} versions |" in shown
    assert "| fails |" not in shown
