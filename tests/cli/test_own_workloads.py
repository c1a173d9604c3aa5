"""Programs of a user's file: run, inspected, written; what is wrong with them is reported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Cli

GEMM = '''
import stepsim as st


def gemm(m: int = 64, n: int = 32, k: int = 128, tile: int = 16) -> st.Program:
    """A matrix product, tiled along its rows."""
    with st.Program("gemm", compute_bw=1024) as program:
        a = st.linear_load(st.spec(m, k, name="a"), (tile, k))
        b = st.linear_load(st.spec(k, n, name="b"), (k, n), shape=(m // tile, 1), stride=(0, 0))
        st.linear_store(st.map(st.fn.matmul, a, b), "c")
    return program
'''
PROGRAM = """
import stepsim as st

with st.Program("ready", compute_bw=1024) as program:
    st.linear_store(st.map(st.fn.silu, st.linear_load(st.spec(64, 64), (16, 64))), "y")
"""
STUCK = """
import stepsim as st

with st.Program("center", compute_bw=1024, fifo_depth=2) as program:
    x = st.linear_load(st.spec(64, 512), tile=(16, 64))
    total = x.accum(st.fn.add, rank=1)
    st.linear_store(st.map(st.fn.add, x, total.unsqueeze(0).expand(8)), "y")
