"""Bad input of ``stepsim run`` and ``inspect``: message, exit code 2, nothing on stdout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepsim.trace_io import RoutingTable, write_routing
from stepsim.workloads.models import MODELS
from tests.cli.conftest import Cli

KNOWN = f"Expected one of {', '.join(MODELS)}, or a YAML file with dimensions, "
PUBLISHED = {"config": "published"}
MOE: dict[str, tuple[dict[str, Any], str]] = {
    "tile zero": (
        {"tile": 0}, "--tile: expected a whole number from 1, or 'dynamic', found 0\n",
    ),
    "tile word": (
        {"tile": "adaptive"},
        "--tile: expected a whole number from 1, or 'dynamic', found 'adaptive'\n",
    ),
    "tile beyond all counting": (
        {"tile": 2**64},
        f"--tile: expected a whole number from 1 to 2**40, or 'dynamic', found {2**64}\n",
    ),
    **{
        f"inner tile {inner}": (
            {"tile_inter": inner},
            "--tile-inter: expected a divisor of the inner dimension 768 of qwen-of-32, "
            f"found {inner}; near ones are {near}\n",
        )
        for inner, near in ((50, "32, 48, 64"), (1000, "256, 384, 768"))
    },
    "negative inner tile": (
        {"tile_inter": -8}, "--tile-inter: expected a whole number from 1, found -8\n",
    ),
    "several": (
        {"fifo_depth": -1, "compute_bw": 0},
        "--compute-bw: expected a whole number from 1, found 0\n"
        "--fifo-depth: expected a whole number from 1, found -1\n",
    ),
    **{
        f"{name} beyond all counting": (
            {name: 2**70},
            f"--{name.replace('_', '-')}: expected a whole number from 1 to 2**40, found {2**70}\n",
        )
        for name in ("fifo_depth", "compute_bw", "max_cycles")
    },
    "model": (
        {"model": "mixtral-8x7"},
        f"--model: unknown model 'mixtral-8x7'; did you mean 'mixtral-8x7b'? {KNOWN}",
    ),
    "model without experts": (
        {"model": "qwen3-30b-a3b-step"},
        "model qwen3-30b-a3b-step has no experts: it is the attention of a published ",
    ),
    "unpublished model": (
        {"model": "glm-4.5", **PUBLISHED},
        "--config: there is no published experiment of glm-4.5; there are those of mixtral-8x7b "
        "and qwen3-30b-a3b\n",
    ),
    "unpublished regions": (
        {"model": "qwen3-235b-a22b", "regions": 8, **PUBLISHED},
        "--config: there is no published experiment of qwen3-235b-a22b with shared regions; there "
        "is that of qwen3-30b-a3b\n",
    ),
    "regions": (
        {"regions": 24},
        "--regions: expected a divisor of the 32 experts of qwen-of-32, found 24; near ones "
        "are 8, 16, 32\n",
    ),
    "missing tile": (
        {"tile": None},
        "--tile: missing (rows per tile); expected a whole "
        "number from 1, or 'dynamic'\n",
    ),
    "missing model": ({"model": None}, "--model: missing (model whose layer is built); "),
    "missing trace": (
        {"routing": None},
        "--routing: missing; workload moe needs a trace in a file; "
        "`stepsim trace synth` makes a routing trace\n",
    ),
    "machine": (
        {"machine": "sda1024"},
        "unknown machine 'sda1024'; did you mean 'sda-1024'? Known machines: blackhole, ",
    ),
    "machine key": (
        {"set": "channels=4"},
        "machine override: unknown key 'channels'; did you mean 'hbm.channels'? Known: name, ",
    ),
    "cycles": ({"max_cycles": 0}, "--max-cycles: expected a whole number from 1, found 0\n"),
    "seconds": ({"max_seconds": 0}, "--max-seconds: expected a number above 0, found 0\n"),
    "no seconds": ({"max_seconds": "nan"}, "--max-seconds: expected a number above 0, found nan\n"),
    "window without batch": (
        {"routing": "r.npz,window=1"},
        "--routing: window: its size is missing; give --batch too\n",
    ),
    "window": (
        {"batch": 2, "routing": "r.npz,window=-1"},
        "--routing: window: expected a whole number from 0, found -1\n",
    ),
    "layer": (
        {"routing": "r.npz,layer=x"}, "--routing: layer: expected a whole number, found 'x'\n",
    ),
    "two layers": (
        {"routing": "r.npz,layer=1,layer=2"},
        "--routing: layer is given 2 times; expected it once\n",
    ),
    "part of a file of another kind": (
        {"routing": "r.npz,layer=1,column=a"},
        "--routing: expected layer= or step= or window= after the file, found 'column=a'\n",
    ),
    "commas in the name of a file": ({"routing": "a,b=1,c,npz"}, "a,b=1,c,npz: "),
    "batch": ({"batch": 0}, "--batch: expected a whole number from 1, found 0\n"),
}  # fmt: skip
ATTENTION: dict[str, tuple[dict[str, Any], str]] = {
    "strategy": (
        {"strategy": "interleave"},
        "--strategy: expected one of coarse, interleaved, dynamic, found 'interleave'; did you "
        "mean 'interleaved'?\n",
    ),
    "model": (
        {"model": "qwen3"}, f"--model: unknown model 'qwen3'. {KNOWN}",
    ),
    "unpublished": (
        {"model": "glm-4.5", **PUBLISHED},
        "--config: there is no published experiment of glm-4.5; there is one of qwen3-30b-a3b\n",
    ),
    "blocks": (
        {"block": 4},
        "--block: dynamic distributes single requests, only coarse has blocks; leave it out\n",
    ),
    "no tile": ({"kv_tile": 0}, "--kv-tile: expected a whole number from 1, found 0\n"),
    "tile of published caches": (
        {"kv_tile": 48, **PUBLISHED},
        "--max-length: expected a multiple of the KV tile of 48 that holds the longest request of "
        "64 tokens and the new one, found 6464; the smallest is 96\n",
    ),
    "no batch": ({"batch": 0}, "--batch: expected a whole number from 1, found 0\n"),
    "window without batch": (
        {"kv_lengths": "kv.npy,window=1"},
        "--kv-lengths: window: its size is missing; give --batch too\n",
    ),
    "micro-batches too few": (
        {"strategy": "coarse", "micro_batches": "4+2"},
        "--micro-batches: expected sizes that add up to the 8 requests, found 4+2 = 6; take "
        "the first requests of a longer file with batch\n",
    ),
    **{
        f"micro-batches {text}": (
            {"strategy": "coarse", "micro_batches": text},
            "--micro-batches: expected whole numbers from 1 joined by +, for example 64+16, found "
            f"'{text}'\n",
        )
        for text in ("4;4", "8+0")
    },
}  # fmt: skip
DECODER: dict[str, tuple[dict[str, Any], str]] = {
    "variant": (
        {"variant": "dynamc"},
        "--variant: expected one of memory-matched, performance-matched, dynamic, found 'dynamc'; "
        "did you mean 'dynamic'?\n",
    ),
    "no variant": (
        {"variant": None, **PUBLISHED},
        "--config: the published figure has three variants; choose a variant: "
        "memory-matched, performance-matched, dynamic\n",
    ),
    "neither tile nor strategy": (
        {"variant": None},
        "--tile: missing (rows per tile); expected a whole "
        "number from 1, or 'dynamic'\n"
        "--strategy: missing (how requests are assigned to regions); expected one of interleaved, "
        "dynamic\n",
    ),
    "coarse": (
        {"strategy": "coarse"},
        "--strategy: expected one of interleaved, dynamic, found 'coarse'\n",
    ),
    "expert regions": (
        {"expert_regions": 3},
        "--expert-regions: expected a divisor of the 8 experts of mixtral-8x7b, found 3; "
        "near ones are 1, 2, 4\n",
    ),
    "tile": (
        {"tile": "tall"}, "--tile: expected a whole number from 1, or 'dynamic', found 'tall'\n",
    ),
    "no compute": ({"qkv_bw": 0}, "--qkv-bw: expected a whole number from 1, found 0\n"),
}  # fmt: skip
SWIGLU: dict[str, tuple[dict[str, Any], str]] = {
    "tile": (
        {"tile": 24},
        "--tile: expected a divisor of the batch of 64, found 24; near ones are 8, 16, 32\n",
    ),
    "inner tile": (
        {"tile_inter": 100},
        "--tile-inter: expected a divisor of the inner dimension 512, found 100; near ones are "
        "32, 64, 128\n",
    ),
    "no tile": ({"tile": 0}, "--tile: expected a whole number from 1, found 0\n"),
    "no hidden": ({"hidden": 0}, "--hidden: expected a whole number from 1, found 0\n"),
    "sizes": (
        {"hidden": None, "intermediate": None},
        "--hidden: missing (width of the activations; it is not tiled); expected a whole number "
        "from 1\n--intermediate: missing (inner dimension); expected a whole number from 1\n",
    ),
}
EVERY = [
    pytest.param(fixture, *case, id=f"{fixture} {name}")
    for fixture, cases in (
        ("run", MOE), ("attend", ATTENTION), ("decode", DECODER), ("feed", SWIGLU),
    )
    for name, case in cases.items()
]  # fmt: skip


@pytest.mark.parametrize(("fixture", "given", "message"), EVERY)
def test_mistakes(
    request: pytest.FixtureRequest, fixture: str, given: dict[str, Any], message: str
) -> None:
    outcome = request.getfixturevalue(fixture)("--json", **given)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {message}")
    assert not message.endswith("\n") or outcome.err == f"error: {message}"


PARTS = {
    "window": "--routing", "layer": "--routing", "step": "--routing", "kv-column": "--kv-lengths",
    "kv-step": "--kv-lengths", "kv-window": "--kv-lengths", "new-column": "--new-tokens",
}  # fmt: skip


@pytest.mark.parametrize("command", ["run", "inspect", "why", "size", "graph", "place"])
@pytest.mark.parametrize(("option", "file"), PARTS.items())
def test_parts_of_files_were_options_of_their_own(
    decode, command: str, option: str, file: str
) -> None:
    outcome = decode(f"--{option}", 1, command=command)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"decoder --{option}: is now part of {file}, as in {file} " in outcome.err


def test_inspect_prints_one_thing(run) -> None:
    outcome = run("--graph", "dot", "--json", command="inspect")
    assert (outcome.code, outcome.out) == (2, "")
    message = "error: --graph and --json both choose what is printed; leave one out\n"
    assert outcome.err == message


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((2, ",window=1"), "layer 0 step 0 has 3 tokens, which makes windows 0..0 of"),
        ((4, ""), "layer 0 step 0 has 3 tokens, fewer than the batch of 4 asked"),
    ],
)
def test_batches_that_are_not_there(run, trace: Path, options: tuple[int, str], says: str) -> None:
    batch, part = options
    outcome = run("--json", "--batch", batch, routing=f"{trace}{part}")
    assert (outcome.code, outcome.out) == (2, "")
    assert says in outcome.err


def test_a_batch_larger_than_the_file(attend, requests: Path) -> None:
    outcome = attend("--json", "--batch", 9)
    message = f"error: --batch: expected at most the 8 requests of {requests}, found 9\n"
    assert (outcome.code, outcome.out, outcome.err) == (2, "", message)


def test_a_size_of_caches_of_ones_own_goes_beyond_the_published_ones(attend, tmp_path) -> None:
    path = tmp_path / "long.npy"
    np.save(path, np.array([9000] * 4))
    outcome = attend("--json", "--config", "published", kv_lengths=path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "error: --config: no published run of 4 requests reserves caches for one of 9000 tokens; "
        "give the size of the caches (max_length)\n"
    )
    options = ("--json", "--config", "published", "--max-length", 9024)
    assert attend(*options, kv_lengths=path).json()["max_length"] == 9024


def test_an_unpublished_model_has_no_variant(decode, tmp_path: Path) -> None:
    path = tmp_path / "wide.npy"
    np.save(path, np.tile(np.arange(8), (8, 1)))
    outcome = decode("--json", model="glm-4.5", routing=path)
    assert (outcome.code, outcome.out) == (2, "")
    assert "--variant: the published figure has no glm-4.5, only mixtral-8x7b" in outcome.err


def test_tokens_and_requests_must_agree(decode, requests: Path, tmp_path: Path) -> None:
    path = tmp_path / "six.npy"
    np.save(path, np.tile([0, 1], (6, 1)))
    outcome = decode("--json", routing=path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"error: --routing: expected one token for each of the 8 requests of {requests}, found 6 "
        f"in {path}; --batch limits both\n"
    )


def test_wrong_number_of_experts_per_token(run, trace: Path) -> None:
    outcome = run("--json", model="mixtral-8x7b")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {trace}: 8 experts per token")
    assert "k = 2" in outcome.err


def test_machine_file_that_is_not_yaml(run, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: [1\n")
    outcome = run("--json", "--machine", path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: machine file {path}:2:1: not valid YAML: ")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/result.parquet", "does not exist; make it first"),
        ("file/result.parquet", "is not a folder; make it first"),
        ("folder", "it is a folder; name a file in it"),
    ],
)
def test_output_that_cannot_be_written(run, tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    outcome = run("--json", "--out", tmp_path / name)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {tmp_path / name}: cannot be written, ")
    assert outcome.err.endswith(f"{reason}\n")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_output_in_a_protected_folder(run, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    outcome = run("--json", "--out", tmp_path / "result.parquet")
    tmp_path.chmod(0o700)
    assert (outcome.code, outcome.out) == (2, "")
    assert "cannot write" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_option_value_is_bad_input(run) -> None:
    outcome = run("--json", "--counting", "exact")
    assert (outcome.code, outcome.out) == (2, "")
    expected = "expected one of executed, published, paper, found 'exact'"
    assert outcome.err == f"error: --counting: {expected}\n"


def test_missing_options_are_bad_input(cli: Cli) -> None:
    outcome = cli("run", "moe", "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "error: --routing: missing; workload moe needs a trace in a file; "
        "`stepsim trace synth` makes a routing trace\n"
    )


@pytest.mark.parametrize("name", ["result.csv", "result", "result.parquet.gz"])
def test_output_of_another_kind(run, tmp_path: Path, name: str) -> None:
    outcome = run("--json", "--out", tmp_path / name)
    assert (outcome.code, outcome.out) == (2, "")
    assert "expected a name that ends in .parquet, for example" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_a_trace_of_another_model_names_both(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mix.parquet"
    table = RoutingTable(np.array([[0, 1], [2, 3]]), layer=0, step=0, model="mix")
    write_routing([table], path)
    outcome = cli("run", "moe", "--model", "qwen3-30b-a3b", "--tile", 4, "--routing", path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"error: {path}: 2 experts per token (model 'mix', layer 0, step 0), but model "
        "'qwen3-30b-a3b' chooses k = 8; check that the trace belongs to this model\n"
    )
