"""Files as options with parts behind their names, where names have commas and ``key=`` as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepsim.cli.parts import file_and_parts
from stepsim.errors import ArgError
from tests.cli.conftest import Cli

KNOWN = {"layer": int, "step": int}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "text", "name", "parts"),
    [
        (["trace,layer=3.npz"], "trace,layer=3.npz", "trace,layer=3.npz", {}),
        (["trace,layer=3.npz"], "trace,layer=3.npz,layer=5,step=1", "trace,layer=3.npz",
         {"layer": [5], "step": [1]}),
        (["layer=3,step=1"], "layer=3,step=1", "layer=3,step=1", {}),
        (["t,layer=3,step=1"], "t,layer=3,step=1", "t,layer=3,step=1", {}),
        (["t,layer=3"], "t,layer=3,step=1", "t,layer=3", {"step": [1]}),
        (["t"], "t,layer=3,step=1", "t", {"layer": [3], "step": [1]}),
        ([], "t,layer=3", "t", {"layer": [3]}),
        ([], "a,b=1,c,npz", "a,b=1,c,npz", {}),
        (["trace", "trace,layer=3.npz", "other"], "other,layer=1", "other", {"layer": [1]}),
    ],
)  # fmt: skip
def test_files_that_exist_are_meant(
    files: list[str], text: str, name: str, parts: dict[str, list[int]]
) -> None:
    for file in files:
        Path(file).touch()
    assert file_and_parts("--routing", text, KNOWN) == (Path(name), parts)


@pytest.mark.parametrize(
    ("files", "text", "readings"),
    [
        (["t.npz", "t.npz,layer=3"], "t.npz,layer=3", "'t.npz,layer=3' or 't.npz' with layer=3"),
        (["t", "t,layer=3"], "t,layer=3,step=1",
         "'t,layer=3' with step=1 or 't' with layer=3, step=1"),
    ],
)  # fmt: skip
def test_several_files_for_one_text_are_named(files: list[str], text: str, readings: str) -> None:
    for file in files:
        Path(file).touch()
    with pytest.raises(ArgError) as caught:
        file_and_parts("--routing", text, KNOWN)
    assert str(caught.value) == (
        f"--routing: '{text}' may be {readings}, and these files exist; rename one of them"
    )


def test_texts_that_are_longer_than_names_of_files_have_parts() -> None:
    Path("t").touch()
    text = ",".join(["t", *["layer=3"] * 100])
    assert file_and_parts("--routing", text, KNOWN) == (Path("t"), {"layer": [3] * 100})


def test_a_run_on_a_trace_whose_name_has_a_part(run: Cli, trace: Path) -> None:
    Path("trace,layer=3.npy").write_bytes(trace.read_bytes())
    found = run("--json", routing="trace,layer=3.npy")
    assert found.has()["cycles"] == run("--json").json()["cycles"]
    Path("trace").touch()
    refused = run(routing="trace,layer=3.npy")
    assert "may be 'trace,layer=3.npy' or 'trace' with layer=3.npy, and these" in refused.err
    Path("trace,layer=3.npy").rename("other.npy")
    refused = run(routing="trace,layer=3.npy")
    assert "--routing: layer: expected a whole number, found '3.npy'" in refused.err
