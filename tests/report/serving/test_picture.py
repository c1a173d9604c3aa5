"""Pictures of services."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepsim.errors import ArgError, OutputError
from stepsim.report import draw_services
from stepsim.serving import ServeResult


@pytest.mark.slow
def test_a_picture_names_services_units_and_limits(
    preempting: ServeResult, several: ServeResult, tmp_path: Path
) -> None:
    draw_services({"few": preempting, "three $x": several}, "two services", tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    for words in ("few", "two services", "SLO 500 ms", "SLO 5 ms", "requests running",
                  "requests waiting", "KV blocks held", "time to first token (TTFT), ms",
                  "time (s)"):  # fmt: skip
        assert f">{words}<" in text, words


def test_bad_pictures_are_named(preempting: ServeResult, tmp_path: Path) -> None:
    with pytest.raises(ArgError, match="results: expected 1 to 8 services, found 0"):
        draw_services({}, "", tmp_path / "p.png")
    with pytest.raises(OutputError, match=r"the suffix is \.gif"):
        draw_services({"a": preempting}, "", tmp_path / "p.gif")
