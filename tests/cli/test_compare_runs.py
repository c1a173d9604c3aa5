"""``stepsim compare`` of the files of two runs, and its gate and Markdown, also of sweeps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

import stepsim as st
from stepsim.cli.gate import Gate
from stepsim.report.comparison import change_text
from tests.cli.conftest import Cli, Outcome
from tests.sweep.support import disturb_after, tiny

PROGRAM = '''
import stepsim as st

def linear(rows: int = 64, tile: int = 16) -> st.Program:
    """A linear layer."""
    with st.Program("linear", compute_bw=1024) as program:
        x = st.linear_load(st.spec(rows, 64), tile=(tile, 64)).flatten(0, 1)
        w = st.linear_load(st.spec(64, 64), tile=(64, 64), ref=x).flatten(0, 1).flatten(0, 1)
        st.linear_store(st.map(st.fn.matmul, x, w), "y")
    return program

def center() -> st.Program:
    """It deadlocks."""
    with st.Program("center", compute_bw=64, fifo_depth=1) as program:
        x = st.linear_load(st.spec(8, 8), tile=(1, 8)).flatten(0, 1)
        total = x.reshape(8, pad=0).accum(st.fn.add, rank=1)
        st.linear_store(st.map(st.fn.add, x, total.expand(8)), "y")
    return program
'''

Made = Callable[..., Path]


@pytest.fixture
def made(tmp_path: Path, cli: Cli) -> Made:
    """Run a program of the file; returns the file of the run."""
    (tmp_path / "linear.py").write_text(PROGRAM)

    def run(name: str, *options: object, of: str = "linear", code: int = 0) -> Path:
        path = tmp_path / f"{name}.parquet"
        done = cli("run", f"{tmp_path}/linear.py:{of}", *options, "--out", path)
        assert done.code == code, done.err
        return path

    return run


def test_two_runs_side_by_side(made: Made, cli: Cli) -> None:
    a, b = made("a"), made("b", "--tile", 32, "--set", "hbm.channels=16")
    done = cli("compare", a, b)
    assert done.code == 0
    rows = {line.split("  ")[0]: line.split() for line in done.out.splitlines()}
    first, second = (pq.read_table(path)["cycles"][0].as_py() for path in (a, b))
    assert rows["cycles"] == ["cycles", str(first), str(second), f"{second / first - 1:+.2%}"]
    assert "parameters.tile 16 -> 32" in done.out
    assert "machine.hbm.channels 32 -> 16" in done.out
    assert "FLOPs" not in done.out
    assert "unknown" not in done.out
    said = cli("compare", a, b, "--json").json()
    assert said["metrics"]["cycles"] == {"before": first, "after": second}
    assert said["regression"] is None
    changes = [
        (one["cause"] in ("work", "memory"), abs(one["after"] - one["before"]))
        for one in said["stalls"]
    ]
    small = max(size for _, size in changes) / 100
    ranks = [(not own or size < small, -size) for own, size in changes]
    assert ranks == sorted(ranks)
    assert not ranks[0][0]
    assert all(size > 0 for _, size in changes)


def test_equal_runs_differ_in_nothing(made: Made, cli: Cli) -> None:
    a = made("a")
    done = cli("compare", a, a, "--fail-above", "0%")
    assert done.code == 0
    assert "no input of the run" in done.out
    assert "where the cycles went" not in done.out
    assert "no input of the run changed" in cli("compare", a, a, "--markdown").out.lower()


@pytest.mark.slow
@pytest.mark.parametrize("form", [[], ["--json"], ["--markdown"]])
def test_the_gate_ends_with_exit_code_1(made: Made, cli: Cli, form: list[str]) -> None:
    a, b = made("a"), made("b", "--rows", 128)
    metrics = cli("compare", a, b, "--json").json()["metrics"]["cycles"]
    share = 100 * (metrics["after"] / metrics["before"] - 1)
    assert share > 10
    for above, code in ((f"{share - 0.1:.4f}%", 1), (f"{share + 0.1:.4f}%", 0)):
        done = cli("compare", a, b, "--fail-above", above, *form)
        assert done.code == code
        assert ("regression: cycles +" in done.err) == bool(code)
    assert cli("compare", b, a, "--fail-above", "0%", *form).code == 0
    if "--json" in form:
        assert "worse by more than 1%" in cli(
            "compare", a, b, "--fail-above", "1%", "--json"
        ).json()["regression"]  # fmt: skip


def test_a_larger_utilization_is_better(made: Made, cli: Cli) -> None:
    a, b = made("a"), made("b", "--tile", 4)
    pairs = cli("compare", a, b, "--json").json()["metrics"]["compute_utilization"]
    assert pairs["before"] > pairs["after"]
    gate = ("--metric", "compute_utilization", "--fail-above", "1%")
    assert cli("compare", a, b, *gate).code == 1
    assert cli("compare", b, a, *gate).code == 0


def test_markdown_is_a_table_for_a_comment(made: Made, cli: Cli) -> None:
    a, b = made("a"), made("b", "--rows", 128)
    lines = cli("compare", a, b, "--markdown", "--fail-above", "1%").out.splitlines()
    assert lines[0].startswith("**Regression**: cycles +")
    assert lines[2:4] == ["| metric | A | B | change |", "| :--- | ---: | ---: | ---: |"]
    assert "* `parameters.rows 64 -> 128`" in lines
    assert lines[-1] == "</details>"
    assert any(line.startswith("| matmul (BinaryMap) | work | ") for line in lines)


def test_a_run_that_fails_now_is_a_regression(made: Made, cli: Cli) -> None:
    a, b = made("a"), made("b", of="center", code=1)
    assert cli("compare", a, b).code == 0
    done = cli("compare", a, b, "--fail-above", "50%")
    assert done.code == 1
    assert "regression: B ended with status deadlock" in done.err
    assert cli("compare", b, a, "--fail-above", "0%").code == 0
    said = cli("compare", a, b, "--markdown").out
    assert said.startswith("A ended with status ok and B with deadlock.")
    # Cycles until a deadlock are no measure of a program.
    for text in (said, cli("compare", b, a).out, cli("compare", b, b, "--markdown").out):
        assert "%" not in text
        assert "not comparable" in text
    assert "| status | ok | deadlock |  |" in said
    assert "status" in cli("compare", a, b).out


def test_a_run_that_a_limit_stopped_is_reported(made: Made, cli: Cli) -> None:
    a, b = made("a"), made("b", "--max-cycles", 100, code=1)
    assert cli("compare", a, b, "--json").json()["changed"] == ["a limit stopped B"]
    assert "what changed:\n  a limit stopped A\n" in cli("compare", b, a).out
    assert cli("compare", b, b, "--json").json()["changed"] == []


def test_stalls_that_are_cut_off_are_counted(made: Made, cli: Cli) -> None:
    a, b = made("a"), made("b", "--rows", 128)
    stalls = len(cli("compare", a, b, "--json").json()["stalls"])
    said = cli("compare", a, b, "--markdown", "--rows", 2).out
    assert f"and {stalls - 2} smaller changes" in said
    assert "smaller change" not in cli("compare", a, b, "--markdown", "--rows", stalls).out


@pytest.mark.parametrize("absent", [None, float("nan"), float("inf")])
def test_what_only_one_run_has_exceeds_any_gate(absent: float | None) -> None:
    gate = Gate("cycles", "50%")
    assert gate.exceeded(5, absent)
    assert gate.exceeded(absent, 5)
    assert not gate.exceeded(absent, absent)
    assert not Gate("cycles", None).exceeded(5, absent)


def test_a_gate_holds_at_its_bound_as_written() -> None:
    for percent in range(1, 100):
        gate = Gate("cycles", f"{percent}%")
        for scale in (1, 10, 0.1, 1000):
            assert not gate.exceeded(100 * scale, float(f"{(100 + percent) * scale:.6g}"))
            assert gate.exceeded(100 * scale, float(f"{(100.1 + percent) * scale:.6g}"))


def test_a_change_is_reported_in_percent_however_small() -> None:
    assert change_text(10**9, 10**9 + 1) == "+0.0000001%"
    assert change_text(10**5, 10**5 - 3) == "-0.003%"
    assert change_text(10**4, 10**4 + 1) == "+0.01%"
    assert change_text(300000, 300001) == "+0.0003%"


def test_files_of_results_are_compared_too(tmp_path: Path, cli: Cli) -> None:
    for name, rows in (("a", 64), ("b", 128)):
        names: dict[str, object] = {}
        exec(PROGRAM, names)
        st.simulate(names["linear"](rows)).to_parquet(tmp_path / f"{name}.parquet")  # type: ignore[operator]
    done = cli("compare", tmp_path / "a.parquet", tmp_path / "b.parquet", "--fail-above", "1%")
    assert done.code == 1
    assert "linear_load: tensor a[64x128 bf16] -> a[128x128 bf16]" in done.out or (
        "linear_load" in done.out.partition("what changed:")[2]
    )
    old = pq.read_table(tmp_path / "a.parquet").drop_columns(["outline"])
    pq.write_table(old, tmp_path / "a.parquet")
    done = cli("compare", tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert "A was written without an outline of the program" in " ".join(done.out.split())


def test_other_countings_are_reported(made: Made, cli: Cli) -> None:
    a, b = made("a"), made("b", "--counting", "paper")
    assert "A and B count differently (executed and paper): offchip_bytes" in cli(
        "compare", a, b
    ).err  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{a}", "{a}", "--fail-above", "1"], "expected a percentage such as 1%, found '1'"),
        (["{a}", "{a}", "--fail-above", "-1%"], "expected a percentage such as 1%, found '-1%'"),
        (["{a}", "{a}", "--fail-above", "nan%"], "expected a percentage such as 1%"),
        (["{a}", "{a}", "--metric", "tokens", "--fail-above", "1%"], "unknown which values of"),
        (["{a}", "{a}", "--metric", "cycle"], "no metric 'cycle' in common; did you mean 'cycles'"),
        (["{a}", "{folder}"], "{folder}: expected the file of a run, found a folder; sweeps are"),
        (["{folder}", "{folder}"], "compared with `stepsim sweep compare {folder} {folder}`"),
        (["{a}", "{a}", "--allow-missing"], "--allow-missing: is now an option of"),
        (
            ["{a}", "{a}", "--ensemble", "--metric", "flops"],
            "compares the spread of cycles; choose",
        ),
        (["{a}", "{folder}/linear.py"], "the run cannot be read"),
    ],
)
def test_mistakes(made: Made, cli: Cli, arguments: list[str], message: str) -> None:
    a = made("a")
    done = cli("compare", *(one.format(a=a, folder=a.parent) for one in arguments))
    assert done.code == 2
    assert message.format(a=a, folder=a.parent) in done.err.replace("\n", " ")
    assert not done.out


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A sweep that keeps the stalls of units, and one whose second half is slower."""
    from stepsim.sweep import run_sweep

    folder = tmp_path_factory.mktemp("sweeps")
    for name in ("a", "b"):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(tiny(units=True)))
        run_sweep(tiny(units=True), folder / name)
    return folder / "a", folder / "b"


