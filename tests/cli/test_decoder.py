"""``stepsim run decoder`` and ``inspect decoder``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import LENGTHS


def test_json_is_one_complete_object(decode) -> None:
    found = decode("--json").has(
        workload="decoder", model="mixtral-8x7b", attention="mixtral-8x7b", variant="dynamic",
        batch=8, tile="dynamic", tile_inter=64, strategy="dynamic", expert_regions=None,
        attention_regions=4, kv_tile=32, moe_bw=1024, attention_bw=2048, qkv_bw=20480,
        fifo_depth=2, allocated_flops_per_cycle=181248, trace="two.npy", lengths="kv.npy",
    )  # fmt: skip
    assert found["routing"]["tokens"] == found["kv_lengths"]["requests"] == 8
    assert found["origins"]["tile"] == "published"
    published = decode("--json", "--counting", "published").has(allocated_flops_per_cycle=180224)
    # The published counting has 4-byte scalars in the output.
    assert published["offchip_bytes"] - found["offchip_bytes"] == 2 * 8 * 4096


def test_padding_is_what_exact_tiles_do_not_compute(decode) -> None:
    given = ("--json", "--strategy", "interleaved", "--parts", "qkv+attention+experts")
    static = decode(*given, "--tile", 16, variant=None).json()
    dynamic = decode(*given, "--tile", "dynamic", variant=None).json()
    assert static["padded_flops"] - dynamic["padded_flops"] == static["flops"] - dynamic["flops"]
    exact = decode("--json", "--kv-tile", 1).json()
    assert exact["padded_flops"] == 0
    row_sums = 8 * 8 * 4 * 31
    assert dynamic["padded_flops"] == dynamic["flops"] - exact["flops"] - row_sums > 0


def test_table_names_variant_and_stages(decode) -> None:
    outcome = decode()
    assert outcome.code == 0
    assert "variant dynamic, tile dynamic (published)" in outcome.out
    assert "qkv-bw 20480 FLOPs/cycle" in outcome.out
    assert "decoder, 8 requests" in outcome.out
    assert "parts qkv+attention+experts (published)" in outcome.out
    assert "left out: norms before attention and before the experts; rotary em" in outcome.out


@pytest.mark.slow
def test_what_is_left_out_stands_in_the_output(decode) -> None:
    whole = decode("--json", "--tile", 4, "--strategy", "dynamic", variant=None).json()
    assert whole["parts"] == "norms+qkv+rotary+attention+output+residuals+router+experts"
    assert whole["origins"]["parts"] == "model"
    assert whole["left_out"].startswith("scaling of scores")
    some = decode("--json", "--parts", "output,experts", kv_lengths=None, batch=8).json()
    assert (some["parts"], some["origins"]["parts"]) == ("output+experts", "given")
    assert "QKV generation; rotary embedding; attention; residual" in some["left_out"]
    listed = decode("--json", command="inspect").json()
    assert listed["left_out"] == decode("--json").json()["left_out"]
    assert "left out: norms before" in decode(command="inspect").out


ATTENTION = {"variant": None, "routing": None, "strategy": "dynamic"}
EXPERTS = {"variant": None, "kv_lengths": None, "tile": 4}


@pytest.mark.parametrize("command", ["run", "inspect"])
@pytest.mark.parametrize(
    ("parts", "given", "changes", "message"),
    [
        (
            "qkv+attention", ATTENTION, {"tile": 4},
            "error: --tile: has no effect on qkv+attention, only on experts; leave it out, or add "
            "experts to parts",
        ),
        (
            "qkv+attention", ATTENTION, {"routing": "two.npy"},
            "error: --routing: has no effect on qkv+attention, only on experts; leave it out",
        ),
        (
            "experts", EXPERTS, {"kv_lengths": "kv.npy"},
            "error: --kv-lengths: has no effect on experts, only on attention; leave it out",
        ),
        ("experts", EXPERTS, {"tile": None}, "error: --tile: missing (rows per tile)"),
        ("qkv+attention", ATTENTION, {"strategy": None}, "error: --strategy: missing (how"),
    ],
)  # fmt: skip
def test_parts_take_what_they_use(
    decode, requests: Path, parts: str, given: dict, changes: dict, message: str, command: str
) -> None:
    for name in ("routing", "kv_lengths"):
        if name in changes:
            changes = changes | {name: requests.with_name(changes[name])}
    assert decode("--parts", parts, command=command, **given).code == 0
    refused = decode("--parts", parts, command=command, **given | changes)
    assert refused.code == 2
    assert message in refused.err


def test_parts_without_traces(decode) -> None:
    given = {"variant": None, "routing": None, "kv_lengths": None, "batch": 5}
    found = decode("--json", "--parts", "qkv", **given).has(
        batch=5, routing=None, kv_lengths=None, tile=None, kv_tile=None, strategy=None, moe_bw=None,
        attention_regions=4,
    )  # fmt: skip
    assert found["parameters"]["kv_tile"] is None
    assert found["origins"]["kv_tile"] == "unused"
    assert found["provenance"]["parameters"]["kv_tile"] is None
    shown = decode("--parts", "qkv", **given).out
    assert "decoder, 5 requests" in shown
    assert "qkv-bw" in shown
    assert "kv-tile" not in shown
    missing = decode("--parts", "attention", strategy="dynamic", **given)
    assert "--kv-lengths: missing; workload decoder needs a trace in a file\n" in missing.err


def test_batch_takes_the_first_of_both_files(decode) -> None:
    found = decode("--json", "--batch", 4).has(batch=4)
    assert found["routing"]["tokens"] == found["kv_lengths"]["requests"] == 4


def test_inspect_takes_as_many_requests_as_there_are_tokens(decode) -> None:
    found = decode("--json", command="inspect", kv_lengths=None).json()
    assert (found["batch"], found["routing"]["tokens"], found["kv_lengths"]) == (8, 8, None)


def test_windows_of_both_files(decode, requests: Path, tmp_path: Path) -> None:
    kv, routing = tmp_path / "long-kv.npy", tmp_path / "long-routing.npy"
    np.save(kv, np.array([1, 2, 3, 4, *LENGTHS[:4]]))
    np.save(routing, np.tile([[2, 3], [0, 1]], (4, 1)))
    windows = {"kv_lengths": f"{kv},window=1", "routing": f"{routing},window=0"}
    found = decode("--json", "--batch", 4, **windows).json()
    np.save(requests, np.array(LENGTHS[:4]))
    np.save(tmp_path / "two.npy", np.tile([[2, 3], [0, 1]], (2, 1)))
    alone = decode("--json").json()
    assert (found["cycles"], found["batch"]) == (alone["cycles"], 4)
    for name in ("trace_id", "lengths_id"):
        assert found[name] == alone[name]


@pytest.mark.slow
def test_inspect_has_numbers_when_both_files_are_given(decode) -> None:
    found = decode("--json", command="inspect").json()
    ran = decode("--json").json()
    for name in ("offchip_bytes", "onchip_bytes", "flops", "padded_flops"):
        assert found["numbers"][name] == ran[name]
    half = decode("--json", command="inspect", routing=None).json()
    assert (half["numbers"], half["routing"], half["batch"]) == (None, None, 8)
    assert half["formulas"] == found["formulas"]
