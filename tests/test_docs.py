"""The examples of the documentation run, and do what the text says."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

import stepsim as st
from stepsim.cli.main import main
from stepsim.data import datasets
from stepsim.errors import ArgError
from stepsim.reproduce import FIGURES
from stepsim.results.columns import declaration_of
from stepsim.sweep import open_table
from tests.data.server import serve
from tests.pages import DOCS, Session, blocks, module_of_docs
from tests.promises.files import VERSIONS
from tests.shared import TRACES, needs_traces
from tests.trace_io.foreign import megatron_record


@pytest.fixture(autouse=True)
def _folder_of_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples write files where they run."""
    monkeypatch.chdir(tmp_path)


def run_examples(page: str) -> dict[str, Any]:
    """Run the Python blocks of a page one after the other; returns their names."""
    session = Session(page)
    found = [block for block in blocks(page) if block.kind == "python"]
    assert found
    for block in found:
        sys.stdout.write(session.run(block))
    return session.names


def test_graphs_page(capsys: pytest.CaptureFixture[str]) -> None:
    from stepsim.graph.graph_file.numbers import numbers_of
    from stepsim.graph.graph_file.rows import ROWS

    names = run_examples("graphs.md")
    text = " ".join(capsys.readouterr().out.split())
    assert "func of UnaryMap: found number 9, which is not in the table" in text
    assert len(names["again"].operators) == len(names["program"].operators)
    page = (DOCS / "graphs.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\w+)[^|]*\| (\d+) \|", page, flags=re.MULTILINE)
    assert {name: int(number) for name, number in listed} == {
        name: numbers_of("B")["operators"][name] for name in ROWS
    }


@pytest.mark.slow
def test_python_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_examples("python.md")
    assert names["result"].status == "ok"
    assert names["busiest"].num_rows == 5
    assert pq.read_table("runs.parquet")["machine"].unique().to_pylist() == [
        "sda-1024", "sda-1024-16ch",
    ]  # fmt: skip
    assert names["waits"].num_rows == len(names["tables"])
    assert "dynamic': ok" in capsys.readouterr().out


@pytest.mark.slow
def test_commands_of_the_traces_page_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (DOCS / "traces.md").read_text(encoding="utf-8")
    commands = "".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)).splitlines()
    assert len(commands) >= 9
    monkeypatch.chdir(tmp_path)
    _megatron_folder(tmp_path / "router_traces")
    _azure_trace(tmp_path / "AzureLLMInferenceTrace_conv.csv")
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "stepsim"
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert not ended.value.code, (command, capsys.readouterr().err)
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {
        "router_traces",
        "AzureLLMInferenceTrace_conv.csv",
        "routing.parquet",
        "recorded.parquet",
        "windows",
    }


