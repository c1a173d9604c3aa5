"""``stepsim run attention`` and ``inspect attention``: numbers, files, batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepsim.trace_io import ParquetStream, RequestTrace, replay, replay_rows
from tests.cli.conftest import LENGTHS


def test_json_is_one_complete_object(attend, requests: Path) -> None:
    row, group, tiles = 128 * 2, 8, 13
    found = attend("--json", "--set", "hbm.channels=16").has(
        workload="attention", model="qwen3-30b-a3b", strategy="dynamic", batch=8, regions=4,
        kv_tile=32, max_length=96, compute_bw=2048, fifo_depth=1, block=None, machine="sda-1024",
        offchip_bytes=2 * (tiles + 8) * 32 * row + 8 * row * (2 * group + 2),
        allocated_flops_per_cycle=4 * 6 * 2048, peak_bandwidth=512, trace="kv.npy",
    )  # fmt: skip
    kv = found["kv_lengths"]
    assert (kv["source"], kv["requests"], kv["max_length"]) == (str(requests), 8, 64)
    assert len(found["trace_id"]) == 64


def test_padding_is_what_tiles_of_one_token_do_not_compute(attend) -> None:
    tall = attend("--json").json()
    exact = attend("--json", "--kv-tile", 1).json()
    assert exact["padded_flops"] == 0
    # The sum over a row of weights runs once per request, over the width of a tile.
    row_sums = 8 * 8 * 31
    assert tall["padded_flops"] == tall["flops"] - exact["flops"] - row_sums > 0


def test_table_names_settings_and_speed(attend) -> None:
    outcome = attend()
    assert outcome.code == 0
    assert "strategy dynamic, regions 4, kv-tile 32, max-length 96" in outcome.out
    assert "attention, 8 requests" in outcome.out
    assert "busiest units" in outcome.out


def test_the_first_requests_of_a_file(attend, tmp_path: Path) -> None:
    path = tmp_path / "four.npy"
    np.save(path, np.array(LENGTHS[:4]))
    part = attend("--json", "--batch", 4).json()
    whole = attend("--json", kv_lengths=path).json()
    assert part["batch"] == 4
    assert part["trace_id"] == whole["trace_id"]
    assert part["kv_lengths"]["requests_in_file"] == 8
    assert part["cycles"] == whole["cycles"]


def test_a_column_of_a_text_file(attend, tmp_path: Path) -> None:
    path = tmp_path / "kv.csv"
    path.write_text("id,tokens\n" + "".join(f"{i},{n}\n" for i, n in enumerate(LENGTHS)))
    found = attend("--json", kv_lengths=f"{path},column=tokens").json()
    assert found["cycles"] == attend("--json").json()["cycles"]


def test_coarse_builds_as_many_regions_as_blocks(attend) -> None:
    outcome = attend("--json", strategy="coarse")
    found = outcome.json()
    assert (found["regions"], found["regions_built"], found["block"]) == (4, 1, 16)
    assert found["allocated_flops_per_cycle"] == 6 * 2048
    assert "1 of 4 regions is built: there is only 1 block of up to 16 requests;" in outcome.err
    small = attend("--json", "--block", 2, strategy="coarse")
    assert small.json()["regions_built"] == 4
    assert " built: " not in small.err
    assert small.json()["cycles"] < found["cycles"]


def test_micro_batches_start_blocks_anew(attend) -> None:
    coarse = ("--json", "--block", 4)
    joined = attend(*coarse, strategy="coarse").json()
    split = attend(*coarse, "--micro-batches", "4+4", strategy="coarse")
    said = "there is only 1 block of up to 4 requests in the largest micro-batch;"
    assert said in " ".join(split.err.split())
    apart = split.json()
    assert (joined["regions_built"], joined["micro_batches"]) == (2, None)
    assert (apart["regions_built"], apart["micro_batches"]) == (1, "4+4")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (None, "cannot be read"),
        ([3, -1], "row 1: KV length -1 is out of range"),
        ([], "the trace is empty, it has 0 lengths"),
        ([[1, 2]], "KV lengths have 2 dims, shape (1, 2), expected one length per request"),
        ([1.5], "float64"),
    ],
)
def test_files_that_hold_no_lengths(attend, tmp_path: Path, values: object, words: str) -> None:
    path = tmp_path / "bad.npy"
    if values is not None:
        np.save(path, np.array(values, dtype=None if values else int))
    outcome = attend("--json", kv_lengths=path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {path}: ")
    assert words in outcome.err


def test_inspect_without_lengths_and_with(attend, requests: Path) -> None:
    unknown = attend("--json", command="inspect", kv_lengths=None).json()
    assert (unknown["batch"], unknown["numbers"], unknown["kv_lengths"]) == (64, None, None)
    found = attend("--json", command="inspect").json()
    assert found["formulas"]["flops"] == unknown["formulas"]["flops"]
    assert found["numbers"]["flops"] > 0
    text = attend(command="inspect")
    assert text.code == 0
    lines = [line.split() for line in text.out.splitlines()]
    assert [words[2] for words in lines if words[:2] == ["load_key.*", "random_load"]] == ["4"]
    assert attend("--graph", "dot", command="inspect").out.startswith("digraph")


def test_inspect_reads_what_run_reads(attend, tmp_path: Path) -> None:
    path = tmp_path / "long.npy"
    np.save(path, np.arange(12) * 40)
    ran, seen = (
        attend("--batch", 4, "--json", command=command, kv_lengths=f"{path},window=2").json()
        for command in ("run", "inspect")
    )
    assert ran["kv_lengths"] == seen["kv_lengths"]
    assert (ran["kv_lengths"]["requests"], ran["kv_lengths"]["max_length"]) == (4, 440)
    names = ("offchip_bytes", "onchip_bytes", "flops")
    assert [ran[name] for name in names] == [seen["numbers"][name] for name in names]


@pytest.mark.slow
def test_windows_and_steps_of_longer_files(attend, tmp_path: Path) -> None:
    requests = RequestTrace(np.array(LENGTHS[::-1] + LENGTHS), np.full(16, 2))
    requests.to_parquet(tmp_path / "q.parquet")
    whole = attend("--json").json()
    window = attend("--json", "--batch", 8, kv_lengths=f"{tmp_path / 'q.parquet'},window=1")
    found = window.json()
    assert found["trace_id"] == whole["trace_id"]
    assert found["cycles"] == whole["cycles"]
    with ParquetStream(tmp_path / "s.parquet") as out:
        out.write(replay_rows(list(replay(requests, 8))))
    steps = tmp_path / "s.parquet"
    assert attend("--json", kv_lengths=f"{steps},step=2").json()["cycles"] == whole["cycles"]
    unclear = attend("--json", kv_lengths=steps)
    assert "holds 4 steps from 0 to 3, expected one; choose one of them with step=" in unclear.err
