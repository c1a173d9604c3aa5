"""``stepsim run attention`` and ``inspect attention``: numbers, options, messages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stepsim.cli.attention import AttentionChoice

from stepsim.cli.inputs import Requests
from stepsim.machine import load_machine
from stepsim.trace_io import ParquetStream, RequestTrace, replay, replay_rows
from stepsim.workloads import ATTENTION_SHAPES
from tests.cli.conftest import Cli, Outcome
from tests.cli.published import KV, canonical_cycles, needs_traces, truth
from tests.cli.test_run import REQUIRED

LENGTHS = [5, 0, 40, 31, 32, 63, 64, 7]
MODEL = "qwen3-30b-a3b"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kv.npy"
    np.save(path, np.array(LENGTHS))
    return path


@pytest.fixture
def run(cli: Cli, file: Path):
    """Run dynamic attention on eight short requests, unless told otherwise."""

    def call(*options: object, **replace: object) -> Outcome:
        arguments = {"model": MODEL, "kv-lengths": file, "strategy": "dynamic", **replace}
        flat = [part for key, value in arguments.items() for part in (f"--{key}", value)]
        return cli("run", "attention", *flat, *options)

    return call


def test_json_is_one_complete_object(run, file: Path) -> None:
    outcome = run("--json", "--set", "hbm.channels=16")
    assert outcome.code == 0, outcome.err
    found = outcome.json()
    assert {name: type(found[name]) for name in REQUIRED} == REQUIRED
    row, group, tiles = 128 * 2, 8, 13
    assert found["offchip_bytes"] == 2 * (tiles + 8) * 32 * row + 8 * row * (2 * group + 2)
    assert found["offchip_bytes"] == found["offchip_bytes"]
    assert found["allocated_flops_per_cycle"] == 4 * 6 * 2048
    assert found["machine"]["peak_bandwidth"] == 512
    expected = {
        "workload": "attention", "model": MODEL, "strategy": "dynamic", "batch": 8, "regions": 4,
        "kv_tile": 32, "max_length": 96, "compute_bw": 2048, "fifo_depth": 1, "block": None,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    kv = found["kv_lengths"]
    assert (kv["source"], kv["requests"], kv["max_length"]) == (str(file), 8, 64)
    assert len(kv["identity"]) == 64
    assert found["provenance"]


def test_padding_is_what_tiles_of_one_token_do_not_compute(run) -> None:
    tall = run("--json").json()
    exact = run("--json", "--kv-tile", 1).json()
    assert exact["padded_flops"] == 0
    # The sum over a row of weights runs once per request, over the width of a tile.
    row_sums = 8 * 8 * 31
    assert tall["padded_flops"] == tall["flops"] - exact["flops"] - row_sums > 0


def test_table_names_settings_and_speed(run) -> None:
    outcome = run()
    assert outcome.code == 0
    assert "one KV head, 4 regions, KV tile 32, cache of 96 tokens per request" in outcome.out
    assert f"{MODEL}, 8 requests, dynamic attention" in outcome.out
    assert "busiest units" in outcome.out


def test_the_first_requests_of_a_file(run, tmp_path: Path) -> None:
    path = tmp_path / "four.npy"
    np.save(path, np.array(LENGTHS[:4]))
    part = run("--json", "--batch", 4).json()
    whole = run("--json", **{"kv-lengths": path}).json()
    assert part["batch"] == 4
    assert part["kv_lengths"]["identity"] == whole["kv_lengths"]["identity"]
    assert part["kv_lengths"]["requests_in_file"] == 8
    assert part["cycles"] == whole["cycles"]


def test_a_column_of_a_text_file(run, tmp_path: Path) -> None:
    path = tmp_path / "kv.csv"
    path.write_text("id,tokens\n" + "".join(f"{i},{n}\n" for i, n in enumerate(LENGTHS)))
    found = run("--json", "--kv-column", "tokens", **{"kv-lengths": path}).json()
    assert found["cycles"] == run("--json").json()["cycles"]


def test_coarse_builds_as_many_regions_as_blocks(run) -> None:
    outcome = run("--json", strategy="coarse")
    found = outcome.json()
    assert (found["regions"], found["regions_built"], found["block"]) == (4, 1, 16)
    assert found["allocated_flops_per_cycle"] == 6 * 2048
    assert "1 of 4 regions built: 8 requests make no more blocks of 16" in outcome.err
    small = run("--json", "--block", 2, strategy="coarse")
    assert small.json()["regions_built"] == 4
    assert "regions built" not in small.err
    assert small.json()["cycles"] < found["cycles"]


def test_micro_batches_start_blocks_anew(run) -> None:
    coarse = ("--json", "--block", 4)
    joined = run(*coarse, strategy="coarse").json()
    apart = run(*coarse, "--micro-batches", "4+4", strategy="coarse").json()
    assert (joined["regions_built"], joined["micro_batches"]) == (2, None)
    assert (apart["regions_built"], apart["micro_batches"]) == (1, [4, 4])


def test_an_option_wins_over_the_machine_and_both_over_the_configuration() -> None:
    requests = Requests(np.zeros(16, dtype=np.int64), 16, None)
    machine = load_machine("sda-1024", {"fifo.depth": 7})
    known = AttentionChoice(MODEL, "coarse", config="published")
    given = AttentionChoice(
        MODEL, "coarse", regions=2, compute_bw=64, fifo_depth=3, max_length=64, config="published"
    )
    names = ("regions", "compute_bw", "fifo_depth", "max_length")

    def settings(choice: AttentionChoice, target: object) -> tuple[int, ...]:
        found = choice.resolve(requests, target)  # type: ignore[arg-type]
        return tuple(found[name] for name in names)

    assert settings(known, load_machine()) == (4, 2048, 1, 4672)
    assert settings(known, machine) == (4, 2048, 7, 4672)
    assert settings(given, machine) == (2, 64, 3, 64)


def test_a_size_of_caches_of_ones_own_goes_beyond_the_published_ones(run, tmp_path: Path) -> None:
    path = tmp_path / "long.npy"
    np.save(path, np.array([9000] * 4))
    options = {"kv-lengths": path}
    outcome = run("--json", "--config", "published", **options)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "error: --config published: no published run of 4 requests reserves caches for one of "
        "9000 tokens; choose their size with --max-length\n"
    )
    mended = run("--json", "--config", "published", "--max-length", 9024, **options)
    assert mended.json()["max_length"] == 9024


def test_limits_and_tables(run, tmp_path: Path) -> None:
    outcome = run("--json", "--max-cycles", 50, "--out", tmp_path / "result.parquet")
    assert outcome.code == 1
    assert outcome.json()["status"] == "limit"
    assert (tmp_path / "result.parquet").is_file()


KNOWN = ", ".join(sorted(ATTENTION_SHAPES))
MISTAKES = {
    "strategy": (
        {"strategy": "interleave"},
        (),
        "--strategy: unknown strategy 'interleave'; did you mean 'interleaved'? "
        "Known: coarse, interleaved, dynamic",
    ),
    "model": (
        {"model": "qwen3"},
        (),
        f"--model: unknown model 'qwen3'; did you mean 'qwen3-30b-a3b'? Known: {KNOWN}",
    ),
    "unpublished": (
        {"model": "glm-4.5"},
        ("--config", "published"),
        "--config published: there is no published experiment of glm-4.5; there is one of "
        "qwen3-30b-a3b",
    ),
    "regions that do not divide": (
        {"strategy": "interleaved"},
        ("--regions", 3),
        "--regions: expected a divisor of the 8 requests that are dealt in turn, found 3; "
        "the nearest is 8",
    ),
    "more regions than requests": (
        {},
        ("--regions", 9),
        "--regions: dynamic starts one request in each region, expected at most the 8 requests, "
        "found 9",
    ),
    "block": (
        {},
        ("--block", 4),
        "--block: dynamic deals out single requests, only coarse has blocks; leave it out",
    ),
    "no tile": ({}, ("--kv-tile", 0), "--kv-tile: expected a whole number from 1, found 0"),
    "tile of published caches": (
        {},
        ("--kv-tile", 48, "--config", "published"),
        "--kv-tile: expected a divisor of the 6464 cached tokens that --config published "
        "reserves, found 48; near ones are 16, 32, 64",
    ),
    "no batch": ({}, ("--batch", 0), "--batch: expected a whole number from 1, found 0"),
    "micro-batches too few": (
        {"strategy": "coarse"},
        ("--micro-batches", "4+2"),
        "--micro-batches: expected sizes that add up to the 8 requests, found 4+2 = 6; --batch "
        "takes the first requests of a longer file",
    ),
    "micro-batches in words": (
        {"strategy": "coarse"},
        ("--micro-batches", "4,4"),
        "--micro-batches: expected sizes from 1 joined by +, for example 64+16, found '4,4'",
    ),
    "empty micro-batch": (
        {"strategy": "coarse"},
        ("--micro-batches", "8+0"),
        "--micro-batches: expected sizes from 1 joined by +, for example 64+16, found '8+0'",
    ),
}


@pytest.mark.parametrize(("replace", "options", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(
    run, replace: dict[str, object], options: tuple[object, ...], message: str
) -> None:
    outcome = run("--json", *options, **replace)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"error: {message}\n")


def test_a_batch_larger_than_the_file(run, file: Path) -> None:
    outcome = run("--json", "--batch", 9)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"error: --batch: expected at most the 8 requests of {file}, found 9\n"


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
def test_files_that_hold_no_lengths(run, tmp_path: Path, values: object, words: str) -> None:
    path = tmp_path / "bad.npy"
    if values is not None:
        np.save(path, np.array(values, dtype=None if values else int))
    outcome = run("--json", **{"kv-lengths": path})
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {path}: ")
    assert words in outcome.err


def test_inspect_without_lengths_and_with(cli: Cli, file: Path) -> None:
    command = ("inspect", "attention", "--model", MODEL, "--strategy", "dynamic")
    open_ = cli(*command, "--json").json()
    assert (open_["batch"], open_["numbers"], open_["kv_lengths"]) == (64, None, None)
    found = cli(*command, "--kv-lengths", file, "--json").json()
    assert found["formulas"]["executed_flops"] == open_["formulas"]["executed_flops"]
    assert found["numbers"]["executed_flops"] == found["numbers"]["flops"] > 0
    text = cli(*command, "--kv-lengths", file)
    assert text.code == 0
    lines = [line.split() for line in text.out.splitlines()]
    assert [words[2] for words in lines if words[:2] == ["random_load", "load_key"]] == ["4"]
    assert cli(*command, "--graph", "dot").out.startswith("digraph")


def test_inspect_reads_what_run_reads(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "long.npy"
    np.save(path, np.arange(12) * 40)
    options = ("attention", "--model", MODEL, "--strategy", "dynamic", "--kv-lengths", path)
    window = ("--batch", 4, "--kv-window", 2, "--json")
    run, inspect = (cli(command, *options, *window).json() for command in ("run", "inspect"))
    assert run["kv_lengths"] == inspect["kv_lengths"]
    assert (run["kv_lengths"]["requests"], run["kv_lengths"]["max_length"]) == (4, 440)
    names = ("offchip_bytes", "onchip_bytes", "flops")
    assert [run[name] for name in names] == [inspect["numbers"][name] for name in names]


@pytest.mark.parametrize("option", ["column", "step", "window"])
def test_inspect_needs_a_file_to_choose_from(cli: Cli, option: str) -> None:
    choice = (f"--kv-{option}", 1)
    outcome = cli("inspect", "attention", "--model", MODEL, "--strategy", "dynamic", *choice)
    assert (outcome.code, outcome.out) == (2, "")
    expected = f"error: --kv-{option}: chooses from --kv-lengths FILE; give the file too\n"
    assert outcome.err == expected


POINTS = [
    ("f14_4185_interleave", "b64/conv_stdev0484_4185_4248.npy", None),
    ("f14_4007_dynamic", "b64/conv_stdev0996_4007_4070.npy", None),
    ("f15_b16_coarse", "b64/conv_stdev0996_4007_4070.npy", 16),
    ("f15_b16_dynamic", "b64/conv_stdev0996_4007_4070.npy", 16),
    ("f15_b64_coarse", "b64/conv_stdev0996_4007_4070.npy", 64),
    ("f21_b16_821_coarse", "b16/conv_stdev1455_0821_0836.npy", None),
    ("f21_b16_821_dynamic", "b16/conv_stdev1455_0821_0836.npy", None),
    ("f21_b64_961_interleave", "b64/conv_stdev1457_0961_1024.npy", None),
]


@needs_traces
@pytest.mark.parametrize(("point", "trace", "batch"), POINTS, ids=[p[0] for p in POINTS])
def test_published_points(run, point: str, trace: str, batch: int | None) -> None:
    strategy = point.split("_")[-1].replace("interleave", "interleaved")
    prefix = () if batch is None else ("--batch", batch)
    outcome = run(
        "--json", "--config", "published", *prefix,
        strategy=strategy, **{"kv-lengths": KV / trace},
    )  # fmt: skip
    found = outcome.json()
    assert found["cycles"] == canonical_cycles(point)
    assert str(found["regions_built"]) == truth(point)["par_regions"]
    assert "heads of 64 as in the published experiment" in outcome.err


@needs_traces
def test_two_published_micro_batches(run) -> None:
    trace = {"kv-lengths": KV / "b80" / "conv_stdev0986_3989_4068.npy", "strategy": "coarse"}
    outcome = run("--json", "--config", "published", **trace)
    found = outcome.json()
    assert (found["micro_batches"], found["max_length"]) == ([64, 16], 6528)
    spelled = run(
        "--json", "--micro-batches", "64+16", "--max-length", 6528,
        model="qwen3-30b-a3b-step", **trace,
    )  # fmt: skip
    assert spelled.json()["cycles"] == found["cycles"]
    one = run("--json", "--config", "published", "--micro-batches", "80", **trace)
    assert one.json()["cycles"] == found["cycles"]


def test_windows_and_steps_of_longer_files(run, tmp_path: Path) -> None:
    requests = RequestTrace(np.array(LENGTHS[::-1] + LENGTHS), np.full(16, 2))
    requests.to_parquet(tmp_path / "q.parquet")
    whole = run("--json").json()
    window = run("--json", "--batch", 8, "--kv-window", 1, **{"kv-lengths": tmp_path / "q.parquet"})
    found = window.json()
    assert found["kv_lengths"]["identity"] == whole["kv_lengths"]["identity"]
    assert found["cycles"] == whole["cycles"]
    with ParquetStream(tmp_path / "s.parquet") as out:
        out.write(replay_rows(list(replay(requests, 8))))
    steps = {"kv-lengths": tmp_path / "s.parquet"}
    assert run("--json", "--kv-step", 2, **steps).json()["cycles"] == whole["cycles"]
    assert "holds 4 steps from 0 to 3, expected one; choose" in run("--json", **steps).err
    wrong = run("--json", "--kv-window", 1)
    assert (wrong.code, wrong.out) == (2, "")
    assert "--kv-window: of how many requests each is not known; give --batch too" in wrong.err
