"""The expert that every token visits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stepsim.graph as st
from stepsim.workloads import Data, Moe, ParameterError
from stepsim.workloads.models import MoEShape
from tests.workloads.support import exact, run

PLAIN = MoEShape("plain", experts=4, active=2, model_dim=64, inner_dim=128)
SHARED = replace(PLAIN, name="shared", shared_inner=192)
ROWS = 40
BATCH = Data.of(routing=np.stack([np.arange(ROWS) % 3, np.full(ROWS, 3)], axis=1))


@pytest.mark.parametrize(("tile", "passes"), [(1, 40), (8, 5), (7, 6), ("dynamic", 1)])
@pytest.mark.parametrize("regions", [None, 2])
def test_it_reads_activations_and_its_own_weights(tile, passes, regions):
    _, plain = run(Moe(model=PLAIN, tile=tile, regions=regions), BATCH)
    built, shared = run(Moe(model=SHARED, tile=tile, regions=regions), BATCH)
    assert (plain.status, shared.status) == ("ok", "ok")
    more = shared.offchip_bytes - plain.offchip_bytes
    assert more == 2 * ROWS * 64 + passes * 3 * 64 * 192 * 2
    counted = exact(built, BATCH)
    assert shared.offchip_bytes == counted.off_chip_traffic
    assert shared.flops == counted.flops


def test_its_ports_come_last():
    built = Moe(model=SHARED, tile=8).build(BATCH)
    wiring = st.wire(built.program, built.bindings(BATCH))
    loads = [u.name.split("#")[0] for u in wiring.units if u.kind.endswith("OffChipLoad")]
    assert loads[-5:] == [
        "router_scales", "shared_activations", "load_up.shared", "load_gate.shared",
        "load_down.shared",
    ]  # fmt: skip


def test_published_flops_count_its_rows():
    plain, shared = (
        Moe(model=model, tile=16).build(BATCH).published(BATCH) for model in (PLAIN, SHARED)
    )
    each = 14 * 64 * 192 + 192
    assert shared.flops - plain.flops == 48 * each
    assert shared.padded_flops - plain.padded_flops == 8 * each


def test_the_inner_tile_divides_both_inner_dims():
    with pytest.raises(ParameterError, match=r"tile_inter: expected a divisor of .* 64 of shared"):
        Moe(model=SHARED, tile=8, tile_inter=128).build(BATCH)
