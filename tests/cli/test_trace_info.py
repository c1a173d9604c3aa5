"""``stepsim trace info``: what is counted, of how many experts, and what is not there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.trace_io import RoutingTable, read_origin, synthetic_routing, write_routing
from tests.cli.conftest import Cli
from tests.trace_io import foreign

GUESSED = "number of experts not given, using the highest id + 1; give --model or --experts\n"


def uneven(path: Path) -> Path:
    """Layer 0 has ids up to 15, layer 1 up to 5."""
    ids = np.stack([np.arange(16).reshape(4, 4), np.tile([0, 1, 2, 5], (4, 1))], axis=1)
    np.save(path, ids)
    return path


def test_all_layers_have_the_experts_of_the_whole_trace(cli: Cli, tmp_path: Path) -> None:
    outcome = cli("trace", "info", uneven(tmp_path / "x.npy"))
    assert outcome.err == GUESSED
    rows = [line.split() for line in outcome.out.splitlines()[1:3]]
    assert [row[5] for row in rows] == ["16", "16"]
    assert rows[1][-1] == "4.00"
    record = cli("trace", "info", tmp_path / "x.npy", "--json").json()
    for table, layer in zip(record["tables"], record["summary"]["per_layer"], strict=True):
        assert table["experts"] == record["summary"]["experts"] == 16
        assert table["loads"] == layer["loads"]
        assert table["imbalance"] == layer["imbalance"]


@pytest.mark.parametrize("form", ["npy", "parquet", "column"])
def test_a_layer_has_the_experts_of_the_whole_trace(cli: Cli, tmp_path: Path, form: str) -> None:
    path, options = uneven(tmp_path / "x.npy"), ["--column", "experts"] * (form == "column")
    if form != "npy":
        ids = np.load(path)
        path = tmp_path / "x.parquet"
        write_routing([RoutingTable(ids[:, layer], layer=layer) for layer in (0, 1)], path)
    whole = cli("trace", "info", path, *options, "--json").json()["summary"]
    one = cli("trace", "info", path, *options, "--layer", 1, "--json").json()["summary"]
    assert (one["experts"], one["per_layer"]) == (16, whole["per_layer"][1:])


@pytest.mark.parametrize(
    ("options", "experts"), [(("--experts", 20), 20), (("--model", "qwen3-30b-a3b"), 128)]
)
def test_an_imported_trace_knows_its_experts(
    cli: Cli, tmp_path: Path, options: tuple[object, ...], experts: int
) -> None:
    np.save(tmp_path / "x.npy", np.arange(16).reshape(2, 8))
    out = tmp_path / "x.parquet"
    assert cli("trace", "import", tmp_path / "x.npy", out, *options).code == 0
    assert read_origin(out) == {"format": "numpy", "experts": experts}
    outcome = cli("trace", "info", out)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[1].split()[5] == str(experts)
    record = cli("trace", "info", out, "--json").json()
    assert record["summary"]["experts"] == record["tables"][0]["experts"] == experts


@pytest.mark.parametrize(
    ("model", "experts"), [("qwen3-30b-a3b", 128), ("mixtral-8x7b", 16), ("unknown", 16)]
)
def test_rows_that_name_their_model(cli: Cli, tmp_path: Path, model: str, experts: int) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"model": [model] * 2, "experts": np.arange(16).reshape(2, 8).tolist()})
    pq.write_table(table, path)
    outcome = cli("trace", "info", path)
    assert outcome.out.splitlines()[1].split()[5] == str(experts)
    assert outcome.err == ("" if experts == 128 else GUESSED)


# --- What is not there


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ("--step", 3),
            "has no tokens of step 3, found layer 0..2 and step 0; choose others, or leave --step "
            "out",
        ),
        (("--layer", 3), "has no tokens of layer 3, found layer 0..2 and step 0; choose others"),
        (
            ("--layer", 1, "--step", 1),
            "has no tokens of layer 1 and step 1, found layer 0..2 and step 0; choose others, or "
            "leave --layer and --step out",
        ),
    ],
)
@pytest.mark.parametrize("form", ["npy", "parquet", "vllm"])
def test_layers_and_steps_that_are_not_there(cli, tmp_path, form, options, says) -> None:
    path, ids = tmp_path / "x", foreign.routing(6)
    if form == "npy":
        with path.open("wb") as file:
            np.save(file, ids)
    elif form == "parquet":
        write_routing([RoutingTable(ids[:, i], layer=i) for i in range(3)], path)
    else:
        foreign.lines(path, [foreign.vllm_response(ids, ids)])
    for command in (("info", path), ("plot", path, "--out", tmp_path / "x.png")):
        if command[0] == "plot":
            pytest.importorskip("matplotlib")
        outcome = cli("trace", *command, *options)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err.startswith(f"error: {path}: {says}")


@pytest.mark.parametrize(
    ("form", "option", "users"),
    [
        ("lengths", ("--layer", 3), "llamacpp, megatron, numpy, parquet, sglang, vllm"),
        ("lengths", ("--step", 0), "llamacpp, megatron, numpy, parquet, sglang, vllm"),
        ("lengths", ("--experts", 8), "llamacpp, megatron, numpy, parquet, sglang, vllm"),
        ("lengths", ("--k", 2), "llamacpp, megatron, numpy, parquet, sglang, vllm"),
        ("lengths", ("--model", "qwen3-30b-a3b"), "llamacpp, megatron, numpy, parquet, sglang, "),
        ("lengths", ("--layers", 2), "numpy, parquet, sglang, vllm"),
        ("lengths", ("--drop-missing",), "numpy, parquet, sglang, vllm"),
        ("lengths", ("--rank", 0), "megatron"),
        ("azure", ("--column", "x"), "lengths, parquet"),
        ("numpy", ("--column", "x"), "lengths, parquet"),
        ("numpy", ("--rank", 0), "megatron"),
    ],
)
def test_options_of_other_formats(
    cli: Cli, tmp_path: Path, form: str, option: tuple[object, ...], users: str
) -> None:
    path = tmp_path / "x.npy"
    if form == "azure":
        path.write_text(foreign.AZURE)
    else:
        np.save(path, np.arange(4) if form == "lengths" else foreign.routing(6))
    commands = [
        ("info", path),
        ("plot", path, "--out", tmp_path / "x.png"),
        ("import", path, tmp_path / "x.parquet"),
        ("select", path, "--size", 2),
    ]
    if option[0] in ("--layer", "--step"):
        del commands[2]
    if option[0] != "--column" or form == "numpy":
        del commands[-1]
    for command in commands:
        outcome = cli("trace", *command, *option)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err.startswith(f"error: {path}: {option[0]} (")
        assert f"the format {form} does not use it; leave it out, or name a" in outcome.err
        assert f"with --format (format=): {users}" in outcome.err
    assert list(tmp_path.iterdir()) == [path]


def test_select_reads_the_column_of_a_named_format(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(foreign.AZURE)
    options = ("-F", "lengths", "--column", "GeneratedTokens", "--size", 2, "--at", 1, "--json")
    assert cli("trace", "select", path, *options).json()["windows"][0]["lengths"] == [44, 109]


# --- Options that say how to read


@pytest.mark.slow
def test_the_format_can_be_named(cli: Cli, tmp_path: Path) -> None:
    # Two columns of numbers could be rows of llama.cpp; with a header they are lengths.
    path = tmp_path / "x.csv"
    path.write_text("a,tokens\n1,7\n2,9\n")
    outcome = cli("trace", "info", path, "-F", "lengths", "--column", "tokens", "--json")
    assert outcome.json()["context_tokens"]["sum"] == 16
    outcome = cli("trace", "info", path, "--format", "csv")
    assert "error: format 'csv' is not known, expected one of azure, lengths" in outcome.err
    pytest.importorskip("matplotlib")
    out = tmp_path / "x.png"
    options = ("--format", "lengths", "--column", "tokens", "--out", out)
    assert cli("trace", "plot", path, *options).code == 0
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_plot_leaves_missing_tokens_out(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ids = foreign.routing(6)
    ids[2] = -1
    path = foreign.lines(tmp_path / "x.jsonl", [foreign.vllm_response(ids, ids[:1])])
    out = tmp_path / "x.png"
    assert "or use --drop-missing" in cli("trace", "plot", path, "--out", out).err
    assert cli("trace", "plot", path, "--drop-missing", "--out", out).code == 0
    assert out.exists()


def test_some_ranks(cli: Cli, tmp_path: Path) -> None:
    for rank in range(2):
        record = foreign.megatron_record(foreign.routing(6)[rank:, 0], 0, 0, rank)
        foreign.lines(tmp_path / f"router_trace_rank{rank}.jsonl", [record])
    found = cli("trace", "info", tmp_path, "--rank", 1, "--json").json()
    assert (found["format"], found["summary"]["rows"]) == ("megatron", 5)


def test_remarks_of_the_reading(cli: Cli, tmp_path: Path) -> None:
    for rank in range(2):
        record = foreign.megatron_record(foreign.routing(6)[:, 0], 0, 0, rank)
        foreign.lines(tmp_path / f"router_trace_rank{rank}.jsonl", [record])
    says = "some ranks have the same records (0, 1), as the ranks of a tensor-parallel group do: "
    outcome = cli("trace", "info", tmp_path, "--experts", foreign.EXPERTS, "--json")
    assert outcome.err.startswith(says)
    assert outcome.json()["summary"]["rows"] == 12
    pytest.importorskip("matplotlib")
    outcome = cli("trace", "plot", tmp_path, "--out", tmp_path / "x.png")
    assert outcome.err.startswith(says)


# --- The same as of import


def outcomes(cli: Cli, path: Path, *options: object) -> list[tuple[int, str]]:
    """Exit code and message of info, import and plot."""
    pytest.importorskip("matplotlib")
    commands = (
        ("info", path),
        ("import", path, path.with_name("out.parquet")),
        ("plot", path, "--out", path.with_name("out.png")),
    )
    return [(found.code, found.err) for c in commands for found in [cli("trace", *c, *options)]]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--layers", 5), "`experts` has 3 layers (shape (6, 3, 4)), expected 5; check"),
        (("--format", "parquet"), "is not a Parquet file (npy), expected Parquet or Arrow IPC"),
    ],
)
def test_what_import_refuses(cli, tmp_path, options, says) -> None:
    path = tmp_path / "x.npy"
    np.save(path, foreign.routing(6))
    for code, err in outcomes(cli, path, *options):
        assert (code, says in err) == (2, True), err


def test_a_parquet_file_is_no_numpy_file(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_routing([synthetic_routing(4, 8, 2, seed=0)], path)
    for code, err in outcomes(cli, path, "--format", "numpy"):
        assert (code, "is not a NumPy file (parquet), expected .npy or .npz" in err) == (2, True), (
            err
        )


@pytest.mark.parametrize("form", ["npy", "parquet"])
def test_ids_beyond_what_can_be_guessed(cli: Cli, tmp_path: Path, form: str) -> None:
    path = tmp_path / f"x.{form}"
    table = RoutingTable(np.array([[3, 1], [2_000_000_000, 1]]))
    np.save(path, table.experts) if form == "npy" else table.to_parquet(path)
    for code, err in outcomes(cli, path):
        assert code == 2
        assert err.startswith(f"error: {path}: ")
        assert "step 0, token 1" in err
        assert "expert id 2000000000 is out of range, expected 0..65535 when the number" in err


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2, (1 << 18) + 1])
def test_more_experts_than_can_be_counted(cli: Cli, tmp_path: Path, rows: int) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.tile(np.array([0, 70_000], np.int32), (rows, 1)))
    for code, err in outcomes(cli, path, "--experts", 10**11):
        assert code == 2
        assert "experts is 100000000000, expected 1..1048576, since the load of each is" in err
    assert cli("trace", "info", path, "--experts", 70_001).code == 0


def test_rows_in_any_order(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "x.parquet"
    pq.write_table(synthetic_routing(9, 8, 2, seed=0).to_arrow()[::-1], path)
    assert cli("trace", "info", path).code == 0
    assert cli("trace", "plot", path, "--out", tmp_path / "x.png").code == 0
    assert "sort the file" in cli("trace", "import", path, tmp_path / "out").err


# --- Long traces


@pytest.mark.slow
def test_many_loads_are_shown_by_layer(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_routing([synthetic_routing(1, 8, 2, seed=0, step=step) for step in range(65)], path)
    for experts, shown in ((1 << 16, 0), (1 << 15, 65)):
        found = cli("trace", "info", path, "--experts", experts, "--json").json()
        assert (len(found["tables"]), found["summary"]["rows"]) == (shown, 65)


@pytest.mark.slow
def test_many_tables_are_shown_by_layer(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_routing([synthetic_routing(1, 8, 2, seed=0, step=step) for step in range(4097)], path)
    found = cli("trace", "info", path, "--experts", 8, "--json").json()
    assert (found["tables"], found["summary"]["rows"]) == ([], 4097)
    found = cli("trace", "info", path, "--experts", 8, "--step", 4000, "--json").json()
    assert [table["step"] for table in found["tables"]] == [4000]


@pytest.mark.slow
def test_memory_is_bounded_by_rows_not_by_bytes(tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("peak memory is read in /proc")
    measure = (
        "import re, sys\nfrom pathlib import Path\nfrom stepsim.cli.main import main\n"
        "try:\n    main(['trace', 'info', sys.argv[1], '--json'])\nfinally:\n"
        "    print(re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    peaks = []
    for tokens in (300_000, 2_400_000):
        path = tmp_path / "x.parquet"
        # Equal rows, so that the file stays small.
        write_routing([RoutingTable(np.tile(np.arange(8), (tokens, 1)))], path)
        assert path.stat().st_size < 16 << 20
        command = [sys.executable, "-c", measure, str(path)]
        text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        assert re.search(rf'"rows": {tokens}\b', text)
        peaks.append(int(text.split()[-1]) / 1024)
    assert peaks[1] < peaks[0] + 50, peaks
