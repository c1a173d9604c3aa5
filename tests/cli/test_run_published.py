"""Published points through ``stepsim run``: ``--config published`` gives cycles to the unit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.published import KV, ROUTING, canonical_cycles, needs_traces, truth

QWEN, MIXTRAL = "qwen3-30b-a3b", "mixtral-8x7b"
SMALL = ROUTING / "qwen_b64/032_012.npz"


def published(cli: Cli, workload: str, *options: object, **given: object) -> dict[str, Any]:
    flat = [part for key, value in given.items() for part in (f"--{key}".replace("_", "-"), value)]
    outcome = cli("run", workload, *flat, *options, "--config", "published", "--json")
    assert outcome.code == 0, outcome.err
    found = outcome.json()
    assert (found["config"], found["counting"]) == ("published", "published")
    return found


@pytest.mark.parametrize(("tile", "tile_inter"), [(16, 16), (16, 256), (64, 64), (64, 256)])
def test_swiglu(cli: Cli, tile: int, tile_inter: int) -> None:
    found = published(cli, "swiglu", tile=tile, tile_inter=tile_inter)
    assert found["cycles"] == canonical_cycles(f"f8_step_{tile}_{tile_inter}")


@needs_traces
@pytest.mark.parametrize(
    ("model", "file", "tile", "point"),
    [
        *[(QWEN, "qwen_b64/032_012.npz", t, "f9_qwen") for t in (8, 16, 32, 64, "dynamic")],
        (MIXTRAL, "mixtral_b64/008_010.npz", 64, "f9_mixtral"),
        (MIXTRAL, "mixtral_b64/008_010.npz", "dynamic", "f9_mixtral"),
        (QWEN, "qwen_b1024/022_016.npz", "dynamic", "f10_qwen"),
    ],
)
def test_moe(cli: Cli, model: str, file: str, tile: object, point: str) -> None:
    found = published(cli, "moe", model=model, routing=ROUTING / file, tile=tile)
    name = f"{point}_{'dyn' if tile == 'dynamic' else tile}"
    row = truth(name)
    assert found["cycles"] == canonical_cycles(name)
    assert found["offchip_bytes"] == int(row["off_chip_bytes"])
    assert found["onchip_bytes"] == int(row["on_chip_bytes"])
    assert found["flops"] == int(row["flops"])
    assert found["padded_flops"] == int(row["padded_flops"])


@needs_traces
@pytest.mark.parametrize(
    ("tile", "regions"), [(32, 128), (32, 32), (32, 4), ("dynamic", 128), ("dynamic", 8)]
)
def test_moe_with_regions(cli: Cli, tile: object, regions: int) -> None:
    given = {"model": QWEN, "routing": SMALL, "tile": tile, "regions": regions}
    found = published(cli, "moe", **given)
    point = f"f12_{'dyn' if tile == 'dynamic' else 'static'}_{regions}"
    row = truth(point)
    assert found["cycles"] == canonical_cycles(point)
    assert found["offchip_bytes"] == int(row["off_chip_bytes"])
    assert row["on_chip_bytes"] in ("", str(found["onchip_bytes"]))
    assert found["padded_flops"] == int(row["padded_flops"])
    assert found["allocated_flops_per_cycle"] == int(row["allocated_flops"])


@needs_traces
def test_the_published_bandwidth_utilization(cli: Cli) -> None:
    """As printed, to two decimals of a percent; it follows the published counting of stores."""
    given = {"model": QWEN, "routing": SMALL, "tile": 32, "regions": 128}
    row = float(truth("f12_static_128")["offchip_bw_util_pct"])
    assert round(100 * published(cli, "moe", **given)["bandwidth_utilization"], 2) == row
    flat = [part for key, value in given.items() for part in (f"--{key}", value)]
    options = ("--config", "published", "--counting", "executed", "--json")
    executed = cli("run", "moe", *flat, *options).json()
    assert round(100 * executed["bandwidth_utilization"], 2) != row


@needs_traces
@pytest.mark.parametrize(
    ("point", "trace", "batch"),
    [
        ("f14_4185_interleave", "b64/conv_stdev0484_4185_4248.npy", None),
        ("f14_4007_dynamic", "b64/conv_stdev0996_4007_4070.npy", None),
        ("f15_b16_coarse", "b64/conv_stdev0996_4007_4070.npy", 16),
        ("f15_b16_dynamic", "b64/conv_stdev0996_4007_4070.npy", 16),
        ("f15_b64_coarse", "b64/conv_stdev0996_4007_4070.npy", 64),
        ("f21_b16_821_coarse", "b16/conv_stdev1455_0821_0836.npy", None),
        ("f21_b16_821_dynamic", "b16/conv_stdev1455_0821_0836.npy", None),
        ("f21_b64_961_interleave", "b64/conv_stdev1457_0961_1024.npy", None),
    ],
)
def test_attention(cli: Cli, point: str, trace: str, batch: int | None) -> None:
    strategy = point.split("_")[-1].replace("interleave", "interleaved")
    prefix = () if batch is None else ("--batch", batch)
    given = {"model": QWEN, "kv_lengths": KV / trace, "strategy": strategy}
    found = published(cli, "attention", *prefix, **given)
    assert found["cycles"] == canonical_cycles(point)
    assert str(found["regions_built"]) == truth(point)["par_regions"]
    assert found["shape"] == QWEN + "-step"


@needs_traces
def test_two_micro_batches_of_attention(cli: Cli) -> None:
    trace = {"kv_lengths": KV / "b80" / "conv_stdev0986_3989_4068.npy", "strategy": "coarse"}
    found = published(cli, "attention", model=QWEN, **trace)
    assert (found["micro_batches"], found["max_length"]) == ("64+16", 6528)
    one = published(cli, "attention", "--micro-batches", "80", model=QWEN, **trace)
    assert one["cycles"] == found["cycles"]
    spelled = cli(
        "run", "attention", "--model", QWEN + "-step", "--kv-lengths", trace["kv_lengths"],
        "--strategy", "coarse", "--micro-batches", "64+16", "--max-length", 6528,
        "--json",
    )  # fmt: skip
    assert spelled.json()["cycles"] == found["cycles"]


@needs_traces
@pytest.mark.parametrize(
    ("variant", "allocated"), [("memory-matched", 918528), ("dynamic", 427008)]
)
def test_compute_of_a_decoder(cli: Cli, variant: str, allocated: int) -> None:
    lengths = KV / "b64" / "conv_stdev0996_4007_4070.npy"
    given = {"model": QWEN, "variant": variant, "routing": SMALL, "kv_lengths": lengths}
    found = published(cli, "decoder", **given)
    assert (found["status"], found["allocated_flops_per_cycle"]) == ("ok", allocated)
