"""The SwiGLU layer of the hardware validation: traffic, graph, bad input."""

from __future__ import annotations

import pytest

import stepsim.graph as st
from stepsim.errors import ArgError
from stepsim.workloads import published_swiglu_config, swiglu_layer


@pytest.mark.parametrize(
    ("tile", "tile_inter", "traffic"),
    [
        (16, 16, 8_454_144), (16, 256, 6_488_064), (32, 64, 3_735_552), (64, 16, 3_735_552),
        (64, 64, 2_162_688), (64, 256, 1_769_472),
    ],
)  # fmt: skip
@pytest.mark.parametrize("memory", ["published", "paper"])
def test_traffic(tile, tile_inter, traffic, memory):
    work = swiglu_layer(**published_swiglu_config(tile, tile_inter))
    assert work.metrics(memory=memory).off_chip_traffic == traffic


def test_flops_and_compute():
    work = swiglu_layer(**published_swiglu_config(16, 64))
    matmuls, elementwise = 3 * 2 * 64 * 256 * 512, (8 + 1) * 64 * 512
    assert work.metrics().flops == matmuls + elementwise
    assert work.allocated_compute == 5 * 4096


def test_order_and_write_back():
    wiring = st.wire(swiglu_layer(**published_swiglu_config(16, 64)).program)
    loads = [u.name.split("#")[0] for u in wiring.units if u.kind == "OffChipLoad"]
    assert loads == ["activations", "gate", "up", "down"]
    params = {u.name.split("#")[0]: u.params for u in wiring.units}
    assert params["matmul_down"]["wb"] is True
    assert params["activations"] == {
        "tile": [16, 256], "view": [4, 8, 1], "par": 4, "bpe": 4, "lead": False,
    }  # fmt: skip
    assert params["columns"]["s"] == 1


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((64, 256, 512, 15, 64), "tile must divide batch = 64, found 15"),
        ((64, 256, 512, 16, 60), "tile_inter must divide intermediate = 512, found 60"),
        ((64, 256, 512, 0, 64), "tile must be an int >= 1, found 0"),
        ((64.0, 256, 512, 16, 64), r"batch must be an int >= 1, found 64\.0"),
        ((64, True, 512, 16, 64), "hidden must be an int >= 1, found True"),
    ],
)
def test_bad_sizes(sizes, message):
    with pytest.raises(ArgError, match=message):
        swiglu_layer(*sizes)
