"""Commands on traces refuse what ``stepsim trace replay`` wrote, and say where it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.trace_io import foreign


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("info", ()),
        ("info", ("--column", "requests")),
        ("info", ("--format", "parquet", "--column", "requests")),
        ("plot", ("--column", "kv_lengths", "--out", "OUT.svg")),
        ("import", ("OUT.parquet", "--column", "requests")),
        ("select", ("--size", 2)),
        ("replay", ("--batch", 2)),
    ],
)
def test_steps_are_no_trace(cli: Cli, tmp_path: Path, command: str, options: tuple) -> None:
    trace, steps = tmp_path / "x.csv", tmp_path / "steps.parquet"
    trace.write_text(foreign.AZURE)
    assert cli("trace", "replay", trace, "--batch", 2, "--out", steps).code == 0
    present = sorted(tmp_path.iterdir())
    options = tuple(tmp_path / o if str(o).startswith("OUT") else o for o in options)
    outcome = cli("trace", command, steps, *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"error: {steps}: holds the steps of a replay, expected a trace of expert routing or of "
        f"requests; use it with --kv-lengths {steps},step=N, or in a sweep as cache lengths\n"
    )
    assert sorted(tmp_path.iterdir()) == present