def _megatron_folder(folder: Path) -> None:
    """Two ranks, each with six layers and two steps of 100 tokens of Qwen3-30B-A3B."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    for rank in range(2):
        lines = []
        for step, layer in product(range(2), range(6)):
            ids = generator.random((100, 128)).argsort(axis=1)[:, :8]
            lines.append(json.dumps(megatron_record(ids, step, layer, rank)))
        (folder / f"router_trace_rank{rank}.jsonl").write_text("\n".join(lines))


def _azure_trace(path: Path, requests: int = 5000, generated: int = 10) -> None:
    lengths = np.random.default_rng(0).integers(0, 4000, requests)
    rows = (f"2023-11-16 18:15:46,{length},{generated}" for length in lengths)
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))


@needs_traces
def test_data_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPSIM_DATA_DIR", str(tmp_path / "data"))
    text = (DOCS / "data.md").read_text(encoding="utf-8")
    commands, _, figures = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    with serve(TRACES) as server:
        monkeypatch.setenv("STEPSIM_DATA_MIRROR", server.address)
        # One figure stands for all of them.
        for command in [*commands.splitlines(), figures.replace("all", "15")]:
            with pytest.raises(SystemExit) as ended:
                main(shlex.split(command)[1:])
            assert not ended.value.code, (command, capsys.readouterr().err)
        assert run_examples("data.md")["table"].tokens == 64
    groups = re.findall(r"^\| `(\w+)` \|.*\| (.+) \|$", text, flags=re.MULTILINE)
    assert groups == list({d.name.split("/")[0]: d.license for d in datasets().values()}.items())


def test_data_page_has_the_size_of_all() -> None:
    size = sum(one.bytes for one in datasets().values())
    assert f"or `all` ({size / 1e6:.0f} MB)" in (DOCS / "data.md").read_text(encoding="utf-8")


def test_figure_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DOCS / "extending-figure.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[0], names)
    figure = names["HEIGHTS"]
    monkeypatch.setitem(FIGURES, figure.number, figure)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "22", "--out", str(tmp_path), "--jobs", "1"])
    assert not ended.value.code
    files = {f"fig22.{kind}" for kind in ("csv", "parquet", "png", "svg")}
    assert files < {path.name for path in tmp_path.iterdir()}
    rows = pq.read_table(tmp_path / "fig22.parquet").to_pylist()
    assert [row["tile"] for row in rows] == ["8", "16", "32", "64"]
    headlines = pq.read_table(tmp_path / "headlines.parquet").to_pylist()
    (found,) = [row for row in headlines if row["figure"] == "22"]
    assert found["ours"] == [rows[0]["cycles"] / rows[3]["cycles"]]
    assert found["ours"][0] > 1


@pytest.mark.long
def test_workloads_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new user's workload is written, run, inspected and swept as the page says."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "workloads.md").read_text(encoding="utf-8")
    gemm, layer, declared, traced = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    specification, day = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "gemm.py").write_text(gemm)
    (tmp_path / "tiles.yaml").write_text(specification)
    (tmp_path / "day.yaml").write_text(day)
    _azure_trace(tmp_path / "AzureLLMInferenceTrace_conv.csv", requests=5, generated=60)
    (tmp_path / "layer.py").write_text(layer)
    commands = "".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)).splitlines()
    assert len(commands) == 10
    (stuck,) = (command for command in commands if command.endswith("--regions 8"))
    for command in [*commands, "stepsim run layer.py:layer --help"]:
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(command)[1:])
        out, err = capsys.readouterr()
        assert ended.value.code == (1 if command is stuck else 0), (command, err)
        if command is stuck:
            assert "run failed, deadlock" in err
    assert all(option in out for option in ("--routing", "--tile", "--fifo-depth", "Rows per tile"))
    runs = open_table("tiles").to_table(columns=["m", "tile", "status"]).to_pylist()
    assert len(runs) == 12
    assert {(run["m"], run["status"]) for run in runs} == {(2048, "ok")}
    assert (tmp_path / "tiles.png").exists()

    # A dataclass needs a module to read its annotations in.
    (tmp_path / "gemm_class.py").write_text(declared + traced)
    monkeypatch.syspath_prepend(tmp_path)
    page: Any = importlib.import_module("gemm_class")
    assert page.row["cycles"] == page.result.cycles
    assert page.done.status == "ok"
    assert page.Gemm(m=2048, tile=32).build(st.workloads.Data()).program.name == "gemm"
    with pytest.raises(ArgError, match="tile: expected a divisor of m = 2048, found 33"):
        page.Gemm(m=2048, tile=33).build(st.workloads.Data())


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("recipes/*.md")))
def test_recipes(page: str) -> None:
    listed = (DOCS / "recipes" / "index.md").read_text(encoding="utf-8")
    if page == "index.md":
        return
    assert page.removesuffix(".md") in listed.split()
    assert "assert_allclose" in (DOCS / "recipes" / page).read_text(encoding="utf-8")
    run_examples(f"recipes/{page}")


def test_a_task_goes_to_whoever_is_free() -> None:
    cycles = run_examples("recipes/feedback.md")["cycles"]
    assert cycles["dynamic"] < 0.7 * cycles["in_turn"]


def test_arguments_page(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_examples("arguments.md")
    text = (DOCS / "arguments.md").read_text(encoding="utf-8")
    assert f"# {names['direct']} and {names['through_memory']}:" in text
    assert f"# {names['one']} and {names['sixteen']}" in text


def test_values_page() -> None:
    assert run_examples("values.md")["values"].stored["y"].shape == (64, 512)


def test_listings_page(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_examples("listings.md")
    runs = [names[name] for name in ("result", "dynamic", "shared")]
    assert [run.status for run in runs] == ["ok"] * 3
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "Stream[10, 1] of Tile[1x256 f32] <- reassemble#25"


def test_dram_page() -> None:
    assert len(run_examples("dram.md")["rates"]) == 2


def test_noc_page() -> None:
    assert len(run_examples("noc.md")["alltoall"].arrival) == 256


@pytest.mark.slow
def test_placement_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_examples("placement.md")["by_hand"].place_of("silu#2") == (1, 3)
    assert (tmp_path / "model.py").exists()
    assert "bytes x hops 65,536 (131,072)" in capsys.readouterr().out


def test_chips_page(capsys: pytest.CaptureFixture[str]) -> None:
    waited = run_examples("noc-chips.md")["waited"]
    assert sum(waited.to_pylist()) > 0
    assert capsys.readouterr().out.startswith("117780\n")


@pytest.mark.slow
def test_addresses_page() -> None:
    names = run_examples("addresses.md")
    together, apart, as_rows = names["together"], names["apart"], names["as_rows"]
    assert len({together.cycles, apart.cycles, as_rows.cycles}) > 1


def test_public_machines_page(capsys: pytest.CaptureFixture[str]) -> None:
    run_examples("public-machines.md")
    assert capsys.readouterr().out.endswith("hold.\nClock.\n")
    page = module_of_docs("public_machines")
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.drawn(text) == text, "run python docs/public_machines.py"


def test_limits_page() -> None:
    page = module_of_docs("limits")
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.drawn(text) == text, "run python docs/limits.py"
    assert page.table().count("\n") == 27


def test_stability_page_has_the_versions_of_files() -> None:
    text = (DOCS / "stability.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([\w ]+) \|$", text, re.MULTILINE)
    versions = {name: version for name, version in VERSIONS.items() if name != "simulated times"}
    assert dict(rows[2:]) == versions  # below the header of the table before, and its own


@pytest.mark.parametrize(("page", "section"), [("dram.md", "hbm"), ("noc-chips.md", "chips")])
def test_a_section_on_a_page_is_one_of_a_machine(page: str, section: str, tmp_path: Path) -> None:
    (block,) = [block for block in blocks(page) if block.kind == "yaml"]
    given = yaml.safe_load(block.body)
    machine = yaml.safe_load(st.machine.annotated_yaml(st.load_machine("sda-1024")))
    (tmp_path / "machine.yaml").write_text(yaml.safe_dump(machine | {"clock_ghz": 1} | given))
    found = getattr(st.load_machine(tmp_path / "machine.yaml"), section)
    assert all(
        getattr(found, key) == value for key, value in given[section].items() if key != "dram"
    )


def test_the_glossary_has_the_units_of_the_columns() -> None:
    text = (DOCS / "metrics.md").read_text(encoding="utf-8")
    units = dict(re.findall(r"^\| `(\w+)` \| ([^|]*?) ?\|", text, re.MULTILINE))
    assert len(units) > 20
    assert units == {name: declaration_of(name)[1] for name in units}


def test_machines_page() -> None:
    assert run_examples("machines.md")["machine"].peak_bandwidth == 512
