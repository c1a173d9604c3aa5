"""``stepsim trace import, info, plot, select, replay``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from stepsim.trace_io import ImportProgress, load_requests, read_requests, read_routing
from tests.cli.conftest import Cli
from tests.cli.published import KV, needs_traces
from tests.samples import sampled
from tests.trace_io import foreign

A = foreign.routing(6)

MISNAMED = ("conv_stdev0484_4185_4248", "conv_stdev0986_3989_4068", "conv_stdev1370_1727_1790")
"""Published windows whose names have another deviation than their lengths."""


def requests_file(folder: Path) -> Path:
    path = folder / "x.csv"
    rows = [f"2024-01-01 00:00:{i:02d},{100 * (i % 4) + i},{i % 3 + 1}" for i in range(20)]
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows, ""]))
    return path


def test_import_of_routing(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", A)
    out = tmp_path / "out.parquet"
    outcome = cli("trace", "import", tmp_path / "x.npy", out, "--experts", 16)
    assert outcome.code == 0
    assert outcome.out.splitlines()[0].split() == (
        ["layer", "tokens", "experts", "idle", "max", "load", "mean", "max/mean", "cv"]
    )
    assert len(outcome.out.splitlines()) == 4
    assert outcome.err == (
        f"wrote {out}: 18 rows (tokens of all layers and steps) from the format numpy\n"
    )
    assert read_routing(out, layer=2).experts.tolist() == A[:, 2].tolist()


def test_import_prints_json_and_notes(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(foreign.llamacpp_text([A, A[:1]]))
    outcome = cli("trace", "import", tmp_path / "x.csv", tmp_path / "o", "--json")
    record = outcome.json()
    assert (record["format"], record["rows"]) == ("llamacpp", 21)
    assert record["routing"]["k"] == 4
    assert record["notes"] == ["k = 4, from the lengths of the runs of a layer; --k overrides it"]
    assert outcome.err == record["notes"][0] + "\n"


def test_import_tells_the_number_of_steps(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(foreign.llamacpp_text([A, A[:1]]))
    outcome = cli("trace", "import", tmp_path / "x.csv", tmp_path / "o")
    assert outcome.err.splitlines()[-1] == (
        f"wrote {tmp_path / 'o'}: 21 rows (tokens of all layers and 2 steps) from the format "
        "llamacpp"
    )


def test_columns_without_names_are_remarked(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("100,20\n300,40\n")
    remark = (
        "the file has no header, so its two columns are read as layer,expert; --format llamacpp "
        "confirms this\n"
    )
    arguments = ("trace", "import", tmp_path / "x.csv", tmp_path / "o")
    assert remark in cli(*arguments).err
    assert remark in cli("trace", "info", tmp_path / "x.csv").err
    assert remark not in cli(*arguments, "--format", "llamacpp").err
    (tmp_path / "x.csv").write_text("layer,expert\n100,20\n300,40\n")
    assert remark not in cli(*arguments).err


def test_import_of_requests_with_a_named_format(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "o.parquet"
    outcome = cli("trace", "import", requests_file(tmp_path), out, "-F", "azure", "--json")
    assert outcome.json() == {"file": str(out), "format": "azure", "rows": 20, "notes": []}
    assert read_requests(out).requests == 20


def test_the_model_gives_the_shape(cli: Cli, tmp_path: Path) -> None:
    order = np.argsort(np.random.default_rng(0).random((6, 2, 128)), axis=2)[:, :, :8]
    path = foreign.lines(tmp_path / "x.jsonl", [foreign.sglang_generate(order)])
    out = tmp_path / "o"
    outcome = cli("trace", "import", path, out, "--model", "qwen3-30b-a3b", "--json")
    assert outcome.json()["routing"]["experts"] == 128
    assert read_routing(out, layer=1).model == "qwen3-30b-a3b"


def test_import_of_some_ranks(cli: Cli, tmp_path: Path) -> None:
    for rank in range(3):
        foreign.lines(
            tmp_path / f"router_trace_rank{rank}.jsonl",
            [foreign.megatron_record(A[rank:, 0], 0, 0, rank)],
        )
    ranks = ("--rank", 2, "--rank", 0)
    record = cli("trace", "import", tmp_path, tmp_path / "o", *ranks, "--json").json()
    assert (record["format"], record["rows"]) == ("megatron", 10)


def test_import_mistakes_leave_nothing(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", A)
    for arguments, says in (
        (("-F", "csv"), "format 'csv' is not known, expected one of azure, lengths"),
        (("--experts", 3), "4 experts per token, but the model has only 3 experts"),
        (("--model", "mixtral-8x7b", "--k", 3), "--k 3: model mixtral-8x7b has 2; leave one"),
    ):
        outcome = cli("trace", "import", tmp_path / "x.npy", tmp_path / "o", *arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert says in outcome.err
    outcome = cli("trace", "import", tmp_path / "x.npy", tmp_path / "no" / "o")
    assert (outcome.code, "does not exist; make it first" in outcome.err) == (2, True)
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]


def test_progress_without_a_terminal(capsys, monkeypatch) -> None:
    from stepsim.cli.traces import importing as trace_import

    times = iter([0.0, 1.0, 2.5, 3.0, 8.0])
    monkeypatch.setattr(trace_import.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(trace_import, "_LOG_SECONDS", 0.0)
    monkeypatch.setattr(trace_import.sys.stderr, "isatty", lambda: False, raising=False)
    with trace_import.progress("importing") as report:
        report(ImportProgress(1, 4, 10))
        report(ImportProgress(2, 4, 20))
    assert capsys.readouterr().err == "importing: 50 %, 20 rows\n"


# --- info and plot


def test_info_draws_the_load(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[0, 1], [0, 2], [0, 1], [0, 1]]))
    lines = cli("trace", "info", tmp_path / "x.npy", "--experts", 4).out.splitlines()
    assert lines[3:] == [
        "1 layers, 1 steps, 4 tokens, 4 experts, 2 per token",
        "imbalance (max/mean load) 2.00, at most 2.00 in layer 0; coefficient of variation 0.79; "
        "1 of 4 experts idle",
        "load of each expert of layer 0, 0 to 4 tokens, · is idle:",
        "      █",
        "      ██",
        "      ██",
        "    0 ███·",
    ]


def test_info_of_a_foreign_trace(cli: Cli, tmp_path: Path) -> None:
    path = foreign.lines(tmp_path / "x.jsonl", [foreign.vllm_response(A, A[:2])])
    found = cli("trace", "info", path, "--experts", 16, "--json").json()
    assert (found["format"], found["tables"]) == ("vllm", [])
    assert [layer["tokens"] for layer in found["summary"]["per_layer"]] == [8, 8, 8]
    assert found["summary"]["idle"] == sum(
        load == 0 for layer in found["summary"]["per_layer"] for load in layer["loads"]
    )
    lines = cli("trace", "info", path, "--experts", 16, "--layer", 1).out.splitlines()
    assert lines[1].split()[:3] == ["1", "8", "16"]


def test_info_of_requests(cli: Cli, tmp_path: Path) -> None:
    path = requests_file(tmp_path)
    assert cli("trace", "info", path).out.splitlines() == [
        "20 requests in 19.0 s, 1.05 per second",
        "context tokens: 0 to 319, mean 159.50, standard deviation 116.00, sum 3190",
        "generated tokens: 1 to 3, mean 1.95, standard deviation 0.83, sum 39",
    ]
    record = cli("trace", "info", path, "--json").json()
    assert (record["format"], record["requests"], record["seconds"]) == ("azure", 20, 19)
    np.save(tmp_path / "l.npy", [7])
    assert cli("trace", "info", tmp_path / "l.npy").out.splitlines() == [
        "1 requests",
        "context tokens: 7 to 7, mean 7.00, standard deviation -, sum 7",
        "generated tokens: not recorded",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", sampled([".png", ".svg"], ".svg"))
def test_plot(cli: Cli, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    np.save(tmp_path / "x.npy", A)
    magic = b"\x89PNG" if suffix == ".png" else b"<?xml"
    for name, arguments in (
        ("all", (tmp_path / "x.npy",)),
        ("one", (tmp_path / "x.npy", "--layer", 1)),
        ("requests", (requests_file(tmp_path),)),
    ):
        out = tmp_path / f"{name}{suffix}"
        outcome = cli("trace", "plot", *arguments, "--out", out)
        assert (outcome.code, outcome.err) == (0, f"wrote {out}\n")
        first = out.read_bytes()
        assert first.startswith(magic)
        cli("trace", "plot", *arguments, "--out", out)
        assert out.read_bytes() == first
    outcome = cli("trace", "plot", tmp_path / "x.npy", "--out", tmp_path / "x.gif")
    assert outcome.code == 2
    assert "the suffix is .gif, expected .png, .svg or .pdf" in outcome.err


# --- select and replay


def test_select(cli: Cli, tmp_path: Path) -> None:
    path, folder = requests_file(tmp_path), tmp_path / "windows"
    arguments = ("--size", 4, "--count", 2, "--share", 0.5, "--prefix", "x", "--out", folder)
    outcome = cli("trace", "select", path, "--by", "stdev", *arguments, "--json")
    windows = outcome.json()["windows"]
    assert outcome.err == f"wrote {len(windows)} files to {folder}\n"
    assert [window["class"] for window in windows].count("low") == 2
    for window in windows:
        lengths = np.load(folder / f"{window['name']}.npy")
        assert lengths.tolist() == window["lengths"]
        assert window["stdev"] == pytest.approx(lengths.std(ddof=1))
        assert window["last"] - window["first"] == 3
        assert window["first"] % 2 == 1
    table = cli("trace", "select", path, "--size", 4, "--count", 1).out.splitlines()
    assert [line.split()[0] for line in table] == ["class", "low", "med", "high"]
    outcome = cli("trace", "select", path, "--size", 40)
    assert (outcome.code, "expected at least 2 and at most 20" in outcome.err) == (
        2,
        True,
    )


def test_select_by_first_request_and_by_deviation(cli: Cli, tmp_path: Path) -> None:
    path, folder = requests_file(tmp_path), tmp_path / "windows"
    options = ("--size", 4, "--out", folder, "--json")
    found = cli("trace", "select", path, "--at", 17, "--at", 2, *options).json()["windows"]
    assert [(w["class"], w["first"], w["last"]) for w in found] == [("at", 17, 20), ("at", 2, 5)]
    lengths = load_requests(path).context_tokens
    assert [w["lengths"] for w in found] == [lengths[16:].tolist(), lengths[1:5].tolist()]
    names = sorted(f"{w['name']}.npy" for w in found)
    assert sorted(file.name for file in folder.iterdir()) == names

    every = [lengths[i : i + 4].std(ddof=1) for i in range(0, 17, 2)]
    near = ("--near", every[3], "--near", 1, "--count", 1)
    found = cli("trace", "select", path, *near, "--at", 1, *options).json()["windows"]
    assert [w["class"] for w in found] == ["at", "near", "near"]
    assert found[1]["stdev"] == pytest.approx(every[3])
    assert found[2]["stdev"] == pytest.approx(min(every))
    found = cli("trace", "select", path, "--near", 1, "--count", 9, *options).json()["windows"]
    assert len({request for w in found for request in range(w["first"], w["last"] + 1)}) == (
        4 * len(found)
    )

    for wrong, says in (
        (("--at", 1, "--share", 0.5), "--share: has no effect, since --at and --near select no"),
        (("--near", 1, "--by", "stdev"), "--by: has no effect, since --at and --near select no"),
        (("--at", 1, "--count", 2), "--count: has no effect, since --at selects one window"),
        (("--at", 1, "--stride", 3), "--stride: has no effect, since --at selects one window"),
        (("--at", 1, "--requests", 3), "--requests: has no effect, since --at selects one window"),
        (("--at", 18), "begins at 18, expected 1..17, since the trace has 20 requests"),
        (
            ("--near", 1, "--requests", 3),
            "windows: size is 4, expected at least 2 and at most 3, the number of requests in use",
        ),
        (("--near", "nan"), "the requested deviation is nan, expected a number from 0"),
        (("--near", 1, "--requests", -3), "--requests -3: expected at least 1, or 0 for all"),
    ):
        outcome = cli("trace", "select", path, *wrong, *options)
        assert (outcome.code, says in outcome.err) == (2, True)


@needs_traces
def test_published_windows_are_written_under_their_names(cli: Cli, tmp_path: Path) -> None:
    trace = KV.parent / "AzureLLMInferenceTrace_conv.csv"
    for size in (16, 64, 80):
        published = sorted((KV / f"b{size}").glob("*.npy"))
        firsts = [int(path.stem.split("_")[2]) for path in published]
        at = [part for first in firsts for part in ("--at", first)]
        folder = tmp_path / str(size)
        found = cli("trace", "select", trace, "--size", size, *at, "--out", folder, "--json").json()
        for path, window in zip(published, found["windows"], strict=True):
            written = folder / f"{window['name']}.npy"
            assert (np.load(written) == np.load(path)).all()
            assert (window["name"] == path.stem) == (path.stem not in MISNAMED)


@pytest.mark.parametrize("prefix", ["../x", "/x", "a/b", "a\\b"])
def test_windows_stay_in_their_folder(cli: Cli, tmp_path: Path, prefix: str) -> None:
    path = requests_file(tmp_path)
    arguments = ("--size", 4, "--prefix", prefix, "--out", tmp_path / "d" / "e")
    outcome = cli("trace", "select", path, *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"error: --prefix: expected the beginning of a name, found '{prefix}' with a folder in it; "
        "name the folder with --out\n"
    )
    assert list(tmp_path.iterdir()) == [path]


def test_replay(cli: Cli, tmp_path: Path) -> None:
    path, out = requests_file(tmp_path), tmp_path / "steps.parquet"
    record = cli("trace", "replay", path, "--batch", 4, "--out", out, "--json").json()
    steps = pq.read_table(out).to_pylist()
    assert record["tokens"] == sum(len(step["kv_lengths"]) for step in steps) == 39
    assert record["steps"] == len(steps)
    assert record["most_kv_tokens"] == max(sum(step["kv_lengths"]) for step in steps)
    every = cli("trace", "replay", path, "--batch", 4, "--every", 3, "--out", out, "--json")
    assert every.json() == record
    assert [step["step"] for step in pq.read_table(out).to_pylist()] == [
        step["step"] for step in steps if step["step"] % 3 == 0
    ]
    timed = cli("trace", "replay", path, "--batch", 4, "--step-seconds", 0.1, "--requests", 5)
    assert timed.out == (
        "9 steps for 5 requests, 1.00 requests and 125 KV tokens per step, at most 303\n"
    )
    assert cli("trace", "replay", path, "--batch", 0).code == 2
    negative = cli("trace", "replay", path, "--batch", 1, "--requests", -1)
    assert negative.code == 2
    assert "--requests -1: expected at least 1, or 0 for all" in negative.err
    assert cli("trace", "replay", path, "--batch", 1, "--every", 0).code == 2
    unread = cli("trace", "replay", path, "--batch", 1, "--every", 3)
    assert (unread.code, unread.out) == (2, "")
    assert "--every: has no effect, since it chooses the steps that --out writes" in unread.err