def _gate(cli: Cli, *arguments: object) -> Outcome:
    return cli("sweep", "compare", *arguments)


@pytest.mark.slow
def test_the_gate_of_sweeps(
    sweeps: tuple[Path, Path], cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    a, b = sweeps
    done = _gate(cli, a, b, "--fail-above", "0%", "--markdown")
    assert done.code == 0
    assert done.out.startswith("**cycles**\n\n24 runs in both, 0 differ, geometric mean of B / A 1")

    from stepsim.sweep import analysis

    slow, label = _slower(analysis.compare(a, b))
    monkeypatch.setattr("stepsim.sweep.compare", lambda *_: slow)
    done = _gate(cli, a, b, "--fail-above", "9.9%", "--markdown", "--rows", "1")
    assert done.code == 1
    assert "regression: cycles: 2 of 24 runs worse by more than 9.9%, 1 newly failing" in done.err
    assert done.out.startswith("**Regression**: cycles: 2 of 24 runs worse by more than 9.9%")
    assert f"| {label} | " in done.out
    assert "1 more differ." in done.out
    assert _gate(cli, a, b, "--fail-above", "9.9%").code == 1
    done = _gate(cli, a, b, "--fail-above", "9.9%", "--json")
    assert (done.code, len(json.loads(done.out)["changes"])) == (1, 24)
    assert _gate(cli, a, b).code == 0


def _slower(found):  # type: ignore[no-untyped-def]
    """The comparison with two runs that take a tenth longer, and one that fails."""
    from dataclasses import replace

    from stepsim.sweep.analysis.compare import NewFailure

    first, second, third, *rest = found.changes
    worse = [
        replace(one, after=one.before * 1.1, ratio=1.1)
        for one in (first, second)
    ]  # fmt: skip
    failing = NewFailure(third.run, third.label, third.before, "deadlock", "stuck")
    return replace(found, changes=(*worse, third, *rest), new_failures=(failing,)), first.label


@pytest.mark.slow
def test_the_stalls_of_the_worst_run_of_a_sweep(tmp_path: Path, cli: Cli) -> None:
    """Sweeps of a workload of the user, whose file is edited in between."""
    spec = {"workload": "linear.py:linear", "grid": {"tile": [8, 16]}, "units": True}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    for name, bandwidth in (("a", 1024), ("b", 512)):
        (tmp_path / "linear.py").write_text(PROGRAM.replace("=1024", f"={bandwidth}"))
        done = cli("sweep", "run", tmp_path / "spec.yaml", "--out", tmp_path / name)
        assert done.code == 0, done.err
    done = cli(
        "sweep", "compare", tmp_path / "a", tmp_path / "b", "--markdown", "--fail-above", "1%"
    )
    assert done.code == 1
    assert "1 of 2 runs worse by more than 1%" in done.err
    assert "| matmul (BinaryMap) | work | " in done.out
    assert "tokens and room" in done.out
    shutil.rmtree(tmp_path / "a")
    assert cli("sweep", "compare", tmp_path / "a", tmp_path / "b").code == 2


@pytest.mark.slow
def test_a_gate_notices_designs_that_are_gone(
    sweeps: tuple[Path, Path], tmp_path: Path, cli: Cli
) -> None:
    from stepsim.sweep import run_sweep

    a, b = sweeps[0], tmp_path / "b"
    run_sweep(tiny(grid=tiny()["grid"] | {"machine.hbm.channels": [8]}), b)
    gate = ("--fail-above", "1%")
    for options in ([], ["--markdown"], ["--json"]):
        done = cli("sweep", "compare", a, b, *gate, *options)
        assert done.code == 1
        assert "12 runs of A not in B" in done.err
        assert cli("sweep", "compare", a, b, *gate, "--allow-missing", *options).code == 0
    assert "Not compared: 12 runs of A not in B." in cli("sweep", "compare", a, b, "--markdown").out
    assert cli("sweep", "compare", b, a, *gate).code == 0
    assert "Without a baseline: 12 only in B." in cli("sweep", "compare", b, a, "--markdown").out
    done = cli("sweep", "compare", a, b, "--by", "layer", *gate, "--markdown")
    assert done.code == 1
    assert "2 baselines without a design in B" in done.err
    assert "Not compared: 2 baselines without a design in B." in done.out
    assert cli("sweep", "compare", a, b, "--by", "layer", *gate, "--allow-missing").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("by", [[], ["--by", "layer"]])
def test_a_gate_notices_a_sweep_that_is_not_finished(
    sweeps: tuple[Path, Path], tmp_path: Path, cli: Cli, by: list[str]
) -> None:
    a, b = sweeps[0], tmp_path / "b"
    disturb_after(b, 7, tiny())
    done = cli("sweep", "compare", a, b, *by, "--fail-above", "1%", "--markdown")
    assert done.code == 1
    assert "2 runs not done yet" in done.out if by else "2 runs of B not done yet" in done.out
    if by:
        assert "2 runs of baselines without one of the design" in done.out
    assert cli("sweep", "compare", a, b, *by, "--fail-above", "1%", "--allow-missing").code == 0