"""
ROWS = '''
from dataclasses import dataclass
from typing import Annotated, ClassVar

import stepsim as st
from stepsim.workloads import KV_LENGTHS, ROUTING, Built, Data, Param, Workload


@dataclass(frozen=True, kw_only=True)
class Rows(Workload):
    """A row for each token and each cached one."""

    inputs: ClassVar = (ROUTING, KV_LENGTHS)
    width: Annotated[int, Param("columns of a row", "columns")] = 64

    def check(self, data):
        if self.width % 16:
            yield "width", f"expected a multiple of 16, found {self.width}"

    def build(self, data: Data) -> Built:
        rows = int(data.lengths.sum()) + data.rows
        with st.Program("rows", compute_bw=1024) as program:
            x = st.linear_load(st.spec(rows, self.width), (1, self.width))
            st.linear_store(st.map(st.fn.silu, x), "y")
        return Built(program, notes=[f"{rows} rows are moved"])
'''


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"gemm": GEMM, "prog": PROGRAM, "stuck": STUCK, "rows": ROWS}.items():
        Path(f"{name}.py").write_text(text)
    np.save("routing.npy", np.tile([0, 1], (4, 1)))
    np.save("kv.npy", np.array([5, 0, 7, 12]))


@pytest.mark.parametrize("name", ["gemm.py", "gemm.py:gemm"])
def test_a_function_is_a_workload(cli: Cli, name: str) -> None:
    outcome = cli("run", name, "--m", 128, "--tile", 32, "--json", "--out", "out.parquet")
    assert outcome.code == 0, outcome.err
    found = outcome.json()
    assert (found["workload"], found["status"]) == ("gemm.py:gemm", "ok")
    assert len(found["workload_digest"]) == 64
    assert found["parameters"] == {"m": 128, "n": 32, "k": 128, "tile": 32}
    origins = {"m": "given", "n": "default", "k": "default", "tile": "given"}
    assert found["origins"] == origins
    assert found["flops"] == 2 * 128 * 32 * 128
    assert found["offchip_bytes"] == 2 * (128 * 128 + 4 * 128 * 32 + 128 * 32)
    (row,) = pq.read_table("out.parquet").to_pylist()
    assert [row[one] for one in ("m", "tile", "cycles")] == [128, 32, found["cycles"]]


def test_it_is_inspected_as_it_is_run(cli: Cli) -> None:
    ran, seen = (cli(command, "gemm.py", "--json").json() for command in ("run", "inspect"))
    for name in ("offchip_bytes", "onchip_bytes", "flops", "allocated_flops_per_cycle"):
        assert seen["numbers"][name] == ran[name]
    shown = cli("inspect", "gemm.py")
    assert (shown.code, "gemm: 4 operators" in shown.out) == (0, True)
    assert cli("inspect", "gemm.py", "--graph", "dot").out.startswith("digraph")


def test_help_shows_the_docstring_and_the_arguments(cli: Cli) -> None:
    shown = cli("run", "gemm.py", "--help")
    assert shown.code == 0
    assert "A matrix product, tiled along its rows." in shown.out
    words = shown.out.replace("│", " ").split()
    assert words[words.index("--k") :][:4] == ["--k", "N", "(default:", "128)"]
    assert "--kv-lengths" not in words


def test_a_finished_program_just_runs(cli: Cli) -> None:
    outcome = cli("run", "prog.py")
    assert outcome.code == 0, outcome.err
    assert "prog.py:program" in outcome.out
    assert cli("inspect", "prog.py", "--json").json()["parameters"] == {}


def test_a_deadlock_ends_with_code_1_and_is_explained(cli: Cli) -> None:
    outcome = cli("run", "stuck.py", "--json")
    assert outcome.code == 1
    found = outcome.json()
    assert (found["status"], found["compute_utilization"]) == ("deadlock", None)
    reasons = [wait["reason"] for wait in found["diagnosis"]["circular_wait"]]
    assert reasons.count("slot") == 1
    assert "run failed, deadlock: 8 of 8 units are blocked" in outcome.err
    assert "these units form a circular wait:" in outcome.err
    assert (found["fix"]["status"], found["fix"]["is_least"]) == ("fixed", True)
    human = cli("run", "stuck.py")
    assert (human.code, "deadlock" in human.out) == (1, True)
    assert "least fix: " in human.out
    (fifo,) = found["fix"]["depths"]
    assert f"('{fifo}') of depth {found['fix']['depths'][fifo]}" in " ".join(human.out.split())


def test_a_deadlock_that_takes_long_says_what_finds_the_fix(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepsim.cli.runs.execution._FIX_SECONDS", 1e-9)
    outcome = cli("run", "stuck.py")
    assert "no fix found in 0 runs: one run takes 0.0 s" in outcome.out
    assert "`stepsim why` and st.fix_deadlock search for longer" in outcome.out


def test_the_fix_of_a_run_ends_its_deadlock(cli: Cli) -> None:
    depths = cli("run", "stuck.py", "--json").json()["fix"]["depths"]
    Path("depths.yaml").write_text(json.dumps({"depths": depths}))
    assert cli("run", "stuck.py", "--fifo-depth", "depths.yaml", "--json").json()["fix"] is None


def test_a_class_gets_the_traces_that_it_asks_for(cli: Cli) -> None:
    traces = ("--routing", "routing.npy", "--kv-lengths", "kv.npy")
    outcome = cli("run", "rows.py:Rows", *traces, "--width", 32, "--json")
    assert outcome.code == 0, outcome.err
    found = outcome.json()
    assert (found["batch"], found["trace"], found["lengths"]) == (4, "routing.npy", "kv.npy")
    assert found["offchip_bytes"] == 2 * 28 * 32 * 2
    assert outcome.err.endswith("28 rows are moved\n")
    assert cli("inspect", "rows.py", "--json").json()["numbers"] is None
    shorter = cli("run", "rows.py", *traces, "--batch", 2, "--json").json()
    assert (shorter["batch"], shorter["kv_lengths"]["requests_in_file"]) == (2, 4)


def test_a_process_of_its_own_imports_neighbors_of_the_file() -> None:
    Path("sizes.py").write_text("M = 256\n")
    Path("near.py").write_text(GEMM.replace("m: int = 64", "m: int = sizes.M"))
    Path("near.py").write_text("import sizes\n" + Path("near.py").read_text())
    code = "from stepsim.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, "run", "near.py"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "m 256, n 32, k 128, tile 16" in done.stdout


RETURN = "import stepsim as st\ndef f({}) -> st.Program: return 3\n"
MISTAKES = {
    "no file": (None, (), "own.py: cannot be read: No such file or directory; name a Python file"),
    "no workload": ("x = 1", (), "own.py: holds no workload; define a function that returns a"),
    "two workloads": (
        GEMM + GEMM.replace("gemm(", "other("),
        (),
        "own.py: holds 2 workloads, gemm, other; name the function or class behind a colon, as in "
        "own.py:gemm\n",
    ),
    "wrong type": (GEMM, ("--tile", "x"), "--tile: expected a whole number from 1, found 'x'\n"),
    "out of range": (GEMM, ("--m", 0), "--m: expected a whole number from 1, found 0\n"),
    "two values": (
        GEMM,
        ("--m", "few", "--k", -1),
        "--m: expected a whole number from 1, found 'few'\n"
        "--k: expected a whole number from 1, found -1\n",
    ),
    "missing": (
        RETURN.format("m: int"),
        (),
        "--m: missing; expected a whole number from 1\n",
    ),
    "no tile of the tensor": (
        GEMM,
        ("--tile", 48),
        "linear_load#0: tile 48x128 does not divide the 64 rows of a[64x128 bf16]. ",
    ),
    "no published figure": (
        GEMM,
        ("--config", "published"),
        "--config: there is no published experiment of gemm; leave it out\n",
    ),
    "name of an option": (
        RETURN.format("out: int = 4"),
        (),
        "own.py:f: parameter out clashes with the option --out of the command line; choose "
        "another name, such as f_out\n",
    ),
    "name of an option with another name": (
        RETURN.format("set: str = 'x'"),
        (),
        "own.py:f: parameter set clashes with the option --set of the command line; choose "
        "another name, such as f_set\n",
    ),
    "name of the inverse of another": (
        RETURN.format("x: bool = True, no_x: int = 1"),
        (),
        "own.py:f: parameter no_x clashes with the option --no-x of parameter x; choose another "
        "name, such as f_no_x\n",
    ),
    "name of a column": (
        RETURN.format("cycles: int = 4"),
        (),
        "f: parameter cycles has the name of a column of results (length of the run); choose "
        "another name, such as f_cycles\n",
    ),
    "no type": (
        RETURN.format("m"),
        (),
        "own.py:f: argument m has no type; annotate it, as in m: int\n",
    ),
    "no name": (
        RETURN.format("*m: int"),
        (),
        "own.py:f: expected arguments with names, found *m: int; write them out\n",
    ),
    "type of no option": (
        RETURN.format("m: dict = None"),
        (),
        "own.py:f: workload f, parameter m: expected an annotation of int, float, bool, str, ",
    ),
    "a list as default": (
        RETURN.format("m: tuple[int, ...] = [4]"),
        (),
        "own.py:f: workload f, parameter m: expected a tuple as default, found the list [4]",
    ),
    "a mapping as default": (
        RETURN.format("m={}"),
        (),
        "own.py:f: workload f, parameter m: expected an annotation of int, float, bool, str, ",
    ),
    "name of types only": (
        ROWS + "    x: ClassVar['Later']\n",
        (),
        "own.py:Rows: workload Rows: an annotation cannot be read: name 'Later' is not defined; ",
    ),
    "no program": (
        RETURN.format(""),
        (),
        "own.py:f: expected a function that returns a Program, found one that returns int\n",
    ),
    "no traces": (
        ROWS,
        (),
        "--routing and --kv-lengths: missing; workload own.py:Rows needs a trace in a file; "
        "`stepsim trace synth` makes a routing trace\n",
    ),
    "refused by its check": (
        ROWS,
        ("--width", 17, "--routing", "routing.npy", "--kv-lengths", "kv.npy"),
        "--width: expected a multiple of 16, found 17\n",
    ),
}


@pytest.mark.parametrize(("text", "options", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(cli: Cli, text: str | None, options: tuple[object, ...], message: str) -> None:
    if text is not None:
        Path("own.py").write_text(text)
    outcome = cli("run", "own.py", *options, "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gemm.py:gem", "has no 'gem'; did you mean 'gemm'? It offers: gemm\n"),
        ("gemm", "unknown workload 'gemm'; did you mean 'gemm.py'?\n"),
        ("gemm:gemm", "unknown workload 'gemm:gemm'; did you mean 'gemm.py:gemm'?\n"),
        ("mo", "unknown workload 'mo'; did you mean 'moe'? Known: moe, attention, swiglu, "),
    ],
)
def test_names_of_nothing(cli: Cli, name: str, message: str) -> None:
    outcome = cli("run", name)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err


def test_an_unknown_option_shows_the_nearest(cli: Cli) -> None:
    outcome = cli("run", "gemm.py", "--tyle", 8)
    assert (outcome.code, outcome.out) == (2, "")
    assert re.search(r"No such option: --tyle \(Possible options: [^)]*--tile\)", outcome.err)


def test_bytes_that_are_no_text_are_refused(cli: Cli) -> None:
    Path("own.py").write_text(GEMM.replace("m: int = 64", "m: int = 64, note: str = ''"))
    outcome = cli("run", "own.py", "--note", "\udcff", "--out", "out.parquet")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "error: --note: expected text in UTF-8, found '\\udcff'\n"


def test_a_file_name_that_is_no_text_cannot_be_written(cli: Cli) -> None:
    Path("kv.npy").rename("kv\udcff.npy")
    traces = ("--routing", "routing.npy", "--kv-lengths", "kv\udcff.npy")
    outcome = cli("run", "rows.py", *traces, "--out", "out.parquet")
    assert (outcome.code, outcome.out) == (2, "")
    assert (
        "error: out.parquet: cannot be written: 'kv\\udcff.npy' is not valid UTF-8" in outcome.err
    )
    assert not Path("out.parquet").exists()


def test_a_function_is_not_inspected_without_its_trace(cli: Cli) -> None:
    annotated = "import numpy as np\nfrom typing import Annotated\n"
    text = GEMM.replace(
        "m: int = 64", "ids: Annotated[np.ndarray, st.workloads.ROUTING], m: int = 64"
    )
    Path("own.py").write_text(annotated + text)
    outcome = cli("inspect", "own.py")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "error: --routing: missing; own.py:gemm is built from its trace\n"


RAISES = {
    "when it is read": ("1 / 0\n", "ZeroDivisionError: division by zero\n"),
    "no Python": ("def f(:\n", "SyntaxError: invalid syntax\n"),
    "when it builds": (
        "def f(m: int = 3):\n    return _inner(m)\n\ndef _inner(m: int):\n    return [][m]\n",
        "IndexError: list index out of range\n",
    ),
    "when it checks": (
        ROWS.replace("self.width % 16", "self.length"),
        "AttributeError: 'Rows' object has no attribute 'length'\n",
    ),
    "when it chooses settings": (
        ROWS.replace(
            "    def check(",
            "    @classmethod\n    def presets(cls, *_):\n        return self\n\n    def check(",
        ),
        "NameError: name 'self' is not defined\n",
    ),
}


@pytest.mark.parametrize("command", ["run", "inspect"])
@pytest.mark.parametrize(("text", "ending"), RAISES.values(), ids=RAISES)
def test_what_it_raises_ends_with_its_traceback(
    cli: Cli, command: str, text: str, ending: str
) -> None:
    Path("own.py").write_text(text)
    traces = ("--routing", "routing.npy", "--kv-lengths", "kv.npy") if "Rows" in text else ()
    outcome = cli(command, "own.py", *traces)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: own.py")
    assert 'own.py", line' in outcome.err
    assert "/stepsim/" not in outcome.err
    assert outcome.err.endswith(ending)


@pytest.mark.slow
def test_code_of_users_may_import_pandas(tmp_path: Path) -> None:
    """The command line keeps it from pyarrow alone, for which it would be loaded in vain."""
    file = tmp_path / "tables.py"
    file.write_text(f"import pandas\n{PROGRAM}")
    done = subprocess.run(
        [sys.executable, "-m", "stepsim", "inspect", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_depth_need_not_be_passed_on(cli: Cli, tmp_path: Path) -> None:
    """A parameter for the depth of FIFOs holds, whether or not the function uses it."""
    path = tmp_path / "own.py"
    path.write_text(
        """
from typing import Annotated

import stepsim as st

Depth = Annotated[int, st.workloads.Param("tokens", machine="fifo.depth")]


def used(fifo_depth: Depth = 1) -> st.Program:
    return made(fifo_depth=fifo_depth)


def unused(fifo_depth: Depth = 1) -> st.Program:
    return made()


def made(**options):
    with st.Program("made", compute_bw=64, **options) as program:
        x = st.linear_load(st.spec(256, 16), tile=(8, 16))
        total = x.accum(st.fn.add, rank=1)
        st.linear_store(st.map(st.fn.exp, total), "y")
    return program
""",
        encoding="utf-8",
    )
    cycles = {
        (name, depth): cli("run", f"{path}:{name}", "--fifo-depth", depth, "--json").json()[
            "cycles"
        ]
        for name in ("used", "unused")
        for depth in (1, 9)
    }
    for depth in (1, 9):
        assert cycles["unused", depth] == cycles["used", depth]
    assert cycles["used", 1] != cycles["used", 9]
