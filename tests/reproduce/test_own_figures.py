"""Figures of a user's file: the worked example of the docs, and files that are refused."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from stepsim.errors import StepSimError, UserCodeError
from stepsim.machine import load_machine
from stepsim.reproduce.choice import choose_figures
from stepsim.reproduce.reproduction import reproduce
from stepsim.simulation.cases.case import make_case
from stepsim.workloads import Data
from tests.cli.conftest import Cli, cli

__all__ = ["cli"]

DOCS = Path(__file__).parents[2] / "docs"

HEAD = """\
from stepsim.reproduce import Point, Run
from stepsim.reproduce.figure import Figure, Ratio
from stepsim.reproduce.headline import ratio

def draw(rows):
    from matplotlib.figure import Figure as Picture
    picture = Picture()
    picture.subplots().plot([row["cycles"] for row in rows])
    return picture

"""


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The file of the docs, and the workload beside it."""
    (tmp_path / "gemm.py").write_text(python_blocks("workloads.md")[0])
    path = tmp_path / "heights.py"
    path.write_text(python_blocks("extending-figure.md")[1])
    return path


def one(run: str, more: str = "") -> str:
    """A figure of one point."""
    return f'{HEAD}A = Figure("1", lambda: [Point("1", "a", "s", {run})], draw{more})\n'


