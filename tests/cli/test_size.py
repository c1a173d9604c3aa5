"""``stepsim size``, and ``--fifo-depth auto`` and ``FILE`` of runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Cli

LAYER = ("--config", "published", "--tile", 16, "--tile-inter", 32)


@pytest.mark.slow
def test_depths_are_found_written_and_run(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "depths.yaml"
    sizes = cli(
        "size", "swiglu", *LAYER, "--slowdown", "0 %", "--pareto", "--out", out, "--json"
    ).json()
    assert sizes["cycles"] == sizes["unbounded_cycles"]
    assert [row["uniform_depth"] for row in sizes["uniform"]] == [2, 8, 1024]
    assert sizes["pareto"][-1]["fifo_bytes"] < sizes["fifo_bytes"]
    assert pq.read_table(tmp_path / "depths.pareto.parquet").num_rows == len(sizes["pareto"])
    fifos = pq.read_table(tmp_path / "depths.fifos.parquet")
    assert sum(fifos.column("fifo_bytes").to_pylist()) == sizes["fifo_bytes"]
    run = cli("run", "swiglu", *LAYER, "--fifo-depth", out, "--json").json()
    assert [run["cycles"]] == sizes["cycles"]
    assert run["fifo_depths"] == sizes["depths"]
    assert cli("size", "swiglu", *LAYER, "--out", out).code == 0
    assert not (tmp_path / "depths.pareto.parquet").exists()  # it is of other depths


def test_the_tables_for_people(cli: Cli) -> None:
    found = cli("size", "swiglu", *LAYER, "--pareto")
    assert found.code == 0, found.err
    for text in ("FIFOs of 'swiglu_16_32' on sda-hdl", "bytes saved", "slowdown allowed"):
        assert text in found.out
    title = "slowdown allowed"
    _, _, curve = found.out.partition(f"{title} ")
    shares = [line[: len(title)] for line in curve.splitlines()[1:]]
    assert len(shares) >= 2
    assert all(share.endswith(("%", "any")) for share in shares)


def test_auto_takes_the_least_depths_of_one_percent(cli: Cli) -> None:
    sizes = cli("size", "swiglu", *LAYER, "--json").json()
    run = cli("run", "swiglu", *LAYER, "--fifo-depth", "auto", "--json").json()
    assert run["fifo_depths"] == sizes["depths"]
    assert [run["cycles"]] == sizes["cycles"]


def test_one_depth_is_what_it_was(cli: Cli) -> None:
    run = cli("run", "swiglu", *LAYER, "--fifo-depth", 2, "--json").json()
    assert run["parameters"]["fifo_depth"] == 2
    assert "fifo_depths" not in run


def test_a_file_for_another_layer(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "depths.yaml"
    assert cli("size", "swiglu", *LAYER, "--out", out).code == 0
    other = cli("run", "swiglu", *LAYER[:-1], 64, "--fifo-depth", out)
    assert other.code == 2
    assert "it is for program 'swiglu_16_32'" in other.err


def test_a_file_holds_whatever_the_default_depth_is(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "depths.yaml"
    sizes = cli("size", "swiglu", *LAYER, "--out", out, "--json").json()
    deeper = cli("size", "swiglu", *LAYER, "--fifo-depth", 7, "--out", tmp_path / "other.yaml")
    assert deeper.code == 0, deeper.err
    for path in (out, tmp_path / "other.yaml"):
        run = cli("run", "swiglu", *LAYER, "--fifo-depth", path, "--json").json()
        assert (run["fifo_depths"], [run["cycles"]]) == (sizes["depths"], sizes["cycles"])


def test_the_default_depth_matters_to_a_file_that_leaves_fifos_out(
    cli: Cli, tmp_path: Path
) -> None:
    out = tmp_path / "depths.yaml"
    assert cli("size", "swiglu", *LAYER, "--fifo-depth", 7, "--out", out).code == 0
    lines = out.read_text().splitlines()
    out.write_text("\n".join(lines[:-1]) + "\n")
    refused = cli("run", "swiglu", *LAYER, "--fifo-depth", out)
    assert refused.code == 2
    assert "it is for program 'swiglu_16_32'" in refused.err


def test_a_workload_without_a_depth_of_its_own(cli: Cli, own_file: Path) -> None:
    run = cli("run", f"{own_file}:own", "--fifo-depth", "auto", "--json").json()
    assert set(run["fifo_depths"].values()) == {1}
    assert "  own.py:6 " in cli("size", f"{own_file}:own").out
    refused = cli("run", f"{own_file}:own", "--fifo-depth", 3)
    assert "--set fifo.depth=N" in refused.err


def test_a_depth_that_is_an_ordinary_parameter_takes_no_plan(cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "own.py"
    source.write_text(
        "import stepsim as st\n\n\n"
        "def own(fifo_depth: int = 8):\n"
        "    with st.Program('own', compute_bw=64, fifo_depth=fifo_depth) as program:\n"
        "        st.linear_load(st.spec(64, 64), tile=(16, 64)).consume()\n"
        "    return program\n"
    )
    refused = cli("run", f"{source}:own", "--fifo-depth", "auto")
    assert refused.code == 2
    assert 'Declare it with Param(machine="fifo.depth")' in refused.err
    assert 'Param(machine="fifo.depth")' not in cli("run", f"{source}:own", "--fifo-depth", 0).err


def test_what_is_not_sized(cli: Cli) -> None:
    assert "found 'auto'" in cli("inspect", "swiglu", "--fifo-depth", "auto").err
    assert "slowdown must be a number from 0" in cli("size", "swiglu", *LAYER, "--slowdown", -1).err
    assert "expected a number, as 0.01 or 1%" in cli("size", "swiglu", "--slowdown", "small").err
    assert ".yaml" in cli("size", "swiglu", *LAYER, "--out", "depths.txt").err
