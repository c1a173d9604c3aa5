"""``stepsim run decoder`` and ``inspect decoder``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stepsim.cli.decoder import DecoderChoice

from stepsim.machine import load_machine
from tests.cli.conftest import Cli, Outcome
from tests.cli.published import KV, ROUTING, needs_traces
from tests.cli.test_run import REQUIRED

LENGTHS = [5, 0, 40, 31, 32, 63, 64, 7]
MODEL = "mixtral-8x7b"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Eight requests whose tokens choose experts 0 and 1 of Mixtral."""
    kv, routing = tmp_path / "kv.npy", tmp_path / "routing.npy"
    np.save(kv, np.array(LENGTHS))
    np.save(routing, np.tile([0, 1], (8, 1)))
    return {"kv-lengths": kv, "routing": routing}


@pytest.fixture
def run(cli: Cli, files: dict[str, Path]):
    """Run the dynamic variant on the files, unless told otherwise."""

    def call(*options: object, command: str = "run", **replace: object) -> Outcome:
        arguments = {"model": MODEL, "variant": "dynamic", **files, **replace}
        given = {key: value for key, value in arguments.items() if value is not None}
        flat = [part for key, value in given.items() for part in (f"--{key}", value)]
        return cli(command, "decoder", *flat, *options)

    return call


