"""``stepsim run`` with energies, programs that do not fit, and disturbed runs; ``compare``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Cli


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    file = tmp_path_factory.mktemp("routing") / "routing.npy"
    rng = np.random.default_rng(0)
    np.save(file, np.sort([rng.choice(8, 2, replace=False) for _ in range(8)], axis=1))
    return ["run", "moe", "--model", "mixtral-8x7b", "--tile", "4", "--routing", str(file)]


def said(outcome: Any, code: int = 0) -> str:
    """What a command printed, on one line."""
    assert outcome.code == code, outcome.err
    return " ".join((outcome.out + outcome.err).split())


def test_a_run_says_its_energy(cli: Cli, base: list[str]) -> None:
    text = said(cli(*base, "--machine", "sda-1024-energy"))
    assert "energy-delay product" in text
    assert "tokens/s" in text
    assert "% off chip" in text
    assert "energy" not in said(cli(*base))


def test_a_program_that_does_not_fit_ends_as_infeasible(cli: Cli, base: list[str]) -> None:
    text = said(cli(*base, "--set", "compute.flops_per_cycle=1000"), code=1)
    assert "status infeasible" in text
    assert "the machine has 1,000 (compute.flops_per_cycle); the largest are" in text


def test_a_missing_entry_is_bad_input(cli: Cli, base: list[str]) -> None:
    values = ("--set", "energy.sources=none", "--set", "energy.flop_pj_f32=1")
    assert "add energy.flop_pj_bf16 to the table" in said(cli(*base, *values), code=2)


@pytest.mark.slow
def test_disturbed_runs_beside_a_run_and_what_is_noise(
    cli: Cli, base: list[str], tmp_path: Path
) -> None:
    one, two = str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")
    text = said(cli(*base, "--ensemble", "4,fifo.depth=0", "--out", one))
    assert "4 disturbed runs (hbm.latency +0..+3; seed 0): median" in text
    said(cli(*base, "--ensemble", "4", "--set", "hbm.latency=3", "--out", two))
    compared = ("compare", one, two, "--ensemble", "--fail-above", "0%")
    assert "within noise" in said(cli(*compared))
    said(cli(*base, "--ensemble", "4", "--set", "hbm.channels=16", "--out", two))
    assert "within noise" not in said(cli(*compared), code=1)
    said(cli(*base, "--out", two))
    assert "must both have an ensemble" in said(cli("compare", one, two, "--ensemble"), code=2)


def test_json_has_the_members(cli: Cli, base: list[str]) -> None:
    found = json.loads(cli(*base, "--ensemble", "3", "--json").out)
    assert len(found["ensemble"]["cycles"]) == 3
    assert found["cycles_p5"] <= found["cycles_median"] <= found["cycles_p95"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--ensemble-seed", "1"], "is now part of --ensemble, as in --ensemble 32,seed=7"),
        (
            ["--disturb", "fifo.depth=1"],
            "is now part of --ensemble, as in --ensemble 32,fifo.depth",
        ),
        (["--ensemble", "2,fifo.depth"], "each disturbance once with its bounds"),
        (["--ensemble", "2,fifo.depth=1,fifo.depth=2"], "each disturbance once with its bounds"),
        (["--ensemble", "seed=2"], "the number of runs"),
        (["--ensemble", "2,seed=1:2"], "found '2,seed=1:2'"),
        (["--ensemble", "0"], "runs"),
        (["--ensemble", "2,fifo.depths=1"], "did you mean 'fifo.depth'?"),
    ],
)
def test_wrong_options(cli: Cli, base: list[str], options: list[str], expected: str) -> None:
    assert expected in said(cli(*base, *options), code=2)


@pytest.mark.parametrize(
    ("ensemble", "expected"),
    [
        ("2,fifo.depths=1", "did you mean 'fifo.depth'?"),
        ("0", "runs"),
        ("2,hbm.port.first=1", "bounds['hbm.port.first'] has no effect"),
        ("2,hbm.latency=0,fifo.depth=0", "nothing is left to disturb"),
    ],
)
def test_an_ensemble_is_checked_before_the_run(
    cli: Cli, base: list[str], ensemble: str, expected: str
) -> None:
    """The run itself would end at its limit, without an ensemble."""
    text = said(cli(*base, "--max-cycles", "1", "--ensemble", ensemble), code=2)
    assert expected in text


@pytest.mark.slow
def test_runs_that_do_not_fit_are_compared_by_their_cycles(
    cli: Cli, base: list[str], tmp_path: Path
) -> None:
    fits, one, two = (str(tmp_path / f"{name}.parquet") for name in "abc")
    small = ("--set", "compute.flops_per_cycle=1000")
    said(cli(*base, "--out", fits))
    said(cli(*base, *small, "--out", one), code=1)
    said(cli(*base, *small, "--set", "hbm.channels=16", "--out", two), code=1)
    text = said(cli("compare", one, two))
    assert "status infeasible infeasible" in text
    assert "not comparable" not in text
    assert "worse by more than 1%" in said(cli("compare", one, two, "--fail-above", "1%"), code=1)
    said(cli("compare", one, one, "--fail-above", "0%"))
    assert "B ended with status infeasible" in said(
        cli("compare", fits, one, "--fail-above", "0%"), code=1
    )
    said(cli("compare", one, fits, "--fail-above", "0%"))
