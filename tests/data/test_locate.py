"""Names of data sets where a trace may stand."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from stepsim.data import choose, data_folder, datasets, locate, place
from stepsim.errors import ArgError, TraceError
from stepsim.kernels.build.cache_key import cache_directory
from stepsim.sweep.spec.reading import load_spec
from stepsim.sweep.spec.selection import kv_traces
from stepsim.trace_io import (
    detect_trace_format,
    import_trace,
    load_requests,
    read_kv_lengths,
    read_routing,
    routing_parts,
)
from tests.shared import TRACES, needs_traces


@pytest.fixture
def fetched(folder: Path) -> Path:
    """A data folder with every data set."""
    shutil.copytree(TRACES, folder / "traces")
    return folder


@needs_traces
def test_the_table_has_the_size_and_digest_of_every_recorded_trace() -> None:
    known = {d.file: (d.bytes, d.sha256) for d in datasets().values()}
    found = {
        path.relative_to(TRACES).as_posix(): (
            path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in TRACES.rglob("*.*")
        if path.name != "README.md" and not path.name.startswith(".")
    }  # fmt: skip
    assert known == found


def test_every_address_names_a_commit() -> None:
    expected = r"https://raw\.githubusercontent\.com/[\w-]+/\w+/[0-9a-f]{40}/[\w./-]+"
    for dataset in datasets().values():
        assert re.fullmatch(expected, dataset.address), dataset


def test_choice_of_data_sets() -> None:
    assert [d.name for d in choose(["step/qwen-b64", "azure", "step/qwen-b64"])] == [
        "step/qwen-b64", "azure/code", "azure/conv",
    ]  # fmt: skip
    assert choose(["all"]) == list(datasets().values())


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["step/qwen64"],
            "step/qwen64: is not the name of a data set; did you mean 'step/qwen-b64'?",
        ),
        (
            ["azure/0123456789"],
            "azure/0123456789: is not the name of a data set. All names are listed by",
        ),
        ([], "no data set is named; expected names of `stepsim data list`, a group (step, azure,"),
    ],
)
def test_choice_of_what_there_is_not(names: list[str], message: str) -> None:
    with pytest.raises(ArgError) as caught:
        choose(names)
    assert message in str(caught.value)


def test_the_data_folder_lies_beside_the_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("STEPSIM_DATA_DIR", raising=False)
    for cache in (None, str(tmp_path)):
        if cache is None:
            monkeypatch.delenv("STEPSIM_CACHE_DIR", raising=False)
        else:
            monkeypatch.setenv("STEPSIM_CACHE_DIR", cache)
        assert data_folder() == cache_directory().with_name("data")
    monkeypatch.setenv("STEPSIM_DATA_DIR", str(tmp_path / "own"))
    assert data_folder() == tmp_path / "own"


@pytest.mark.parametrize(
    "path", ["routing.npy", "some/routing.npy", "step", "/step/qwen-b64", "a/b/c"]
)
def test_other_texts_are_paths(folder: Path, path: str) -> None:
    assert locate(path) == Path(path)


def test_names_that_cannot_be_used(folder: Path) -> None:
    with pytest.raises(TraceError, match=r"step/qwen-b6: is not the name .* mean 'step/qwen-b64'"):
        read_routing("step/qwen-b6")
    expected = r"^step/b64-0733: is not fetched yet \(640 bytes\); run: stepsim data fetch step/b6"
    with pytest.raises(TraceError, match=expected):
        read_kv_lengths("step/b64-0733")
    assert not folder.exists()


def test_a_file_by_hand_is_checked(folder: Path) -> None:
    file = place(datasets()["step/b64-0733"])
    file.parent.mkdir(parents=True)
    np.save(file, np.arange(64))
    with pytest.raises(TraceError, match="is not the published file of step/b64-0733, its SHA-256"):
        read_kv_lengths("step/b64-0733")


def test_an_existing_path_wins(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "step").mkdir()
    (tmp_path / "step" / "b64-0733").write_text("7\n8\n")
    assert read_kv_lengths("step/b64-0733").tolist() == [7, 8]


@needs_traces
def test_names_stand_where_files_may(fetched: Path, tmp_path: Path) -> None:
    table = read_routing("step/qwen-b64", experts=128, k=8)
    assert table.tokens == 64
    assert table.identity() == read_routing(locate("step/qwen-b64")).identity()
    assert [part.tokens for part in routing_parts(Path("step/mixtral-b1024"))] == [1024]
    window, every = read_kv_lengths("step/b64-0733"), read_kv_lengths("azure/conv")
    assert window.tolist() == every[732:796].tolist()
    assert detect_trace_format(Path("mooncake/conversation")) == "mooncake"
    assert len(load_requests("mooncake/conversation")) == 12_031
    assert import_trace("azure/code", tmp_path / "code.parquet").rows == 8_819


@needs_traces
def test_names_of_every_window_are_right(fetched: Path) -> None:
    every = read_kv_lengths("azure/conv")
    for name in datasets():
        group, _, own = name.partition("/")
        if group == "step" and own.startswith("b"):
            requests, first = (int(part) for part in own[1:].split("-"))
            expected = every[first - 1 : first - 1 + requests]
            assert read_kv_lengths(name).tolist() == expected.tolist()


@needs_traces
def test_names_in_a_sweep(fetched: Path, tmp_path: Path) -> None:
    spec = tmp_path / "sweep.yaml"
    spec.write_text("workload: attention\ntraces:\n  files: [step/b64-0733, step/own.npy]\n")
    (tmp_path / "step").mkdir()
    np.save(tmp_path / "step" / "own.npy", np.arange(3))
    selection = load_spec(spec).traces
    assert selection is not None
    assert selection.files == ["step/b64-0733", str(tmp_path / "step" / "own.npy")]
    first, second = kv_traces(selection)
    assert (first.source, first.error, first.rows) == ("b64-0733", "", 64)
    assert (second.source, second.error, second.rows) == ("own.npy", "", 3)
