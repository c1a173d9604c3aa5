"""`stepsim compile`, and its folders as workloads of the other commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stepsim as st
from tests.cli.conftest import Cli

SMALL = ("gpt2-medium", "--hidden", "64", "--inner", "128", "--heads", "4", "--kv-heads", "4",
         "--head-dim", "16")  # fmt: skip


@pytest.fixture
def folder(cli: Cli, tmp_path: Path) -> Path:
    outcome = cli("compile", *SMALL, "--out", str(tmp_path / "plan"))
    assert outcome.code == 0, outcome.err
    return tmp_path / "plan"


def test_a_folder_has_all_files(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {"plan.yaml", "graph.dot", "fifo_depths.yaml", "fifo_depths.h", "program.py"}
    dot = (folder / "graph.dot").read_text()
    plan = st.Plan.load(folder / "plan.yaml")
    assert dot.count("shape=box") == len(plan.graph.kernels)
    assert "fillcolor=gold" in dot
    pragmas = [x for x in (folder / "fifo_depths.h").read_text().splitlines() if x[:1] == "#"]
    assert len(pragmas) == len({line.split()[3] for line in pragmas})
    assert all(int(line.rpartition("=")[2]) >= 1 for line in pragmas)


def test_tables_say_what_was_decided(cli: Cli, tmp_path: Path) -> None:
    out = cli("compile", *SMALL, "--fifo-table", "--passes").out
    told = (
        "attn.q.linear", "converter bytes", "FIFO bytes", "uram", "predicted: ",
        "all 24 layers: first token", "lp + repair + shrink", "== after tile",
    )  # fmt: skip
    assert [text for text in told if text not in out] == []
    found = json.loads(cli("compile", *SMALL, "--json").out)
    assert found["simulated_cycles"] <= 1.005 * found["unbounded_cycles"]


def test_a_plan_runs_as_it_was_simulated(cli: Cli, folder: Path) -> None:
    plan = st.Plan.load(folder / "plan.yaml")
    found = json.loads(cli("run", str(folder), "--json").out)
    assert (found["cycles"], found["machine"]) == (plan.simulated, "u55c")
    again = cli("run", str(folder), "--fifo-depth", str(folder / "fifo_depths.yaml"), "--json")
    assert json.loads(again.out)["cycles"] == plan.simulated
    rebuilt = cli(
        "run", f"{folder / 'program.py'}:program", "--machine", "u55c",
        "--fifo-depth", str(folder / "fifo_depths.yaml"), "--json",
    )  # fmt: skip
    assert json.loads(rebuilt.out)["cycles"] == plan.simulated
    assert json.loads(cli("run", str(folder), "--machine", "sda-1024", "--json").out)["cycles"]


@pytest.mark.parametrize("command", [("why",), ("inspect",), ("size",)])
def test_other_commands_take_a_plan(cli: Cli, folder: Path, command: tuple[str, ...]) -> None:
    outcome = cli(*command, str(folder))
    assert outcome.code == 0, outcome.err
    assert "gpt2-medium block" in outcome.out


def test_sweeps_take_plans_and_designs(cli: Cli, folder: Path, tmp_path: Path) -> None:
    specs = {
        "plan": f"workload: {folder.name}\ngrid:\n  machine.hbm.latency: [31, 62]\n",
        "compiled": "workload: compiled\nparameters: {hidden: 64, inner: 128, heads: 4, "
        "kv_heads: 4, head_dim: 16}\ngrid:\n  tile: [8, 16]\n",
    }
    for name, text in specs.items():
        (tmp_path / f"{name}.yaml").write_text(text)
        spec, out = tmp_path / f"{name}.yaml", tmp_path / f"out-{name}"
        outcome = cli("sweep", str(spec), "--out", str(out))
        assert outcome.code == 0, outcome.err
    found = cli("best", str(tmp_path / "out-plan"), "--json").out
    assert str(st.Plan.load(folder / "plan.yaml").simulated) in found


def test_groups_run_one_after_another(cli: Cli, tmp_path: Path) -> None:
    where = str(tmp_path / "groups")
    assert cli("compile", *SMALL, "--budget", "600B", "--out", where).code == 0
    plan = st.Plan.load(tmp_path / "groups" / "plan.yaml")
    out = cli("run", where).out
    assert f"all 3 groups, one after another: {plan.simulated:,} cycles" in out
    one = json.loads(cli("run", where, "--group", "1", "--json").out)
    assert one["cycles"] == plan.groups[1].simulated
    refused = cli("why", where)
    assert refused.code == 2
    assert "--group: " in refused.err
    assert "0: 20 kernels" in refused.err


def test_a_file_of_a_user_is_compiled(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mlp.py"
    file.write_text(
        "from stepsim.compiler import GraphBuilder\n"
        "def model(hidden=32):\n"
        "    b = GraphBuilder('mlp', 'i8', 'i4')\n"
        "    x = b.input('x', (8, hidden))\n"
        "    b.output(b.linear(x, b.weight('w', (64, hidden))), 'y')\n"
        "    return b.graph()\n"
    )
    out = cli("compile", f"{file}:model", "--hidden", "16", "--tile", "8").out
    assert "mlp on u55c" in out
    refused = cli("compile", f"{file}:mode")
    assert refused.code == 2
    assert "did you mean 'model'?" in refused.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("gpt2-mediun",), "did you mean 'gpt2-medium'?"),
        ((*SMALL, "--budget", "41XB"), "--budget: expected bytes"),
        ((*SMALL, "--tile", "0"), "tile must be a whole number from 1"),
    ],
)
def test_mistakes_are_told(cli: Cli, options: tuple[str, ...], told: str) -> None:
    outcome = cli("compile", *options)
    assert outcome.code == 2
    assert told in outcome.err


def test_a_damaged_plan_is_told(cli: Cli, folder: Path) -> None:
    path = folder / "plan.yaml"
    path.write_text(path.read_text().replace("\ndigest: ", "\ndigest: 00", 1))
    outcome = cli("run", str(folder))
    assert outcome.code == 2
    assert "the operators were changed" in outcome.err
