"""The pages on energy and on ensembles show what their programs print."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepsim import hardware, simulation
from tests.pages import DOCS, run_page


@pytest.mark.slow
@pytest.mark.parametrize("page", ["energy.md", "ensembles.md"])
def test_the_page_shows_what_is_printed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = run_page(page)
    assert not wrong, "\n".join(wrong)


def test_every_disturbance_is_in_the_table_with_its_bounds() -> None:
    text = (DOCS / "ensembles.md").read_text(encoding="utf-8")
    for one in (*simulation.DISTURBANCES, *hardware.DISTURBANCES):
        low, high = one.bounds
        bounds = "all ports" if high >= 254 else f"{low} to {high}"
        assert f"| `{one.name}` | {one.about} | {bounds} |" in text
