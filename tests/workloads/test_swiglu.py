"""The SwiGLU layer of the hardware validation: traffic, graph, bad input."""

from __future__ import annotations

import pytest

import stepsim.graph as st
from stepsim.workloads import Built, Data, ParameterError, Swiglu


def published(tile: int, tile_inter: int) -> Built:
    return Swiglu.of(tile=tile, tile_inter=tile_inter, config="published").build(Data())


@pytest.mark.parametrize(
    ("tile", "tile_inter", "traffic"),
    [
        (16, 16, 8_454_144), (16, 256, 6_488_064), (32, 64, 3_735_552), (64, 16, 3_735_552),
        (64, 64, 2_162_688), (64, 256, 1_769_472),
    ],
)  # fmt: skip
@pytest.mark.parametrize("counting", ["published", "paper", "executed"])
def test_traffic(tile, tile_inter, traffic, counting):
    metrics = published(tile, tile_inter).program.metrics(counting=counting)
    assert metrics.off_chip_traffic == traffic


def test_flops_and_compute():
    built = published(16, 64)
    matmuls, elementwise = 3 * 2 * 64 * 256 * 512, (8 + 1) * 64 * 512
    for counting in ("published", "paper", "executed"):
        assert built.program.metrics(counting=counting).flops == matmuls + elementwise
    assert built.program.metrics().allocated_compute == 5 * 4096


def test_order_and_write_back():
    wiring = st.wire(published(16, 64).program)
    loads = [u.name.split("#")[0] for u in wiring.units if u.kind == "OffChipLoad"]
    assert loads == ["activations", "gate", "up", "down"]
    params = {u.name.split("#")[0]: u.params for u in wiring.units}
    assert params["matmul_down"]["wb"] is True
    assert params["activations"] == {
        "tile": [16, 256], "view": [4, 8, 1], "par": 4, "bpe": 4, "lead": False,
    }  # fmt: skip
    assert params["columns"]["s"] == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tile": 15}, "tile: expected a divisor of the batch of 64, found 15"),
        ({"tile_inter": 60}, "tile_inter: expected a divisor of the inner dimension 512, found 60"),
        ({"tile": 0}, "tile: expected a whole number from 1, found 0"),
        ({"batch": 64.0}, r"batch: expected a whole number from 1, found 64\.0"),
        ({"hidden": True}, "hidden: expected a whole number from 1, found True"),
    ],
)
def test_bad_parameters(changes, message):
    sizes = {"batch": 64, "hidden": 256, "intermediate": 512, "tile": 16, "tile_inter": 64}
    with pytest.raises(ParameterError, match=message):
        Swiglu(**sizes | changes).build(Data())
