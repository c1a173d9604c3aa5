"""``stepsim run swiglu`` and ``inspect swiglu``."""

from __future__ import annotations

import re

import pytest

FROM_THERE = dict.fromkeys(("batch", "hidden", "intermediate"))


def test_json_is_one_complete_object(feed) -> None:
    feed("--json").has(
        workload="swiglu", batch=64, hidden=256, intermediate=512, tile="16", tile_inter=32,
        compute_bw=4096, par_dispatch=4, fifo_depth=1, weight_dtype="f32", activation_dtype="f32",
        offchip_bytes=4 * (64 * 256 * 16 + 3 * 256 * 512 * 4 + 64 * 256), padded_flops=0,
        allocated_flops_per_cycle=5 * 4096, machine="sda-1024",
    )  # fmt: skip


def test_half_as_wide_scalars_move_half_the_bytes(feed) -> None:
    wide = feed("--json").json()
    narrow = feed("--json", "--weight-dtype", "bf16", "--activation-dtype", "bf16").json()
    assert 2 * narrow["offchip_bytes"] == wide["offchip_bytes"]
    assert narrow["cycles"] < wide["cycles"]


def test_the_published_configuration_brings_sizes_and_machine(feed) -> None:
    published = feed("--config", "published", "--json", **FROM_THERE).json()
    assert published["machine"] == "sda-hdl"
    assert [published[name] for name in ("batch", "hidden", "intermediate")] == [64, 256, 512]
    elsewhere = feed(
        "--config", "published", "--machine", "sda-1024", "--json", **FROM_THERE
    ).json()
    assert elsewhere["machine"] == "sda-1024"
    assert elsewhere["cycles"] == feed("--json").json()["cycles"]
    assert elsewhere["cycles"] != published["cycles"]
    larger = feed("--config", "published", "--batch", 128, "--json", **FROM_THERE).json()
    assert (larger["batch"], larger["hidden"]) == (128, 256)


def test_table(feed) -> None:
    outcome = feed("--config", "published", **FROM_THERE)
    assert outcome.out.startswith("machine sda-hdl")
    assert "left to the run" not in outcome.out
    assert re.search(r"FIFO depth \d+ (of the (machine|program)|by default|as given)", outcome.out)
    assert (
        "batch 64 (published), hidden 256 (published), intermediate 512 (published)" in outcome.out
    )


def test_depth_comes_from_option_machine_and_default(feed) -> None:
    def depth(*options: object) -> int:
        return feed("--json", *options).json()["fifo_depth"]

    assert depth() == 1
    assert depth("--set", "fifo.depth=7") == 7
    assert depth("--set", "fifo.depth=7", "--fifo-depth", 3) == 3


def test_inspect_has_numbers_at_once(feed) -> None:
    seen, ran = (feed("--json", command=command).json() for command in ("inspect", "run"))
    for name in ("offchip_bytes", "onchip_bytes", "flops"):
        assert seen["numbers"][name] == ran[name]
    assert seen["formulas"]["offchip_bytes"] == str(ran["offchip_bytes"])
    assert "matmul_gate" in feed(command="inspect").out


def test_allocated_compute_is_what_the_machine_gives_every_operator(feed) -> None:
    stated = feed("--json", "--set", "compute.unit_flops_per_cycle=8192").json()
    assert stated["allocated_flops_per_cycle"] == 5 * 8192
    rate = stated["flops"] / stated["cycles"]
    assert stated["compute_utilization"] == pytest.approx(rate / (5 * 8192))