def test_json_is_one_complete_object(run, files: dict[str, Path]) -> None:
    outcome = run("--json")
    assert outcome.code == 0, outcome.err
    found = outcome.json()
    assert {name: type(found[name]) for name in REQUIRED} == REQUIRED
    expected = {
        "workload": "decoder", "model": MODEL, "attention": MODEL, "variant": "dynamic",
        "batch": 8, "tile": "dynamic", "tile_inter": 64, "strategy": "dynamic",
        "expert_regions": None, "attention_regions": 4, "kv_tile": 32, "moe_bw": 1024,
        "attention_bw": 2048, "qkv_bw": 20480, "fifo_depth": 2,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert found["allocated_flops_per_cycle"] == 180224
    exact = run("--json", "--memory-model", "paper").json()
    assert exact["offchip_bytes"] == exact["offchip_bytes"] == found["offchip_bytes"]
    # The published counting has 4-byte scalars in the output.
    assert found["offchip_bytes"] - exact["offchip_bytes"] == 2 * 8 * 4096
    assert exact["allocated_flops_per_cycle"] == 180224 + 1024
    assert found["kv_lengths"]["source"] == str(files["kv-lengths"])
    assert found["routing"]["tokens"] == 8
    assert found["provenance"]


def test_padding_is_what_exact_tiles_do_not_compute(run) -> None:
    static = run("--json", "--tile", 16, "--strategy", "interleaved", variant=None).json()
    dynamic = run("--json", "--tile", "dynamic", "--strategy", "interleaved", variant=None).json()
    assert static["padded_flops"] - dynamic["padded_flops"] == static["flops"] - dynamic["flops"]
    exact = run("--json", "--kv-tile", 1).json()
    assert exact["padded_flops"] == 0
    row_sums = 8 * 8 * 4 * 31
    assert dynamic["padded_flops"] == dynamic["flops"] - exact["flops"] - row_sums > 0


def test_table_names_variant_and_stages(run) -> None:
    outcome = run()
    assert outcome.code == 0
    assert "dynamic: tile dynamic, dynamic attention" in outcome.out
    assert "QKV generation: 20480 FLOPs/cycle" in outcome.out
    assert f"{MODEL} decoder layer, 8 requests" in outcome.out


@pytest.mark.parametrize(
    ("model", "variant", "tile", "tile_inter", "strategy", "regions"),
    [
        (MODEL, "memory-matched", 16, 64, "interleaved", None),
        (MODEL, "performance-matched", 32, 64, "interleaved", None),
        ("qwen3-30b-a3b", "memory-matched", 8, 48, "interleaved", None),
        ("qwen3-30b-a3b", "performance-matched", 64, 48, "interleaved", None),
        ("qwen3-30b-a3b", "dynamic", "dynamic", 48, "dynamic", 32),
    ],
)
def test_variants(model, variant, tile, tile_inter, strategy, regions) -> None:
    found = DecoderChoice(model, variant, config="published").resolve(64, load_machine())
    names = ("tile", "tile_inter", "strategy", "expert_regions")
    assert [found[name] for name in names] == [tile, tile_inter, strategy, regions]
    assert found["attention"] == {MODEL: MODEL}.get(model, "qwen3-30b-a3b-step")


def test_options_win_over_the_variant() -> None:
    choice = DecoderChoice(
        "qwen3-30b-a3b", "dynamic", tile="16", tile_inter=64, strategy="interleaved",
        expert_regions=16, attention_regions=8, moe_bw=1, attention_bw=2, qkv_bw=3, fifo_depth=4,
    )  # fmt: skip
    found = choice.resolve(64, load_machine("sda-1024", {"fifo.depth": 7}))
    names = (
        "tile", "tile_inter", "strategy", "expert_regions", "attention_regions", "moe_bw",
        "attention_bw", "qkv_bw", "fifo_depth",
    )  # fmt: skip
    assert [found[name] for name in names] == [16, 64, "interleaved", 16, 8, 1, 2, 3, 4]


MISTAKES = {
    "variant": (
        {"variant": "dynamc"},
        (),
        "--variant: unknown variant 'dynamc'; did you mean 'dynamic'? "
        "Known: memory-matched, performance-matched, dynamic",
    ),
    "no variant": (
        {"variant": None},
        ("--config", "published"),
        "--config published: the published figure has three variants; choose one with --variant: "
        "memory-matched, performance-matched, dynamic",
    ),
    "no tile": (
        {"variant": None},
        ("--strategy", "dynamic"),
        "--tile is missing; give --tile and --strategy, or a --variant of the published figure",
    ),
    "no strategy": (
        {"variant": None},
        ("--tile", 16),
        "--strategy is missing; give --tile and --strategy, or a --variant of the published figure",
    ),
    "coarse": (
        {},
        ("--strategy", "coarse"),
        "--strategy: unknown strategy 'coarse'. Known: interleaved, dynamic",
    ),
    "expert regions": (
        {},
        ("--expert-regions", 3),
        "--expert-regions: expected a divisor of the 8 experts of mixtral-8x7b, found 3; "
        "the nearest is 8",
    ),
    "attention regions": (
        {},
        ("--attention-regions", 3),
        "--attention-regions: expected a divisor of the 8 requests, found 3; the nearest is 8",
    ),
    "tile": (
        {},
        ("--tile", "tall"),
        "--tile: expected a whole number from 1, or 'dynamic', found 'tall'",
    ),
    "no compute": ({}, ("--qkv-bw", 0), "--qkv-bw: expected a whole number from 1, found 0"),
}


@pytest.mark.parametrize(("replace", "options", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(
    run, replace: dict[str, object], options: tuple[object, ...], message: str
) -> None:
    outcome = run("--json", *options, **replace)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"error: {message}\n")


def test_an_unpublished_model_has_no_variant(run, tmp_path: Path) -> None:
    path = tmp_path / "wide.npy"
    np.save(path, np.tile(np.arange(8), (8, 1)))
    outcome = run("--json", model="glm-4.5", routing=path)
    assert (outcome.code, outcome.out) == (2, "")
    assert "--variant: the published figure has no glm-4.5, only mixtral-8x7b" in outcome.err


def test_tokens_and_requests_must_agree(run, files: dict[str, Path]) -> None:
    np.save(files["routing"], np.tile([0, 1], (6, 1)))
    outcome = run("--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"error: --routing: expected one token for each of the 8 requests of "
        f"{files['kv-lengths']}, found 6 in {files['routing']}; --batch takes the first of both\n"
    )
    mended = run("--json", "--batch", 4).json()
    assert (mended["batch"], mended["routing"]["tokens"], mended["kv_lengths"]["requests"]) == (
        4, 4, 4,
    )  # fmt: skip


def test_inspect_takes_as_many_requests_as_there_are_tokens(run) -> None:
    found = run("--json", command="inspect", **{"kv-lengths": None}).json()
    assert (found["batch"], found["routing"]["tokens"], found["kv_lengths"]) == (8, 8, None)


def test_windows_of_both_files(run, files: dict[str, Path], tmp_path: Path) -> None:
    kv, routing = tmp_path / "long-kv.npy", tmp_path / "long-routing.npy"
    np.save(kv, np.array([1, 2, 3, 4, *LENGTHS[:4]]))
    np.save(routing, np.tile([[2, 3], [0, 1]], (4, 1)))
    windows = ("--batch", 4, "--kv-window", 1, "--window", 0)
    found = run("--json", *windows, **{"kv-lengths": kv, "routing": routing}).json()
    np.save(files["kv-lengths"], np.array(LENGTHS[:4]))
    np.save(files["routing"], np.tile([[2, 3], [0, 1]], (2, 1)))
    alone = run("--json").json()
    assert (found["cycles"], found["batch"]) == (alone["cycles"], 4)
    assert found["kv_lengths"]["identity"] == alone["kv_lengths"]["identity"]
    assert found["routing"]["identity"] == alone["routing"]["identity"]


def test_inspect_has_numbers_when_both_files_are_given(run) -> None:
    found = run("--json", command="inspect").json()
    ran = run("--json").json()
    for name in ("offchip_bytes", "onchip_bytes", "flops", "padded_flops"):
        assert found["numbers"][name] == ran[name]
    half = run("--json", command="inspect", routing=None).json()
    assert (half["numbers"], half["routing"], half["batch"]) == (None, None, 8)
    assert half["formulas"] == found["formulas"]


@needs_traces
@pytest.mark.parametrize(
    ("variant", "allocated"), [("memory-matched", 918528), ("dynamic", 427008)]
)
def test_published_compute(run, variant: str, allocated: int) -> None:
    found = run(
        "--json", "--config", "published", model="qwen3-30b-a3b", variant=variant,
        routing=ROUTING / "qwen_b64" / "032_012.npz",
        **{"kv-lengths": KV / "b64" / "conv_stdev0996_4007_4070.npy"},
    ).json()  # fmt: skip
    assert found["status"] == "ok"
    assert found["allocated_flops_per_cycle"] == allocated
