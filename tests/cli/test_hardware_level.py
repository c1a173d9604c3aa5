"""``stepsim run --level hardware``."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

LAYER = ("run", "swiglu", "--config", "published", "--tile", 64, "--tile-inter", 64)


def test_json_has_the_columns_of_every_level(cli) -> None:
    found = cli(*LAYER, "--level", "hardware", "--json").has(
        cycles=9700, status="ok", machine="hdl", level="hardware", memory_requests=4228,
        allocated_flops_per_cycle=3 * 8192,
    )  # fmt: skip
    assert found["dram_commands"]["rd"] == 4108
    assert found["provenance"]["level"] == "hardware"
    assert found["machine_json"]["fifo_depth"] == 2


def test_tables_and_files(cli, tmp_path) -> None:
    done = cli(*LAYER, "--level", "hardware", "--out", tmp_path / "run.parquet")
    assert done.code == 0
    assert "9,700" in done.out
    assert "DRAM commands: 873 ACT" in done.out
    assert {path.name for path in tmp_path.iterdir()} >= {"run.parquet", "run.units.parquet"}


def test_the_machine_can_be_changed(cli) -> None:
    found = cli(*LAYER, "--level", "hardware", "--json", "--set", "memory.pointer=1").json()
    assert found["machine_json"]["memory"]["pointer"] == 1
    assert found["cycles"] != 9700


def test_the_machine_can_be_named_or_read_from_a_file(cli, tmp_path) -> None:
    named = cli(*LAYER, "--level", "hardware", "--json", "--machine", "hdl-fair").json()
    assert named["machine"] == "hdl-fair"
    assert named["machine_json"]["memory"]["arbiter"] == "fair"
    file = tmp_path / "my.yaml"
    file.write_text(cli("machines", "--show", "hdl-fair").out.replace("hdl-fair", "mine"))
    from_file = cli(
        *LAYER, "--level", "hardware", "--json", "--machine", file, "--set", "fifo_depth=3"
    ).json()
    assert from_file["machine"] == "mine"
    assert from_file["machine_json"] == named["machine_json"] | {"name": "mine", "fifo_depth": 3}


def test_bandwidth_is_a_share_of_the_memory_in_use(cli) -> None:
    one = cli(*LAYER, "--level", "hardware", "--json").json()
    assert one["peak_bandwidth"] == 256
    assert one["bandwidth_utilization"] == pytest.approx(2162688 / 9700 / 256)
    # Requests of 64 bytes reach every channel; then a request per cycle is the limit.
    many = ("--set", "memory.request_bytes=64")
    assert cli(*LAYER, "--level", "hardware", "--json", *many).json()["peak_bandwidth"] == 64


def test_machines_are_listed_with_those_of_the_tile_level(cli) -> None:
    assert "hdl-spread" in cli("machines").out
    found = cli("machines", "--json").json()
    assert (found["hdl"]["level"], found["hdl"]["peak_bandwidth"]) == ("hardware", 256)
    assert found["sda-hdl"]["level"] == "tile"
    shown = cli("machines", "--show", "hdl", "--set", "memory.pointer=2", "--json").json()
    assert shown["memory"]["pointer"] == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--fifo-depth", 3), "--fifo-depth has no effect with --level hardware"),
        (("--compute-bw", 3), "--compute-bw has no effect with --level hardware"),
        (("--set", "hbm.channels=2"), "unknown key 'hbm.channels'"),
        (("--why",), "--why explains runs at the tile level; leave --level hardware out"),
        (("--record",), "--record has no effect"),
        (("--ensemble", "4,fifo.depth=0:1"), "did you mean 'fifo_depth'?"),
        (("--set", "depth=3"), "unknown key 'depth'"),
        (("--set", "fifo_depth=0"), "fifo_depth"),
        (("--set", "fifo_depth="), "expected key=value"),
        (("--machine", "hdl-fare"), "unknown machine 'hdl-fare'; did you mean 'hdl-fair'?"),
        (("--machine", "sda-hdl"), "sda-hdl is a machine of the tile level"),
        (("--machine", "nowhere.yaml"), "machine file nowhere.yaml: no such file"),
        (("--hardware", "hdl-fair"), "is now --machine and --set"),
    ],
)
def test_what_has_no_effect_is_refused(cli, given, message) -> None:
    done = cli(*LAYER, "--level", "hardware", *given)
    assert done.code != 0
    assert message in done.err


def test_an_ensemble_is_of_the_machine_of_this_level(cli) -> None:
    options = ("--ensemble", "4,seed=3,memory.pointer=0:2")
    found = cli(*LAYER, "--level", "hardware", "--json", *options).json()
    members = found["ensemble"]["cycles"]
    assert len(members) == 4
    assert found["ensemble"]["bounds"]["memory.pointer"] == [0, 2]
    assert min(members) <= found["cycles_p5"] <= found["cycles_median"] <= found["cycles_p95"]
    assert found["ensemble"]["seed"] == 3


def test_an_ensemble_is_checked_before_the_run(cli) -> None:
    """The run itself would end at its limit, without an ensemble."""
    short = (*LAYER, "--level", "hardware", "--max-cycles", "1")
    bounds = ",".join(
        f"{one}=0" for one in
        ("memory.pointer", "memory.return_delay", "dram.read_queue", "dram.write_queue",
         "fifo_depth")
    )  # fmt: skip
    done = cli(*short, "--ensemble", f"2,{bounds}")
    assert (done.code, "nothing is left to disturb" in done.err) == (2, True)


def test_hardware_needs_its_level(cli) -> None:
    assert "add --level hardware" in cli(*LAYER, "--machine", "hdl-fair").err


def test_pages_and_comparisons_say_that_they_are_of_tiles(cli, tmp_path) -> None:
    run = tmp_path / "run.parquet"
    cli(*LAYER, "--level", "hardware", "--out", run)
    for command in (("report", run, "--out", tmp_path / "a.html"), ("compare", run, run)):
        done = cli(*command)
        assert done.code == 2
        assert "expected a run at the level of tiles, found one at the hardware level" in done.err


def test_sweeps_are_of_the_tile_level(cli, tmp_path) -> None:
    (tmp_path / "s.yaml").write_text("workload: swiglu\nlevel: hardware\ngrid: {tile: [16, 64]}\n")
    done = cli("sweep", "run", tmp_path / "s.yaml", "--dry-run")
    assert done.code != 0
    assert "level: sweeps run at the tile level; leave it out" in done.err


def test_parameters_of_the_tile_level_are_not_reported(cli, tmp_path) -> None:
    text = cli(*LAYER, "--level", "hardware").out
    assert "batch 64 (published), hidden 256 (published)" in text
    for name in ("compute-bw", "par-dispatch", "fifo-depth"):
        assert name not in text
        assert name in cli(*LAYER).out
    file = tmp_path / "run.parquet"
    found = cli(*LAYER, "--level", "hardware", "--json", "--out", file).json()
    for name in ("compute_bw", "par_dispatch", "fifo_depth"):
        assert found[name] is None
        assert name not in found["parameters"]
        assert name not in found["origins"]
    assert found["hidden"] == 256
    assert pq.read_table(file)["compute_bw"].to_pylist() == [None]


def test_a_counting_without_effect_is_refused(cli) -> None:
    outcome = cli(*LAYER, "--level", "hardware", "--counting", "paper")
    assert outcome.code == 2
    assert outcome.err == (
        "error: --counting paper has no effect with --level hardware, where every operator "
        "receives data, so that it counts as executed does; leave it out\n"
    )
    assert cli(*LAYER, "--level", "hardware", "--counting", "executed").code == 0
