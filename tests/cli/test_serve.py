"""``stepsim serve``, and ``why`` and ``compare`` of the folders that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepsim.cli.exit_codes import BAD_INPUT
from stepsim.cli.main import main
from stepsim.serving import ServeResult

_QUEUE = (
    "--source", "fixed:count=60,prompt_tokens=10,output_tokens=3", "--num-blocks", "9",
    "--steps", "linear:1e6,1e3",
)  # fmt: skip


def _call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(one) for one in arguments])
    return int(ended.value.code or 0)


def test_options_and_yaml_are_one_declaration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "serve.yaml"
    spec.write_text(
        "source: {name: fixed, count: 60, prompt_tokens: 10, output_tokens: 3}\n"
        "num_blocks: 9\nsteps: linear:1e6,1e3\nrate: 100\nslo: {ttft: 5ms, tpot: 2ms}\n"
    )
    assert _call("serve", spec, "--json") == 0
    of_yaml = json.loads(capsys.readouterr().out)
    options = (*_QUEUE, "--rate", 100, "--slo", "ttft=5ms,tpot=2ms")
    assert _call("serve", *options, "--json") == 0
    assert json.loads(capsys.readouterr().out) == of_yaml
    assert _call("serve", spec, "--rate", 200, "--json") == 0
    assert json.loads(capsys.readouterr().out)["settings"]["rate"] == 200


def test_services_are_compared_with_services_without_options_of_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, run = tmp_path / "a", tmp_path / "run.parquet"
    folder.mkdir()
    for file in (folder / "service.json", run):
        file.touch()
    for files in ((folder, run), (run, folder)):
        assert _call("compare", *files) == 2
        assert f"{folder}: is the folder of a service, and the other" in capsys.readouterr().err
    assert _call("compare", folder, folder, "--rows", 1) == 2
    assert "--rows and --ensemble have no effect on services" in capsys.readouterr().err


@pytest.mark.slow
def test_folder_is_explained_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rate in (("a", 100), ("b", 300)):
        assert _call("serve", *_QUEUE, "--rate", rate, "--out", tmp_path / name) == 0
    result = ServeResult.read(tmp_path / "a")
    assert f"{result.metrics['e2el_p99_ms']:12,.2f}" in capsys.readouterr().out
    assert _call("why", tmp_path / "a") == 0
    text = capsys.readouterr().out
    assert "latency (E2EL) at the 99th percentile, request" in text
    assert "queueing" in text
    assert _call("why", tmp_path / "a", "--json", "--what-if", "rate x3") == 0
    found = json.loads(capsys.readouterr().out)
    assert _call("compare", tmp_path / "a", tmp_path / "b", "--json") == 0
    compared = json.loads(capsys.readouterr().out)
    assert found["what_if"] == [{"change": "rate x3", **compared}]
    assert compared["changed"] == {"settings.rate": [100, 300]}


def test_rate_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = (*_QUEUE, "--slo", "ttft=5ms,share=0.9", "--find", "rate", "--tolerance", 0.2)
    assert _call("serve", *options, "--json", "--out", tmp_path / "a") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rate"] < found["too_much"] <= 1.2 * found["rate"]
    assert ServeResult.read(tmp_path / "a").summary["settings"]["rate"] == found["rate"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rate", "0"), "--rate: expected a number above 0"),
        (("--slo", "ttft=1"), "--slo: ttft=1 has no unit"),
        (("--scheduler", "vlm"), "unknown scheduler 'vlm'; did you mean 'vllm'?"),
        (("--resume",), "--resume: has no effect without --out"),
        (("--tolerance", "0.1"), "--tolerance: has an effect with --find alone"),
        (("--find", "rate", "--plot", "x.png"), "--plot: has no effect with --find"),
        (("--num-blocks", "1"), "request 0"),
        (("--model", "qwen4"), "--model: unknown model"),
        (("--set", "hbm.channels=4"), "without a machine"),
        (
            ("--split", "prefill=0,decode=1,latency=1us,bandwidth=1GB/s"),
            "--split: prefill must be an int from 1",
        ),
        (("--tile", "16"), "--tile: has no effect with steps linear"),
        (("--watermark", "101%"), "--watermark: expected a number from 0 to 1, found 1.01"),
        (("--gpu-memory-utilization", "90%"), "--gpu-memory-utilization: has no effect with num"),
        (("--dp", "2"), "serve --dp: is not an option any more: replicas divide the requests"),
        (("--pp-micro-batches", "2"), "--pp-micro-batches: is not an option any more"),
    ],
)
def test_mistakes_are_named(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _call("serve", *_QUEUE, *options) == BAD_INPUT
    assert message in capsys.readouterr().err


def test_values_of_the_machine_are_in_overrides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "chat.yaml"
    spec.write_text("machine: sda-1024\nmachine.clock_ghz: 1\n")
    assert _call("serve", spec, *_QUEUE) == BAD_INPUT
    assert "as in overrides: {clock_ghz: ...}" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_pictures_are_written_by_both_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rate in (("a", 100), ("b", 300)):
        options = (*_QUEUE, "--rate", rate, "--out", tmp_path / name)
        files = ("--plot", tmp_path / f"{name}.svg", "--perfetto", tmp_path / f"{name}.pftrace")
        assert _call("serve", *options, *files) == 0
    folders, again = (tmp_path / "a", tmp_path / "b"), tmp_path / "again"
    again.mkdir()
    files = ("--plot", again / "a.svg", "--perfetto", again / "a.pftrace")
    assert _call("report", folders[0], "--out", again / "a.html", *files) == 0
    for name in ("a.svg", "a.pftrace"):
        assert (again / name).read_bytes() == (tmp_path / name).read_bytes()
    assert _call("report", *folders, "--out", again / "both.html", "--plot", again / "b.svg") == 0
    assert ">a</" in (again / "b.svg").read_text()
    assert "settings.rate" in (again / "both.html").read_text()
    assert f"wrote {again / 'both.html'}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        (("a", "b"), (), "b: is not the folder of a service"),
        (("a", "a"), (), "a: a service is given twice"),
        (("a", "c/a"), ("--perfetto", "x"), "--perfetto: shows one service; name one folder"),
        (("b",), ("--plot", "x.png"), "--plot: draws services, and"),
        (("a",), ("--plot", "x.gif"), "x.gif: the suffix is .gif"),
        (("a",), ("--plot", "x.svg", "--perfetto", "x.svg"), "is also the file of --plot"),
    ],
)
def test_mistakes_of_reports_are_named(
    sources: tuple[str, ...],
    options: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "c/a"):
        assert _call("serve", *_QUEUE, "--arrivals", "at-once", "--out", folder) == 0
    Path("b").mkdir()
    assert _call("report", *sources, *options, "--out", "x.html") in (2, 4)
    assert message in capsys.readouterr().err
    assert not Path("x.html").exists()
