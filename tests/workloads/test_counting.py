"""Executed quantities: what a run did and needs, like for like between static and dynamic tiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from stepsim.simulation.cases.case import Case, make_case
from stepsim.workloads import Attention, Data, Moe
from stepsim.workloads.models import AttentionShape, MoEShape
from tests.workloads.support import exact, run

EXPERTS = MoEShape("tiny", experts=6, active=2, model_dim=64, inner_dim=128)
HEADS = AttentionShape("tiny", model_dim=64, heads=4, kv_heads=2, head_dim=16)
ROWS = 40
TILES = (8, 64, "dynamic")
D, F = EXPERTS.model_dim, 64  # the inner dimension is tiled by 64


def routed(used: int) -> Data:
    """Two of the first ``used`` experts for each of 40 tokens; the others stay idle."""
    tokens = np.arange(ROWS)
    return Data.of(routing=np.stack([tokens % used, (tokens + 1) % used], axis=1))


def layer(tile: int | str) -> Moe:
    return Moe(model=EXPERTS, tile=tile)


def onchip(tile: int | str, used: int, counting: str = "executed") -> int:
    data = routed(used)
    return exact(layer(tile).build(data), data, counting).on_chip_memory


def of_one_expert(rows: int) -> int:
    """Bytes that an expert needs for tiles of so many rows, by the formulas of the paper."""
    width = 2
    weights = 2 * 3 * D * F * width  # double-buffered loads of up, gate and down
    # Products hold 16 rows of the left side (16 x inner) and the right side; the last also its sum.
    up = gate = (16 * D + D * F) * width
    down = (16 * F + F * D + rows * D) * width
    pack = repeat = rows * D * width
    return weights + up + gate + down + pack + repeat


@pytest.mark.parametrize("used", [2, 4])
def test_idle_experts_need_no_memory_whatever_the_tile(used):
    """As many bytes for each idle expert as one with data needs, for static tiles alike."""
    for tile in (8, 64):
        saved = onchip(tile, 6) - onchip(tile, used)
        assert saved == (6 - used) * of_one_expert(tile)
        assert onchip(tile, used, "paper") == onchip(tile, 6, "paper") == onchip(tile, 6)
    # 80 rows in all; an idle expert takes its own buffers along, the rows go to the others.
    saved = onchip("dynamic", 6) - onchip("dynamic", used)
    assert saved == (6 - used) * of_one_expert(0)


@pytest.mark.parametrize("used", [2, 4, 5])
def test_static_and_dynamic_tiles_of_equal_height_need_equal_memory(used):
    """Like for like: a static tile as high as the rows of every expert in use is a dynamic one."""
    (each,) = set(np.bincount(routed(used).routing.ravel()).tolist())
    assert onchip(each, used) == onchip("dynamic", used)


def measured(tile: int | str, data: Data, counting: str) -> tuple[Case, Mapping[str, object]]:
    case = make_case("moe", data, model=EXPERTS, tile=tile, counting=counting)
    return case, case.measures(case.run(data), data)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("used", [2, 4, 6])
def test_symbols_tell_what_the_run_does(tile, used):
    data = routed(used)
    built, result = run(layer(tile), data)
    counted = exact(built, data)
    assert result.status == "ok"
    assert counted.off_chip_traffic == result.offchip_bytes
    assert counted.flops == result.flops
    used_rows = (
        2 * ROWS
        if tile == "dynamic"
        else sum(-(-int(n) // tile) * tile for n in np.bincount(data.routing.ravel()))
    )
    padding = (used_rows - 2 * ROWS) * (6 * D + 9) * EXPERTS.inner_dim
    assert built.padded_flops(data) == padding


@pytest.mark.parametrize("tile", TILES)
def test_measures_are_counted_as_named(tile):
    data = routed(4)
    case, executed = measured(tile, data, "executed")
    done = case.run(data)
    assert executed["offchip_bytes"] == done.offchip_bytes
    assert executed["flops"] == done.flops
    assert executed["onchip_bytes"] == onchip(tile, 4)
    assert executed["compute_utilization"] == pytest.approx(
        done.flops / done.cycles / executed["allocated_flops_per_cycle"]
    )
    _, paper = measured(tile, data, "paper")
    assert paper["onchip_bytes"] == onchip(tile, 4, "paper") > executed["onchip_bytes"]
    case, published = measured(tile, data, "published")
    counted = case.built.published(data)
    for name in ("offchip_bytes", "onchip_bytes", "flops", "padded_flops"):
        assert published[name] == getattr(counted, name), name
    assert published["flops"] != executed["flops"]
    for other in (paper, published):
        assert other["cycles"] == executed["cycles"]
        assert other["tokens"] == executed["tokens"]


@pytest.mark.parametrize("strategy", ["coarse", "interleaved", "dynamic"])
def test_attention_tells_what_the_run_does(strategy):
    data = Data.of(kv_lengths=[5, 0, 40, 31, 32, 63, 64, 7])
    built, result = run(Attention(model=HEADS, strategy=strategy), data)
    counted = exact(built, data)
    assert (counted.off_chip_traffic, counted.flops) == (result.offchip_bytes, result.flops)
    assert built.symbols(data)
