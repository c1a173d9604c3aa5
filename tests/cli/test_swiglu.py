"""``stepsim run swiglu`` and ``inspect swiglu``."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Cli, Outcome
from tests.cli.published import canonical_cycles
from tests.cli.test_run import REQUIRED

SIZES = ("--batch", 64, "--hidden", 256, "--intermediate", 512)


@pytest.fixture
def run(cli: Cli):
    """Run with tiles of 16 x 32, unless told otherwise."""

    def call(*options: object, tile: object = 16, tile_inter: object = 32) -> Outcome:
        return cli("run", "swiglu", "--tile", tile, "--tile-inter", tile_inter, *options)

    return call


def test_json_is_one_complete_object(run) -> None:
    found = run(*SIZES, "--json").json()
    assert {name: type(found[name]) for name in REQUIRED} == REQUIRED
    assert found["offchip_bytes"] == 4 * (64 * 256 * 16 + 3 * 256 * 512 * 4 + 64 * 256)
    assert found["offchip_bytes"] == found["offchip_bytes"]
    assert found["padded_flops"] == 0
    assert found["allocated_flops_per_cycle"] == 5 * 4096
    assert found["machine"]["name"] == "sda-1024"
    expected = {
        "workload": "swiglu", "batch": 64, "hidden": 256, "intermediate": 512, "tile": 16,
        "tile_inter": 32, "compute_bw": 4096, "par_dispatch": 4, "fifo_depth": 1, "dtype": "f32",
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected


def test_half_as_wide_scalars_move_half_the_bytes(run) -> None:
    wide = run(*SIZES, "--json").json()
    narrow = run(*SIZES, "--json", "--dtype", "bf16").json()
    assert 2 * narrow["offchip_bytes"] == wide["offchip_bytes"]
    assert narrow["cycles"] < wide["cycles"]


def test_the_published_configuration_brings_sizes_and_machine(run) -> None:
    published = run("--config", "published", "--json").json()
    assert published["machine"]["name"] == "sda-hdl"
    assert [published[name] for name in ("batch", "hidden", "intermediate")] == [64, 256, 512]
    elsewhere = run("--config", "published", "--machine", "sda-1024", "--json").json()
    assert elsewhere["machine"]["name"] == "sda-1024"
    assert elsewhere["cycles"] == run(*SIZES, "--json").json()["cycles"]
    assert elsewhere["cycles"] != published["cycles"]
    larger = run("--config", "published", "--batch", 128, "--json").json()
    assert (larger["batch"], larger["hidden"]) == (128, 256)


def test_table(run) -> None:
    outcome = run("--config", "published")
    assert outcome.out.startswith("machine sda-hdl")
    assert "SwiGLU 64 x 256 x 512, tile 16 x 32" in outcome.out


def test_depth_comes_from_option_machine_and_default(run) -> None:
    def depth(*options: object) -> int:
        return run(*SIZES, "--json", *options).json()["fifo_depth"]

    assert depth() == 1
    assert depth("--set", "fifo.depth=7") == 7
    assert depth("--set", "fifo.depth=7", "--fifo-depth", 3) == 3


MISSING = "give --batch, --hidden and --intermediate, or --config published"


@pytest.mark.parametrize(
    ("tiles", "options", "message"),
    [
        (
            {"tile": 24},
            SIZES,
            "--tile: expected a divisor of the batch of 64, found 24; near ones are 8, 16, 32",
        ),
        (
            {"tile_inter": 100},
            SIZES,
            "--tile-inter: expected a divisor of the inner dimension 512, found 100; "
            "near ones are 32, 64, 128",
        ),
        (
            {"tile": 0},
            SIZES,
            "--tile: expected a divisor of the batch of 64, found 0; near ones are 8, 16, 32",
        ),
        ({}, SIZES[:4], f"--intermediate: the size is missing; {MISSING}"),
        ({}, (), f"--batch: the size is missing; {MISSING}"),
        ({}, (*SIZES, "--hidden", 0), "--hidden: expected a whole number from 1, found 0"),
    ],
)
def test_mistakes(run, tiles: dict[str, object], options, message: str) -> None:
    outcome = run("--json", *options, **tiles)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"error: {message}\n")


def test_inspect_has_numbers_at_once(cli: Cli, run) -> None:
    command = ("inspect", "swiglu", "--tile", 16, "--tile-inter", 32, *SIZES)
    found = cli(*command, "--json").json()
    ran = run(*SIZES, "--json").json()
    for name in ("offchip_bytes", "onchip_bytes", "flops"):
        assert found["numbers"][name] == ran[name]
    assert found["formulas"]["offchip_bytes"] == str(ran["offchip_bytes"])
    assert "matmul_gate" in cli(*command).out


@pytest.mark.parametrize(("tile", "tile_inter"), [(16, 16), (16, 256), (64, 64), (64, 256)])
def test_published_points(run, tile: int, tile_inter: int) -> None:
    outcome = run("--config", "published", "--json", tile=tile, tile_inter=tile_inter)
    assert outcome.json()["cycles"] == canonical_cycles(f"f8_step_{tile}_{tile_inter}")
