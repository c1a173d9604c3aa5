"""``stepsim run moe --regions``: experts that share regions of hardware."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Cli, Outcome
from tests.cli.published import ROUTING, canonical_cycles, needs_traces, truth


@pytest.fixture
def run(cli: Cli, tmp_path: Path):
    """Run three tokens that all choose experts 0 to 7 of Qwen3, unless told otherwise."""
    path = tmp_path / "routing.npy"
    np.save(path, np.tile(np.arange(8), (3, 1)))

    def call(*options: object, **replace: object) -> Outcome:
        arguments = {"model": "qwen3-30b-a3b", "routing": path, "tile": 4, **replace}
        flat = [part for key, value in arguments.items() for part in (f"--{key}", value)]
        return cli("run", "moe", *flat, *options)

    return call


def test_fewer_regions_allocate_less_and_take_longer(run) -> None:
    alone, shared = run("--json").json(), run("--json", "--regions", 16).json()
    assert (alone["regions"], shared["regions"]) == (None, 16)
    assert shared["allocated_flops_per_cycle"] == 4096 * (5 * 16 + 128 + 1)
    assert shared["cycles"] > alone["cycles"]
    assert shared["offchip_bytes"] == alone["offchip_bytes"]
    assert shared["padded_flops"] == alone["padded_flops"]
    assert "tile 4, 16 regions" in run("--regions", 16).out


def test_options_win_over_the_published_configuration(run) -> None:
    found = run("--json", "--regions", 16, "--config", "published", "--tile-inter", 64).json()
    assert [found[name] for name in ("tile_inter", "compute_bw", "fifo_depth")] == [64, 1024, 2]


@pytest.mark.parametrize(
    ("replace", "options", "message"),
    [
        (
            {},
            ("--regions", 24),
            "--regions: expected a divisor of the 128 experts of qwen3-30b-a3b, found 24; "
            "near ones are 8, 16, 32",
        ),
        (
            {"model": "mixtral-8x7b"},
            ("--regions", 3),
            "--regions: expected a divisor of the 8 experts of mixtral-8x7b, found 3; "
            "the nearest is 8",
        ),
        (
            {"model": "mixtral-8x7b"},
            ("--regions", 8, "--config", "published"),
            "--config published: there is no published experiment of mixtral-8x7b with shared "
            "regions; there is one of qwen3-30b-a3b",
        ),
    ],
)
def test_mistakes(run, tmp_path: Path, replace, options, message: str) -> None:
    path = tmp_path / "two.npy"
    np.save(path, np.array([[0, 1]]))
    if replace:
        replace = {**replace, "routing": path}
    outcome = run("--json", *options, **replace)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"error: {message}\n")


def test_inspect_counts_regions(cli: Cli) -> None:
    command = ("inspect", "moe", "--model", "qwen3-30b-a3b", "--tile", 32, "--regions", 16)
    lines = [line.split() for line in cli(*command).out.splitlines()]
    assert [words[2] for words in lines if words[:2] == ["map", "silu"]] == ["16"]
    assert cli(*command, "--json").json()["regions"] == 16


@needs_traces
@pytest.mark.parametrize(
    ("tile", "regions"), [(32, 128), (32, 32), (32, 4), ("dynamic", 128), ("dynamic", 8)]
)
def test_published_points(cli: Cli, run, tile: object, regions: int) -> None:
    point = f"f12_{'dyn' if tile == 'dynamic' else 'static'}_{regions}"
    options = ("--regions", regions, "--config", "published", "--json")
    trace = ROUTING / "qwen_b64" / "032_012.npz"
    found = run(*options, tile=tile, routing=trace).json()
    row = truth(point)
    assert found["cycles"] == canonical_cycles(point)
    assert found["offchip_bytes"] == int(row["off_chip_bytes"])
    assert row["on_chip_bytes"] in ("", str(found["onchip_bytes"]))
    assert found["padded_flops"] == int(row["padded_flops"])
    assert found["allocated_flops_per_cycle"] == int(row["allocated_flops"])
    inspected = cli(
        "inspect", "moe", "--model", "qwen3-30b-a3b", "--tile", tile, "--routing", trace, *options
    ).json()["numbers"]
    assert inspected["onchip_bytes"] == found["onchip_bytes"]
