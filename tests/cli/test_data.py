"""``stepsim data``, and data sets in other commands."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepsim.data import datasets
from tests.cli.conftest import Cli
from tests.cli.published import canonical_cycles
from tests.data.server import Server, serve
from tests.shared import TRACES, needs_traces


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder, which does not exist yet."""
    monkeypatch.setenv("STEPSIM_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def mirror(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of all recorded traces."""
    with serve(TRACES) as server:
        monkeypatch.setenv("STEPSIM_DATA_MIRROR", server.address + "/")
        yield server


def test_list(cli: Cli, folder: Path) -> None:
    outcome = cli("data", "list")
    assert outcome.code == 0
    for dataset in datasets().values():
        assert f"{dataset.name} " in outcome.out
    assert "license: CC-BY-4.0" in outcome.out
    assert f"data folder: {folder}" in outcome.out
    assert "yes" not in outcome.out
    listed = cli("data", "list", "azure", "--json").json()
    assert listed["folder"] == str(folder)
    assert [d["name"] for d in listed["datasets"]] == ["azure/code", "azure/conv"]
    conv = listed["datasets"][1]
    assert (conv["bytes"], conv["fetched"]) == (719_188, False)
    assert conv["path"] == str(folder / "traces" / "AzureLLMInferenceTrace_conv.csv")


@needs_traces
def test_fetch_and_path(cli: Cli, mirror: Server, folder: Path) -> None:
    outcome = cli("data", "fetch", "step/qwen-b64", "azure/code")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.splitlines() == [
        "fetched step/qwen-b64 (943 bytes)",
        "fetched azure/code (320,117 bytes)",
        f"2 data sets are in {folder}",
    ]
    assert cli("data", "fetch", "azure/code").err == f"1 data set is in {folder}\n"
    assert len(mirror.asked) == 2
    outcome = cli("data", "path", "step/qwen-b64")
    assert outcome.out == f"{folder}/traces/expert_routing/qwen_b64/032_012.npz\n"
    assert "yes" in cli("data", "list", "step/qwen-b64").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch"], "error: no data set is named; expected names of `stepsim data list`"),
        (["fetch", "step/qwen"], "did you mean 'step/qwen-b64'?"),
        (["path", "step/qwen-b64"], "not fetched yet (943 bytes); run: stepsim data fetch step/q"),
        (["list", "nothing"], "error: nothing: is not the name of a data set. All names are"),
    ],
)
def test_bad_input(cli: Cli, folder: Path, arguments: list[str], message: str) -> None:
    outcome = cli("data", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert not folder.exists()


@needs_traces
def test_names_in_runs(cli: Cli, folder: Path) -> None:
    run = ("run", "moe", "--model", "qwen3-30b-a3b", "--routing", "step/qwen-b64", "--tile", 16)
    outcome = cli(*run, "--config", "published", "--json")
    assert outcome.code == 2
    assert "error: step/qwen-b64: is not fetched yet" in outcome.err
    shutil.copytree(TRACES, folder / "traces")
    outcome = cli(*run, "--config", "published", "--json")
    assert outcome.json()["cycles"] == canonical_cycles("f9_qwen_16")
    outcome = cli("trace", "info", "azure/conv", "--json")
    assert outcome.json()["format"] == "azure"
    outcome = cli("trace", "info", "step/mixtral-b64", "--json")
    assert outcome.json()["tables"][0]["tokens"] == 64


@needs_traces
def test_a_figure_on_fetched_traces(cli: Cli, mirror: Server, tmp_path: Path) -> None:
    outcome = cli("reproduce", "15", "--fetch", "--out", tmp_path / "out", "--jobs", 1)
    assert outcome.code == 0, outcome.err
    assert [path for path, _ in mirror.asked] == ["azure_trace/b64/conv_stdev0996_4007_4070.npy"]
    lines = [line.split() for line in outcome.out.splitlines() if line.startswith("f15_b")]
    assert len(lines) == 8
    assert sum("equal" in line for line in lines) == 4, outcome.out
    # Nothing is asked for again.
    assert cli("reproduce", "15", "--fetch", "--out", tmp_path / "out", "--jobs", 1).code == 0
    assert len(mirror.asked) == 1


def test_a_figure_without_a_network(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPSIM_DATA_MIRROR", "http://127.0.0.1:9")
    outcome = cli("reproduce", "15", "--fetch", "--out", tmp_path / "out")
    assert (outcome.code, outcome.out) == (2, "")
    dataset = datasets()["step/b64-4007"]
    for part in ("cannot be reached", dataset.address, dataset.sha256, str(folder / "traces")):
        assert part in outcome.err
    assert not (tmp_path / "out").exists()
