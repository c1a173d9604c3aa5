"""The expert that every token visits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stepsim.graph as st
from stepsim import simulate
from stepsim.errors import ArgError
from stepsim.workloads import MoEShape, moe_layer, time_multiplexed_moe

PLAIN = MoEShape("plain", experts=4, active=2, model_dim=64, inner_dim=128)
SHARED = replace(PLAIN, name="shared", shared_inner=192)
ROWS = 40
TABLE = np.stack([np.arange(ROWS) % 3, np.full(ROWS, 3)], axis=1)


@pytest.mark.parametrize(("tile", "passes"), [(1, 40), (8, 5), (7, 6), ("dynamic", 1)])
@pytest.mark.parametrize("regions", [None, 2])
def test_it_reads_activations_and_its_own_weights(tile, passes, regions):
    if regions is None:
        made = [moe_layer(s, ROWS, tile, 64, indices=TABLE) for s in (PLAIN, SHARED)]
    else:
        made = [
            time_multiplexed_moe(s, ROWS, tile, regions, 64, indices=TABLE)
            for s in (PLAIN, SHARED)
        ]  # fmt: skip
    plain, shared = (simulate(w.program) for w in made)
    assert (plain.status, shared.status) == ("ok", "ok")
    more = shared.offchip_bytes - plain.offchip_bytes
    assert more == 2 * ROWS * 64 + passes * 3 * 64 * 192 * 2
    exact = made[1].program.metrics(memory="paper").bind()
    assert shared.offchip_bytes == exact.off_chip_traffic
    assert shared.flops == exact.flops


def test_its_ports_come_last():
    wiring = st.wire(moe_layer(SHARED, ROWS, 8, 64, indices=TABLE).program)
    loads = [u.name.split("#")[0] for u in wiring.units if u.kind.endswith("OffChipLoad")]
    assert loads[-5:] == [
        "router_scales", "shared_activations", "load_up.shared", "load_gate.shared",
        "load_down.shared",
    ]  # fmt: skip


def test_published_flops_count_its_rows():
    plain, shared = (moe_layer(s, ROWS, 16, 64) for s in (PLAIN, SHARED))
    each = 14 * 64 * 192 + 192
    assert shared.published_flops(TABLE) - plain.published_flops(TABLE) == 48 * each
    padding = shared.published_padded_flops(TABLE) - plain.published_padded_flops(TABLE)
    assert padding == 8 * each


def test_the_inner_tile_divides_both_inner_dims():
    with pytest.raises(ArgError, match="tile_inter a divisor of 128 and 192, found 40, 128"):
        moe_layer(SHARED, ROWS, 8, 128)
