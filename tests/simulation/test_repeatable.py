"""The same program gives the same result, again and again."""

from __future__ import annotations

import gc
import json

import numpy as np
import psutil
import pytest

import stepsim as st
from stepsim._version import MODEL_VERSION, __version__
from stepsim.simulation import simulate, simulate_network
from stepsim.workloads import Moe
from tests.layers import built
from tests.simulation.checks import check_accounts
from tests.simulation.programs import INDICES, centered, long_network, simulate_moe


@pytest.mark.parametrize("tile", [2, 4, "dynamic"])
def test_the_same_program_twice(tile: int | str) -> None:
    first, second = simulate_moe(tile), simulate_moe(tile)
    assert first.status == "ok"
    assert first.units.equals(second.units, check_metadata=True)
    assert first.fifos.equals(second.fifos, check_metadata=True)
    assert first.provenance == second.provenance
    drop = ["wall_seconds"]
    assert first.to_arrow().drop(drop).equals(second.to_arrow().drop(drop))


@pytest.mark.parametrize("tile", [2, "dynamic"])
def test_accounts_add_up(tile: int | str) -> None:
    result = simulate_moe(tile)
    assert result.units.num_rows > 100
    check_accounts(result)
    units = result.units.to_pandas()
    assert result.cycles == max(
        units["final_clock"].max(), units[units["requests"] > 0]["final_clock"].max() + 3
    )
    assert result.offchip_bytes == units["offchip_bytes"].sum() > 0
    assert result.flops == units["flops"].sum() > 0
    assert result.memory_requests == units["requests"].sum()
    assert result.bus_bytes == 64 * result.memory_requests >= result.offchip_bytes
    assert result.engine_steps == units["firings"].sum()
    fifos = result.fifos.to_pandas()
    assert result.tokens == fifos["sent"].sum()
    assert (fifos["sent"] == fifos["received"]).all()


def test_longest_wait_is_among_the_waits() -> None:
    result = simulate_moe()
    fifos = result.fifos.to_pylist()
    for unit in result.units.to_pylist():
        waits = [c["consumer_wait"] for c in fifos if c["consumer"] == unit["name"]]
        waits += [c["producer_wait"] for c in fifos if c["producer"] == unit["name"]]
        waits.append(unit["wait_memory"])
        if max(waits) == 0:
            assert unit["longest_wait"] is None
            assert unit["longest_wait_cycles"] is None
        else:
            assert unit["longest_wait_cycles"] == max(waits)


def test_provenance() -> None:
    result = simulate(centered(8), seed=7)
    found = result.provenance
    assert found["program_hash"] == centered(8).fingerprint()
    assert len(found["image_hash"]) == 64
    assert found["machine"] == st.load_machine("sda-1024").to_dict()
    assert found["fifo_depth"] == 8
    assert found["seed"] == 7
    assert found["model_version"] == MODEL_VERSION
    assert found["versions"]["stepsim"] == __version__
    assert {"python", "numba", "llvmlite", "numpy"} < set(found["versions"])
    assert json.loads(result.to_arrow()["provenance"][0].as_py()) == found


def test_what_changes_the_run_changes_the_image_hash() -> None:
    slow = st.load_machine("sda-1024", {"hbm.latency": 3})
    runs = [
        simulate(centered(8)), simulate(centered(8), fifo_depth=9),
        simulate(centered(8), machine=slow),
    ]  # fmt: skip
    assert len({run.provenance["image_hash"] for run in runs}) == 3
    assert [run.provenance["fifo_depth"] for run in runs] == [8, 9, 8]
    assert runs[2].cycles > runs[0].cycles


@pytest.mark.long
def test_memory_does_not_grow() -> None:
    network = long_network(200)
    process = psutil.Process()

    def run(times: int) -> int:
        for _ in range(times):
            simulate_network(network)
        gc.collect()
        return process.memory_info().rss

    before = run(30)
    assert run(400) - before < 20 * 2**20  # a kept run would be 0.1 MB of slots


def test_long_streams_do_not_fill_the_memory() -> None:
    # Tokens are recycled: the arena of a long run is that of a short one.
    from stepsim.kernels.driver import execute
    from stepsim.lowering import build_image

    sizes = [len(execute(build_image(long_network(n))).slots) for n in (100, 20_000)]
    assert sizes[0] == sizes[1]


def test_more_channels_and_rows_scale_the_traffic() -> None:
    def traffic(batch: int) -> int:
        layer, bindings = built(
            Moe, routing=np.tile(INDICES, (batch // 8, 1)), model="mixtral-8x7b", tile="dynamic",
            tile_inter=1792,
        )  # fmt: skip
        return simulate(layer.program, bindings=bindings).offchip_bytes

    weights = 3 * 4096 * 14336 * 2 * 8  # every expert is used, whatever the batch
    rows = [traffic(batch) - weights for batch in (8, 16)]
    assert rows[1] == 2 * rows[0] > 0
