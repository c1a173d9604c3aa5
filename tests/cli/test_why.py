"""``stepsim why``: the verdict first, as JSON, in a file, and beside the file of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stepsim.results.columns import COLUMNS

PROGRAM = '''
import stepsim as st


def rows(tiles: int = 100) -> st.Program:
    """Tiles of one request each."""
    with st.Program("rows", compute_bw=1024) as program:
        x = st.linear_load(st.spec(tiles, 32, name="x"), tile=(1, 32), label="rows")
        x.consume()
    return program


def center(slots: int = 2) -> st.Program:
    """A FIFO that has to hold a row of eight tiles."""
    with st.Program("center", compute_bw=1024, fifo_depth=slots) as program:
        x = st.linear_load(st.spec(64, 512), tile=(16, 64))
        total = x.accum(st.fn.add, rank=1)
        st.linear_store(st.map(st.fn.add, x, total.unsqueeze(0).expand(8)), "y")
    return program
'''


@pytest.fixture
def rows(tmp_path: Path) -> str:
    place = tmp_path / "programs.py"
    place.write_text(PROGRAM)
    return f"{place}:rows"


def test_the_verdict_is_told_first_in_80_columns(cli, rows: str) -> None:
    outcome = cli("why", rows)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0] == "rows on sda-1024: ok, 1,903 cycles"
    assert lines[1].startswith("bound by HBM latency: the 100 accesses of rows#0")
    assert max(map(len, lines)) <= 80
    assert "speed of light" in outcome.out
    assert "\n  programs.py:8\n" in outcome.out
    assert "rows (OffChipLoad, programs.py:8)" in outcome.out
    assert "half the HBM latency" in outcome.out
    assert "waits for its off-chip accesses" in outcome.out
    assert "critical path" not in outcome.out


def test_options_are_those_of_the_workload(cli, rows: str) -> None:
    found = cli("why", rows, "--tiles", 10, "--set", "hbm.latency=20", "--json").json()
    assert found["cycles"] == 10 * (20 + 14 + 3) + 3
    assert found["verdict"]["kind"] == "hbm_latency"
    assert found["verdict"]["target"] == "rows#0"
    (latency,) = (r for r in found["speed_of_light"]["resources"] if r["kind"] == "hbm_latency")
    assert latency["source"].endswith("programs.py:8")
    first = found["suggestions"][0]
    assert first["variant"]["machine"]["hbm"]["latency"] == 10
    again = cli("run", rows, "--tiles", 10, "--set", "hbm.latency=10", "--set", "hbm.startup=7",
                "--json").json()  # fmt: skip
    assert again["cycles"] == first["cycles"]


def test_the_object_goes_to_a_file(cli, rows: str, tmp_path: Path) -> None:
    place = tmp_path / "why.json"
    outcome = cli("why", rows, "--json", "--out", place)
    assert json.loads(place.read_text()) == outcome.json()


def test_files_of_other_kinds_are_refused(cli, rows: str, tmp_path: Path) -> None:
    outcome = cli("why", rows, "--out", tmp_path / "why.parquet")
    assert outcome.code == 2
    assert ".json" in outcome.err


def test_path_prints_the_critical_path(cli, rows: str) -> None:
    outcome = cli("why", rows, "--path")
    assert "critical path of 1,903 cycles" in outcome.out
    assert outcome.code == 0


@pytest.mark.slow
def test_every_change_is_printed_on_demand(cli, rows: str) -> None:
    rows_of = cli("why", rows, "--json").json()["what_if"]["changes"]
    assert "half the HBM latency" in cli("why", rows).out
    text = cli("why", rows, "--what-if").out
    assert max(map(len, text.splitlines())) <= 80
    table = text.partition("what if, for rows: 1,903 cycles as it is")[2]
    for row in rows_of:
        assert row["change"] in table
        assert f"{row['cycles']:,}" in table
    assert any(row["prediction_error"] is not None for row in rows_of)


@pytest.mark.slow
def test_depths_are_those_of_auto_or_a_file(cli, rows: str, tmp_path: Path) -> None:
    center = rows.replace(":rows", ":center")
    free = cli("run", center, "--slots", 64, "--json").json()["cycles"]
    auto = cli("why", center, "--fifo-depth", "auto", "--json").json()
    assert auto["status"] == "ok"
    assert auto["cycles"] <= 1.01 * free
    sizes = tmp_path / "depths.yaml"
    assert cli("size", center, "--out", sizes).code == 0
    stored = cli("why", center, "--fifo-depth", sizes, "--json").json()
    assert stored["cycles"] == auto["cycles"]
    refused = cli("why", center, "--fifo-depth", "deep")
    assert refused.code == 2
    assert "expected auto or FILE.yaml" in refused.err


def test_a_deadlock_is_a_verdict(cli, rows: str) -> None:
    outcome = cli("why", rows.replace(":rows", ":center"))
    assert outcome.code == 1
    assert outcome.out.splitlines()[1].startswith("a deadlock: a circular wait of 6 units")
    assert (
        "least fix: 6 more tokens, linear_load#0 -> add#5 ('linear_load#0>1') of depth 8"
        in outcome.out
    )
    found = cli("why", rows.replace(":rows", ":center"), "--json").json()
    assert found["fix"]["depths"] == {"linear_load#0>1": 8}
    assert cli("why", rows, "--json").json()["fix"] is None
    assert max(map(len, outcome.out.splitlines()[:3])) <= 80


def test_a_limit_is_a_verdict(cli, rows: str) -> None:
    found = cli("why", rows, "--max-cycles", 100, "--json")
    assert found.code == 1
    verdict = found.json()["verdict"]
    assert verdict["kind"] == "limit"
    assert cli("why", rows, "--max-cycles", 100).out.count(verdict["sentence"]) == 1


def test_a_run_keeps_it_beside_its_row(cli, rows: str, tmp_path: Path) -> None:
    place = tmp_path / "run.parquet"
    outcome = cli("run", rows, "--why", "--json", "--out", place)
    table = pq.read_table(place)
    assert table.schema.field("why").type == COLUMNS["why"].type
    stored = json.loads(table["why"][0].as_py())
    assert stored == outcome.json()["why"]
    assert stored["verdict"]["kind"] == "hbm_latency"
    assert "why" not in pq.read_table(_without(cli, rows, tmp_path)).schema.names


def _without(cli, rows: str, tmp_path: Path) -> Path:
    place = tmp_path / "plain.parquet"
    assert cli("run", rows, "--out", place).code == 0
    return place


def test_a_run_says_what_is_busiest(cli, tmp_path: Path) -> None:
    place = tmp_path / "wide.py"
    place.write_text(
        "import stepsim as st\n\n"
        "with st.Program('wide', compute_bw=1024, par_dispatch=16) as program:\n"
        "    for i in range(8):\n"
        "        st.linear_load(st.spec(1024, 64, name=f'x{i}'), tile=(64, 64)).consume()\n"
    )
    outcome = cli("run", place)
    assert (
        "busiest is the off-chip memory, whose bus moves requests 97.0 % of the run" in outcome.out
    )
    assert "stepsim why" in outcome.out


def test_a_run_says_which_unit_is_busiest(cli, rows: str) -> None:
    assert "busiest is consume#" in cli("run", rows).out


def test_the_path_is_part_of_the_json(cli, rows: str) -> None:
    found = cli("why", rows, "--path", "--json").json()
    assert found["folded_path"][0].startswith(f"critical path of {found['cycles']:,} cycles")
    assert len(found["folded_path"]) > 2
    assert "folded_path" not in cli("why", rows, "--json").json()
