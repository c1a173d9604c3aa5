"""Fixes in files: written by `why`, `size` and for deadlocks, taken by runs, sweeps and Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import stepsim as st
from stepsim.errors import ArgError, MachineError, SweepError
from tests.cli.conftest import Cli
from tests.explain.levers import LEVERS
from tests.samples import sampled

_FILE = """\
import stepsim as st

def blocks(rows: int = 54):
    with st.Program("blocks", compute_bw=1 << 20, fifo_depth=2) as program:
        a = st.spec(64 * 32, 64, name="a")
        st.linear_load(a, tile=(64, 64), label="blocks").consume()
        x = st.linear_load(st.spec(rows, 64), tile=(1, 64), label="x").flatten(0, 1)
        x.map(st.fn.silu, compute_bw=6, label="act").consume()
    return program
"""

_STUCK = """\
import stepsim as st

def center():
    with st.Program("center", compute_bw=1024, fifo_depth=2) as program:
        x = st.linear_load(st.spec(64, 512), tile=(16, 64))
        total = x.accum(st.fn.add, rank=1)
        st.linear_store(st.map(st.fn.add, x, total.unsqueeze(0).expand(8)), "y")
    return program
"""


@pytest.fixture
def workload(tmp_path: Path) -> str:
    (tmp_path / "blocks.py").write_text(_FILE)
    return str(tmp_path / "blocks.py")


@pytest.fixture
def fix(cli: Cli, workload: str, tmp_path: Path) -> Path:
    """The fix of the pair of changes that helps."""
    file = tmp_path / "fix.yaml"
    result = cli("why", workload, "--write-fix", str(file))
    assert "par_dispatch 4 of the program" in result.err
    return file


@pytest.mark.slow
def test_a_fix_of_why_gives_its_cycles_in_runs_and_sweeps(
    cli: Cli, workload: str, fix: Path, tmp_path: Path
) -> None:
    about = yaml.safe_load(fix.read_text())
    assert about["par_dispatch"] == 4
    assert about["operators"] == {"act#4": {"compute_bw": 12}}
    plain = cli("run", workload, "--json").json()
    run = cli("run", workload, "--fix", str(fix), "--json").json()
    assert [run["cycles"]] == about["cycles"]
    assert run["cycles"] < 0.6 * plain["cycles"]
    spec = {"workload": "blocks.py", "fix": "fix.yaml", "machine": "sda-1024"}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(spec))
    st.sweep.run_sweep(tmp_path / "sweep.yaml", tmp_path / "out")
    columns = ["cycles", "allocated_flops_per_cycle", "compute_utilization"]
    (row,) = st.sweep.read_runs(tmp_path / "out", columns).to_pylist()
    assert [row["cycles"]] == about["cycles"]
    for found in (run, row):
        assert found["allocated_flops_per_cycle"] == 12
        assert found["compute_utilization"] == run["flops"] / (12 * run["cycles"])


@pytest.mark.slow
def test_a_fix_of_another_program_is_refused_before_anything_runs(
    cli: Cli, workload: str, fix: Path, tmp_path: Path
) -> None:
    result = cli("run", workload, "--rows", "50", "--fix", str(fix))
    assert result.code == 2
    assert f"fix {fix}, line" in result.err
    assert "it is for program 'blocks' with the hash" in result.err
    spec = {"workload": workload, "fix": str(fix), "grid": {"rows": [54, 50]}}
    with pytest.raises(SweepError, match=r"rows=50\): fix .* it is for program 'blocks'"):
        st.sweep.run_sweep(spec, tmp_path / "out")
    spec = {"workload": workload, "fix": str(fix), "parameters": {"fifo_depth": "auto"}}
    with pytest.raises(SweepError, match="auto finds depths for every run, and the fix"):
        st.sweep.run_sweep(spec, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_deadlock_is_fixed_by_its_file(cli: Cli, tmp_path: Path) -> None:
    program, file = tmp_path / "center.py", tmp_path / "fix.yaml"
    program.write_text(_STUCK)
    assert cli("why", str(program), "--write-fix", str(file)).code == 1
    assert yaml.safe_load(file.read_text())["depths"] == {"linear_load#0>1": 8}
    found = cli("run", str(program), "--fix", str(file), "--json").json()
    assert [found["cycles"]] == yaml.safe_load(file.read_text())["cycles"]


def test_sizes_are_a_fix(cli: Cli, workload: str, tmp_path: Path) -> None:
    file = tmp_path / "sizes.yaml"
    found = cli("size", workload, "--write-fix", str(file), "--json").json()
    for option in ("--fix", "--fifo-depth"):
        run = cli("run", workload, option, str(file), "--json").json()
        assert [run["cycles"]] == found["cycles"]
    result = cli("run", workload, "--fix", str(file), "--fifo-depth", "auto")
    assert "--fix: expected without --fifo-depth auto" in result.err


def test_nothing_is_written_where_nothing_helps(cli: Cli, tmp_path: Path) -> None:
    program, file = tmp_path / "numbers.py", tmp_path / "fix.yaml"
    program.write_text(
        "import stepsim as st\n\ndef numbers():\n    with st.Program() as program:\n"
        "        st.counter(4).consume()\n    return program\n"
    )
    result = cli("why", str(program), "--write-fix", str(file))
    assert result.code == 2
    assert "was not written: no change that was tried makes the run shorter" in result.err
    assert not file.exists()
    assert (
        "expected a name that ends in .yaml"
        in cli("why", str(program), "--write-fix", "fix.txt").err
    )


@pytest.mark.parametrize("lever", sampled(LEVERS, *LEVERS[::3]), ids=lambda lever: lever.name)
def test_every_suggestion_is_a_fix(lever: Any, tmp_path: Path) -> None:
    program, machine = lever.made()
    found = st.why(program, machine)
    for number, one in enumerate(found.suggestions):
        file = tmp_path / f"{number}.yaml"
        if one.kind == "balance":
            with pytest.raises(ArgError, match="another routing is not part of a program"):
                one.save(file)
            continue
        one.save(file)
        result = st.simulate(program, machine, fix=file)
        assert (result.cycles, result.notes) == (one.cycles, ())


def test_a_fix_of_a_fixed_program_has_both(tmp_path: Path) -> None:
    program, machine = LEVERS[0].made()
    first, both = tmp_path / "first.yaml", tmp_path / "both.yaml"
    first.write_text("machine_values:\n  onchip.bytes_per_cycle: 128\n")
    found = st.simulate(program, machine, fix=first).why()
    found.suggestions[0].save(both)
    assert yaml.safe_load(both.read_text())["machine_values"] == {"onchip.bytes_per_cycle": 128}
    assert st.simulate(program, machine, fix=both).cycles == found.suggestions[0].cycles


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cycles: [3]\n", "expected the key 'depths'"),
        ("- 3\n", "expected the key 'depths'"),
        ("par_dispach: 4\ndepths: {}\n", "line 1: unknown key 'par_dispach'; did you mean 'par_d"),
        ("machine_values: {}\n", "it changes nothing"),
        ("par_dispatch: 0\n", "line 1: par_dispatch must be an int from 1"),
        ("fifo_depth: many\n", "line 1: fifo_depth must be an int from 1"),
        ("operators: 3\n", "line 1: operators must be lines"),
        ("operators:\n  act#4: {width: 3}\n", "line 2: act#4 takes compute_bw and par_dispatch"),
        ("operators:\n  act#4: {compute_bw: 0}\n", "line 2: compute_bw of 'act#4' must be"),
        ("operators:\n  act#5: {compute_bw: 8}\n", "the program has no operator 'act#5' (near: "),
        ("operators:\n  x#2: {compute_bw: 8}\n", "compute names 'x#2', which has no FLOPs"),
        ("operators:\n  act#4: {par_dispatch: 8}\n", "names 'act#4', which issues no requests"),
        ("depths:\n  act#9: 8\n", "line 2: the program has no FIFO 'act#9'"),
        ("depths:\n  x#2: 0\n", "line 2: the depth of 'x#2' must be an int from 1"),
    ],
)
def test_wrong_files_are_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    program, machine = LEVERS[8].made()
    file = tmp_path / "fix.yaml"
    file.write_text(text)
    with pytest.raises(ArgError) as error:
        st.prepare(program, machine, fix=file)
    assert message in str(error.value)
    assert str(file) in str(error.value)


def test_values_of_a_machine_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    program, machine = LEVERS[8].made()
    file = tmp_path / "fix.yaml"
    file.write_text("machine_values:\n  hbm.chanels: 64\n")
    with pytest.raises(MachineError, match=r"fix .*fix.yaml, machine_values: .*hbm.chanels"):
        st.simulate(program, machine, fix=file)


def test_requests_per_cycle_of_a_program_without_memory_ports_are_refused(tmp_path: Path) -> None:
    with st.Program("no ports") as program:
        st.metadata([1, 2, 3]).consume()
    file = tmp_path / "fix.yaml"
    file.write_text("par_dispatch: 4\n")
    with pytest.raises(ArgError, match="par_dispatch is 4, but the program has no load or store"):
        st.prepare(program, fix=file)


def test_a_file_that_changes_more_than_depths_is_not_one_of_depths(tmp_path: Path) -> None:
    program, machine = LEVERS[8].made()
    file = tmp_path / "fix.yaml"
    file.write_text("par_dispatch: 4\n")
    with pytest.raises(ArgError, match="expected depths alone, found par_dispatch; give the file"):
        st.simulate(program, machine, fifo_depth=file)
    file.write_text("fifo_depth: 4\n")
    with pytest.raises(ArgError, match="given as 3, and fifo_depth of the fix is 4"):
        st.simulate(program, machine, fifo_depth=3, fix=file)
    with pytest.raises(ArgError, match="fix must be a file, found 3"):
        st.prepare(program, machine, fix=3)  # type: ignore[arg-type]