@pytest.mark.slow
def test_worked_example(cli: Cli, example: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = cli("reproduce", example, "--out", out, "--jobs", 2)
    assert outcome.code == 0, outcome.err
    assert re.search(r"^Figure 1: \d+\.\d\d s of runs, counting executed$", outcome.out, re.M)
    assert "published" not in outcome.out
    assert {f"fig01.{kind}" for kind in ("csv", "parquet", "png", "svg")} < {
        path.name for path in out.iterdir()
    }
    table = pq.read_table(out / "fig01.parquet")
    assert not [name for name in table.schema.names if "published" in name or "canonical" in name]
    rows = table.to_pylist()
    assert [(row["m"], row["k"], row["n"], row["tile"]) for row in rows] == [
        (2048, 512, 256, tile) for _ in (64, 256) for tile in (16, 32, 64, 128)
    ]
    assert {(row["counting"], row["status"], row["trace"]) for row in rows} == {
        ("executed", "ok", None)
    }
    assert len({row["workload_digest"] for row in rows}) == 1
    for row in rows:
        width = int(row["series"].split()[0])
        machine = load_machine("sda-1024", {"onchip.bytes_per_cycle": width})
        assert json.loads(row["machine_json"]) == machine.to_dict()
        case = make_case(
            str(example.parent / "gemm.py:gemm"), machine=machine, m=2048, tile=row["tile"]
        )
        measured = case.measures(case.result(Data()), Data())
        assert {name: row[name] for name in measured.keys() & row.keys()} == {
            name: measured[name] for name in measured.keys() & row.keys()
        }
    with (out / "fig01.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["counting"] for line in lines] == ["executed"] * 8
    assert ">counting: executed<" in (out / "fig01.svg").read_text()
    report = (out / "report.md").read_text()
    assert report.startswith("# Figures\n")
    assert "| 1 | 8 | executed |" in report
    assert "| 1 | speedup of 256 bytes/cycle |" in report
    assert "STeP" not in report
    assert "printed" not in report
    (headline,) = pq.read_table(out / "headlines.parquet").to_pylist()
    assert headline["ours"] == [rows[2]["cycles"] / rows[6]["cycles"]]
    assert headline["ours"][0] > 1


@pytest.mark.slow
def test_beside_a_figure_of_the_paper(example: Path, tmp_path: Path) -> None:
    result = reproduce([str(example), "15"], tmp_path / "out")
    assert list(result.figures) == ["15", "1"]
    assert {row["counting"] for row in result.figures["15"]} == {"published"}
    assert {row["figure"] for row in result.headlines} >= {"1", "setup"}


@pytest.mark.slow
def test_ready_made_workload_on_a_trace(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array([[0, 1], [2, 0], [1, 2], [5, 3]]))
    (tmp_path / "own.yaml").write_text(load_machine("sda-hdl").to_yaml())
    run = (
        'Run("moe", {"model": "mixtral-8x7b", "tile": 4}, routing="ids.npy", batch=3, '
        'machine="own.yaml", config="published", counting="paper")'
    )
    (tmp_path / "figs.py").write_text(one(run))
    ((row,),) = reproduce([str(tmp_path / "figs.py")], tmp_path / "out").figures.values()
    assert (row["batch"], row["trace"], row["counting"]) == (3, "ids.npy", "paper")
    assert (row["model"], row["tile"], row["tile_inter"]) == ("mixtral-8x7b", "4", 64)
    data = Data.of(routing=np.load(tmp_path / "ids.npy")[:3])
    case = make_case(
        "moe", data, machine="sda-hdl", config="published", counting="paper",
        model="mixtral-8x7b", tile=4,
    )  # fmt: skip
    measured = case.measures(case.result(data), data)
    assert row["cycles"] == measured["cycles"]
    assert row["offchip_bytes"] == measured["offchip_bytes"]


@pytest.mark.parametrize(
    ("more", "counting"),
    [("", "published"), (', counting="executed"', "executed"), (', counting="paper"', "paper")],
)
def test_published_parameters_are_counted_as_published(
    tmp_path: Path, more: str, counting: str
) -> None:
    path = tmp_path / "figs.py"
    path.write_text(
        one(f'Run("swiglu", {{"tile": 64, "tile_inter": 64}}, config="published"{more})')
    )
    ((row,),) = reproduce([str(path)], tmp_path / "out").figures.values()
    assert row["counting"] == counting


GEMM = 'Run("gemm.py:gemm"'
WRONG = {
    "no figure": (HEAD, r"figs\.py: has no Figure; define one"),
    "two of one number": (
        one(f"{GEMM})") + 'B = Figure("1", lambda: [], draw)\n',
        r"figure 1 has the number of another one of figs\.py",
    ),
    "number": (one(f"{GEMM})").replace('"1"', '"a/b"'), "use letters, digits, - and _ only"),
    "no points": (HEAD + 'A = Figure("1", lambda: [], draw)', "has no points"),
    "not a point": (HEAD + 'A = Figure("1", lambda: [3], draw)', "expected points, found int"),
    "other figure": (
        HEAD + 'A = Figure("1", lambda: [Point("2", "a", "s", Run("gemm.py:gemm"))], draw)',
        "point a belongs to figure '2'",
    ),
    "one name twice": (
        HEAD + 'A = Figure("1", lambda: 2 * [Point("1", "a", "s", Run("gemm.py:gemm"))], draw)',
        "has two points a",
    ),
    "workload": (one('Run("gem")'), "point a: unknown workload 'gem'"),
    "file": (one('Run("no.py:gemm")'), r"point a: .*no\.py: cannot be read"),
    "parameter": (one(f'{GEMM}, {{"tiles": 3}})'), "did you mean 'tile'"),
    "value": (one(f'{GEMM}, {{"tile": "x"}})'), "point a: tile: expected a whole number"),
    "mutable value": (one(f'{GEMM}, {{"tile": {{}}}})'), "tile: expected a number, a text or"),
    "machine": (one(f'{GEMM}, machine="sda")'), "figure 1, point a: .*sda"),
    "change": (one(f'{GEMM}, changes={{"hbm.chanels": 3}})'), "point a: .*hbm.chanels"),
    "counting": (one(f'{GEMM}, counting="all")'), "counting: expected one of executed"),
    "config": (one(f'{GEMM}, config="best")'), "config: expected published, found 'best'"),
    "trace not taken": (one(f'{GEMM}, routing="x.npy")'), "routing: .* takes no such trace"),
    "trace not read": (
        one('Run("decoder", {"model": "mixtral-8x7b", "parts": "qkv"}, lengths="x.npy")'),
        "lengths: has no effect on qkv, only on attention",
    ),
    "batch not taken": (one(f"{GEMM}, batch=3)"), "batch: .* takes no trace"),
    "layer not taken": (one(f"{GEMM}, layer=3)"), "layer: chooses from a routing"),
    "trace missing": (one('Run("moe", {"model": "mixtral-8x7b"})'), "routing: missing"),
    "trace not there": (one('Run("moe", routing="x.npy")'), r"x\.npy: there is no such trace"),
    "column": (one(f"{GEMM})", ', columns=("cycle",)'), "has no column 'cycle'; did you mean"),
    "ratio": (
        one(f"{GEMM})", ', ratio=Ratio("t", None, "t / own")'),
        "no point of series 't' has the same model",
    ),
    "point of a headline": (
        one(f"{GEMM})", ', headlines=(ratio("1", "gain", lambda n: n.speedup("a", "aa")),)'),
        r"^figure 1, headline 'gain': no point is named 'aa'; did you mean 'a'\? Known are a$",
    ),
    "column of a headline": (
        one(f"{GEMM})", ', headlines=(ratio("1", "gain", lambda n: n.of("a", "cycle")),)'),
        r"headline 'gain': no column of a is named 'cycle'; did you mean 'cycles'\? .* m, ",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused(example: Path, name: str) -> None:
    text, message = WRONG[name]
    path = example.with_name("figs.py")
    path.write_text(text)
    with pytest.raises(StepSimError, match=message):
        reproduce([str(path)], example.parent / "out")


RAISES = {
    "when read": "1 / 0",
    "in points": HEAD + 'A = Figure("1", lambda: [1 / 0], draw)',
    "in draw": one(f"{GEMM})").replace("draw)", "lambda rows: 1 / 0)"),
    "in summary": one(f"{GEMM})", ", summary=lambda rows, published: 1 / 0"),
    "in remarks": one(f"{GEMM})", ", remarks=lambda rows: 1 / 0"),
    "in headlines": one(
        f"{GEMM})", ', headlines=(ratio("1", "speedup", lambda n: n.cycles("a") / 0),)'
    ),
}


AFTER_THE_RUNS = ("draw", "summary", "remarks", "headlines")


@pytest.mark.slow
@pytest.mark.parametrize("where", RAISES)
def test_a_file_that_raises(cli: Cli, example: Path, where: str) -> None:
    path = example.with_name("figs.py")
    path.write_text(RAISES[where])
    out = example.parent / "out"
    part = where.removeprefix("in ")
    place = "" if where == "when read" else f": figure 1, {part}: raised an exception"
    with pytest.raises(UserCodeError, match=rf"(?s)^.*figs\.py{place}.*ZeroDivisionError"):
        reproduce([str(path)], out)
    kept = {"fig01.csv", "fig01.parquet"} if part in AFTER_THE_RUNS else set()
    assert {file.name for file in out.glob("fig01.*")} >= kept
    if kept:
        assert pq.read_table(out / "fig01.parquet")["cycles"].to_pylist() > [0]
    outcome = cli("reproduce", path, "--out", out, "--jobs", 1)
    assert outcome.code == 1
    assert "Traceback" in outcome.err
    assert "ZeroDivisionError" in outcome.err


def test_files_and_the_paper(example: Path) -> None:
    own = example.with_name("own.py")
    own.write_text(one(f"{GEMM})").replace('"1"', '"9"'))
    with pytest.raises(StepSimError, match="figure 9 has the number of figure 9 of the paper"):
        choose_figures(["9", str(own)])
    (chosen,) = choose_figures([str(own)])
    own.write_text(own.read_text() + "#\n")
    with pytest.raises(StepSimError, match=r"own\.py: has changed since"):
        _ = chosen.figure
    with pytest.raises(StepSimError, match="--data and --fetch apply only to figures of the paper"):
        reproduce([str(example)], example.parent / "out", data=example.parent)
