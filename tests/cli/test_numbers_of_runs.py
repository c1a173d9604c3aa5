"""Numbers that commands print: of what they are, and where they come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepsim.trace_io import RoutingTable, write_routing
from tests.cli.conftest import Cli

CLOCKED = ("--machine", "sda-1024-energy")
SWIGLU = ("run", "swiglu", "--tile", "16", "--tile-inter", "64", "--config", "published")
MOE = ("--model", "mixtral-8x7b", "--tile", "4", "--json")

PROGRAM = """
import stepsim as st

def copy(n: int = 4):
    with st.Program("copy") as program:
        st.linear_store(st.linear_load(st.spec(n, 64), (1, 64)), "out")
    return program
"""

ROUTED = """
from typing import Annotated
import stepsim as st

def routed(routing: Annotated[object, st.workloads.ROUTING]):
    with st.Program("routed") as program:
        st.linear_store(st.linear_load(st.spec(len(routing), 64), (1, 64)), "out")
    return program
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "copy.py").write_text(PROGRAM)
    (tmp_path / "routed.py").write_text(ROUTED)
    return tmp_path


def test_a_program_of_no_tokens_has_no_tokens_per_second(cli: Cli, file: Path) -> None:
    command = ("run", f"{file / 'copy.py'}:copy", *CLOCKED)
    found = cli(*command, "--json").json()
    assert found["energy_joules"] > 0
    assert found["tokens_per_second"] is None
    assert "tokens/s" not in cli(*command).out


def test_tokens_of_a_layer_are_its_own(cli: Cli) -> None:
    found = cli(*SWIGLU, "--batch", "128", *CLOCKED, "--json").json()
    expected = 128 / found["milliseconds"] * 1e3
    assert found["tokens_per_second"] == pytest.approx(expected)


def test_imbalance_is_over_the_experts_of_the_model(cli: Cli, file: Path) -> None:
    np.save(file / "x.npy", [[0, 1], [0, 2], [0, 1], [1, 0]])
    run = cli("run", "moe", *MOE, "--routing", file / "x.npy").json()["routing"]
    said = cli("trace", "info", file / "x.npy", "--model", "mixtral-8x7b", "--json").json()
    assert run["imbalance"] == said["tables"][0]["imbalance"] == 4.0


@pytest.mark.parametrize(
    ("origin", "model", "imbalance"),
    [(None, None, 1.5), ({"experts": 6}, None, 3.0), (None, "mixtral-8x7b", 4.0)],
)
def test_imbalance_where_only_the_trace_says_the_experts(
    cli: Cli, file: Path, origin: dict[str, object] | None, model: str | None, imbalance: float
) -> None:
    table = RoutingTable(np.array([[0, 1], [0, 2], [0, 1], [1, 0]]), model=model)
    trace = file / "x.parquet"
    write_routing([table], trace, origin=origin)
    run = cli("run", f"{file / 'routed.py'}:routed", "--routing", trace, "--json").json()
    said = cli("trace", "info", trace, "--json").json()["tables"][0]
    assert run["routing"]["imbalance"] == said["imbalance"] == imbalance


@pytest.mark.slow  # compiles an engine of its own
def test_the_bus_has_another_name_than_the_utilization(cli: Cli) -> None:
    text = cli(*SWIGLU, "--machine", "hdl-dram").out
    assert "bandwidth utilization      97.6 %" in text
    assert "busiest is the off-chip memory, whose bus moves requests 96.0 % of the run" in text


@pytest.mark.slow
def test_compute_bandwidth_is_that_of_the_machine_where_it_states_one(cli: Cli) -> None:
    outcome = cli(*SWIGLU, "--machine", "hdl-dram")
    assert "compute-bw 8192 FLOPs/cycle (machine)" in outcome.out
    found = cli(*SWIGLU, "--machine", "hdl-dram", "--json").json()
    assert (found["compute_bw"], found["origins"]["compute_bw"]) == (8192, "machine")
    # it is the same program: only what is reported of it has changed
    assert found["cycles"] == 27552


def test_compute_bandwidth_that_a_machine_replaces_is_refused(cli: Cli) -> None:
    outcome = cli(*SWIGLU, "--machine", "hdl-dram", "--compute-bw", "4096")
    assert outcome.code == 2
    assert outcome.err == (
        "error: --compute-bw: machine hdl-dram states compute.unit_flops_per_cycle, 8192, for all "
        "programs; expected no value here, found 4096; leave it out, or set "
        "compute.unit_flops_per_cycle of the machine\n"
    )


@pytest.mark.slow  # compiles an engine of its own
def test_compute_bandwidth_may_be_given_as_the_machine_has_it(cli: Cli) -> None:
    assert cli(*SWIGLU, "--machine", "hdl-dram", "--compute-bw", "8192").code == 0
