"""A machine that states its clock gives runs a time, the same everywhere; others have none."""

from __future__ import annotations

import json
from typing import Any

import pytest

import stepsim as st
from tests.cli.conftest import Cli

LAYER = ("run", "swiglu", "--config", "published", "--tile", "16", "--tile-inter", "32")


def row(cli: Cli, *options: str) -> dict[str, Any]:
    outcome = cli(*LAYER, *options, "--json")
    assert outcome.code == 0
    return dict(json.loads(outcome.out))


def test_a_run_prints_its_time(cli: Cli) -> None:
    found = row(cli, "--set", "clock_ghz=0.5")
    assert found["milliseconds"] == found["cycles"] / 500_000
    assert f"{found['milliseconds']:.4g} ms" in cli(*LAYER, "--set", "clock_ghz=0.5").out


def test_the_clock_moves_no_cycle(cli: Cli) -> None:
    with_clock, without = row(cli, "--set", "clock_ghz=3"), row(cli)
    assert with_clock["cycles"] == without["cycles"]
    assert without["milliseconds"] is None


def test_results_and_batches_have_the_same_time() -> None:
    with st.Program("load", compute_bw=64) as program:
        st.linear_load(st.spec(64, 64), (16, 64)).map(st.fn.silu).consume()
    machine = st.load_machine("u55c")
    result = st.simulate(program, machine)
    assert result.milliseconds == pytest.approx(result.cycles / 250_000)
    assert f"= {result.milliseconds:.4g} ms" in repr(result)
    table = st.simulate_many(program, machines=[machine, "sda-1024"])
    assert table["milliseconds"].to_pylist() == [result.milliseconds, None]
    assert st.simulate(program, "sda-1024").milliseconds is None
