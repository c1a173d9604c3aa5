"""``stepsim run moe``: outputs, options that win over others, exit codes and messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stepsim.machine import load_machine
from stepsim.workloads import Model
from tests.cli.conftest import QWEN_OF_32
from tests.samples import sampled

MOE = Model.parse(QWEN_OF_32).moe
COUNT = MOE.experts


def test_json_is_one_complete_object(run) -> None:
    found = run("--json", "--counting", "published").has(status="ok", diagnosis=None, tile="4")
    # One tile of 4 rows for each of the 8 experts: the closed forms of the published counting.
    d, f = MOE.model_dim, MOE.inner_dim
    assert found["offchip_bytes"] == 8 * 3 * d * f * 2 + 2 * 3 * d + 2 * 3 * 8 + 4 * 3 * d
    assert found["onchip_bytes"] == 2 * d + 2 + 8 * d + COUNT * (6 * d * 64 + 12 * 4 * d)
    assert found["flops"] == 32 * (14 * d * f + f)
    assert found["padded_flops"] == 8 * (14 * d * f + f)
    assert found["allocated_flops_per_cycle"] == 4096 * (6 * COUNT + 1)
    assert found["compute_utilization"] == pytest.approx(
        found["flops"] / found["cycles"] / found["allocated_flops_per_cycle"]
    )
    assert found["bandwidth_utilization"] == pytest.approx(
        found["offchip_bytes"] / found["cycles"] / 1024
    )
    assert 0 < found["bandwidth_utilization"] < 1
    assert found["bus_bytes"] == 64 * found["memory_requests"] >= found["offchip_bytes"] * 0.99


def test_json_holds_what_the_run_depended_on(run, trace: Path) -> None:
    outcome = run("--json", "--set", "hbm.channels=16", "--compute-bw", 2048)
    found = outcome.has(
        machine="sda-1024", peak_bandwidth=512, counting="executed", config=None, tile="4",
        tile_inter=64, compute_bw=2048, fifo_depth=2, batch=3, active_experts=8, max_load=3,
        trace=trace.name,
    )  # fmt: skip
    assert found["machine_json"]["hbm"]["channels"] == 16
    assert found["routing"]["source"] == str(trace)
    assert len(found["trace_id"]) == 64
    assert found["parameters"]["compute_bw"] == 2048
    given = {name for name, origin in found["origins"].items() if origin == "given"}
    assert given == {"model", "tile", "compute_bw"}
    assert found["origins"]["pack_bw"] == "like compute_bw"
    assert outcome.err.startswith("machine sda-1024: HBM 16 channels")
    assert "512 B/cycle peak" in outcome.err


def test_the_published_walk_over_odd_channels_is_reported_of(run) -> None:
    said = "33 channels can take longer than fewer"
    assert said in " ".join(run("--json", "--set", "hbm.channels=33").err.split())
    even = run("--json", "--set", "hbm.channels=33", "--set", "hbm.model=interleaved")
    assert said not in " ".join(even.err.split())


def test_the_same_run_twice_differs_in_time_only(run) -> None:
    first, second = (run("--json").json() for _ in range(2))
    assert first.pop("wall_seconds") > 0
    second.pop("wall_seconds")
    assert first == second


def test_table_shows_numbers_busiest_units_and_speed(run) -> None:
    cycles = run("--json").json()["cycles"]
    outcome = run()
    assert outcome.code == 0
    assert "\x1b" not in outcome.out
    assert outcome.out.startswith("machine sda-1024: HBM 32 channels")
    assert f"{cycles:,}" in outcome.out
    for word in ("off-chip traffic", "on-chip memory", "FLOPs", "compute utilization"):
        assert word in outcome.out
    assert "M steps/s" in outcome.out
    below = outcome.out[outcome.out.index("busiest units") :].splitlines()
    said = [line for line in below[2:] if line.strip()]
    assert len(said) == 5 + 2
    assert said[5].startswith("busiest is the off-chip memory, ")
    assert "`stepsim why`" in said[6]


@pytest.mark.slow
def test_times_depend_on_machine_and_depth_but_not_on_the_counting(run) -> None:
    def cycles(*options: object) -> int:
        return run("--json", *options).json()["cycles"]

    base = cycles()
    assert cycles("--counting", "paper") == base
    assert cycles("--set", "hbm.channels=2") > base
    assert cycles("--fifo-depth", 1) >= base
    assert cycles("--set", "fifo.depth=1") == cycles("--fifo-depth", 1)


@pytest.mark.parametrize("tile", sampled([1, 4, "dynamic"], "dynamic"))
def test_countings_have_names(run, tile: object) -> None:
    executed, paper, published = (
        run("--json", "--counting", counting, tile=tile).has(counting=counting)
        for counting in ("executed", "paper", "published")
    )
    assert executed["offchip_bytes"] == paper["offchip_bytes"]
    # Published scalars of the output have 4 bytes, and idle experts have memory, too.
    assert published["offchip_bytes"] == executed["offchip_bytes"] + 2 * 3 * MOE.model_dim
    assert executed["onchip_bytes"] < published["onchip_bytes"] or tile == "dynamic"
    assert (executed["padded_flops"] == 0) == (tile in (1, "dynamic"))


def test_fewer_regions_allocate_less_and_take_longer(run) -> None:
    alone, shared = run("--json").has(regions=None), run("--json", "--regions", 16).has(regions=16)
    assert shared["allocated_flops_per_cycle"] == 4096 * (6 * 16 + COUNT + 1) - 4096 * 16
    assert shared["cycles"] > alone["cycles"]
    assert shared["offchip_bytes"] == alone["offchip_bytes"]
    assert shared["padded_flops"] == alone["padded_flops"]
    assert "tile 4, regions 16" in run("--regions", 16).out


def test_json_names_the_busiest_units(run) -> None:
    found = run("--json").json()
    units = found["busiest_units"]
    assert len(units) == 5
    parts = ("busy", "wait_memory", "wait_input", "wait_output", "before", "after")
    assert all(sum(unit[part] for part in parts) == found["cycles"] for unit in units)
    assert [unit["busy"] for unit in units] == sorted((u["busy"] for u in units), reverse=True)
    for unit in units:
        assert unit["source"] is None, "users did not write a ready-made workload"
        assert unit["label"] or unit["function"]


def test_a_machine_file_is_as_good_as_a_name(run, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(load_machine("sda-1024", {"name": "mine"}).to_yaml())
    found = run("--json", "--machine", path).json()
    assert found["machine"] == "mine"
    assert found["cycles"] == run("--json").json()["cycles"]


def test_a_limit_ends_with_code_1_and_still_reports(run) -> None:
    outcome = run("--json", "--max-cycles", 100)
    assert outcome.code == 1
    assert outcome.json()["status"] == "limit"
    assert "run failed, stopped by the limit max_cycles" in outcome.err


@pytest.mark.slow
def test_a_process_of_its_own(trace: Path) -> None:
    """As the installed command: it tunes its process, which tests above do not see."""
    code = "from stepsim.cli import main; main()"
    options = ["--model", "qwen3-30b-a3b", "--routing", str(trace), "--tile", "dynamic", "--json"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, "run", "moe", *options],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "ok"


def test_a_batch_of_the_trace_is_a_run_of_its_own(run, tmp_path: Path) -> None:
    ids = np.concatenate([np.tile(np.arange(8), (3, 1)), np.arange(32).reshape(4, 8)])
    np.save(tmp_path / "long.npy", ids)
    np.save(tmp_path / "part.npy", ids[4:6])
    found = run("--json", "--batch", 2, routing=f"{tmp_path / 'long.npy'},window=2").json()
    alone = run("--json", routing=tmp_path / "part.npy").json()
    assert (found["cycles"], found["batch"]) == (alone["cycles"], 2)
    assert (found["routing"]["first_token"], found["window"]) == (4, 2)
    first = run("--json", "--batch", 3, routing=tmp_path / "long.npy").json()
    assert (first["active_experts"], first["batch"]) == (8, 3)
