"""The parameters of a design point are those of ``stepsim run`` with the same options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepsim.cli.attention import AttentionChoice
from stepsim.cli.decoder import DecoderChoice
from stepsim.cli.inputs import Requests
from stepsim.cli.moe import MoeChoice
from stepsim.cli.swiglu import SwigluChoice
from stepsim.errors import SweepError
from stepsim.machine import load_machine
from stepsim.sweep.kinds import find_shape, resolve_parameters

QWEN = "qwen3-30b-a3b"
MIXTRAL = "mixtral-8x7b"
MACHINES = (load_machine(), load_machine("sda-1024", {"fifo.depth": 7}))


def resolved(
    workload: str, model: str, given: dict[str, Any], machine: Any, *batches: int
) -> dict[str, Any]:
    shape = find_shape(workload, model)
    return resolve_parameters(workload, given, shape, machine, batches)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("batch", [64, 1024])
@pytest.mark.parametrize(
    ("model", "given"),
    [
        (QWEN, {"tile": 32}),
        (QWEN, {"tile": 32, "regions": 128}),
        (QWEN, {"tile": 32, "regions": 32}),
        (QWEN, {"tile": "dynamic", "regions": 32, "compute_bw": 512}),
        (QWEN, {"tile": 32, "tile_inter": 48, "fifo_depth": 5}),
        (QWEN, {"tile": 32, "config": "published"}),
        (QWEN, {"tile": "dynamic", "config": "published"}),
        (QWEN, {"tile": 32, "regions": 16, "config": "published"}),
        (MIXTRAL, {"tile": 8, "regions": 4}),
        (MIXTRAL, {"tile": "dynamic", "config": "published", "compute_bw": 100}),
    ],
)
def test_moe(model: str, given: dict[str, Any], batch: int, machine: Any) -> None:
    choice = MoeChoice(model=model, **{**given, "tile": str(given["tile"])})
    expected = choice.resolve(batch, machine).to_dict()
    assert resolved("moe", model, given, machine, batch) == expected


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("given", [{}, {"regions": 2, "kv_tile": 16}, {"fifo_depth": 3}])
@pytest.mark.parametrize("strategy", ["coarse", "interleaved", "dynamic"])
def test_attention(strategy: str, given: dict[str, Any], machine: Any) -> None:
    lengths = np.arange(1, 9)
    choice = AttentionChoice(model=QWEN, strategy=strategy, **given)
    expected = choice.resolve(Requests(lengths, len(lengths), "kv.npy"), machine)
    found = resolved("attention", QWEN, {"strategy": strategy, **given}, machine)
    assert found == {name: expected[name] for name in found}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("given", [{}, {"compute_bw": 64, "par_dispatch": 2, "fifo_depth": 3}])
def test_swiglu(given: dict[str, Any], machine: Any) -> None:
    sizes = {"batch": 32, "hidden": 64, "intermediate": 128, "tile": 16, "tile_inter": 32}
    expected = SwigluChoice(**sizes, **given).resolve(machine)
    del expected["dtype"]
    assert resolve_parameters("swiglu", {**sizes, **given}, None, machine) == expected


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "given",
    [
        {"tile": 8, "strategy": "dynamic"},
        {"tile": "dynamic", "strategy": "interleaved", "expert_regions": 16, "fifo_depth": 3},
        {"variant": "performance-matched"},
        {"variant": "dynamic", "moe_bw": 512},
    ],
)
def test_decoder(given: dict[str, Any], machine: Any) -> None:
    tile = {"tile": str(given["tile"])} if "tile" in given else {}
    expected = DecoderChoice(model=QWEN, **{**given, **tile}).resolve(64, machine)
    found = resolved("decoder", QWEN, given, machine)
    assert {k: v for k, v in found.items() if k != "variant"} == {
        k: v for k, v in expected.items() if k != "moe"
    }


def test_published_experiments() -> None:
    def message(model: str, given: dict[str, Any], *batches: int) -> str:
        with pytest.raises(SweepError) as caught:
            resolved("moe", model, {**given, "config": "published"}, MACHINES[0], *batches)
        return str(caught.value)

    assert "no published experiment of mixtral-8x7b with shared regions; there is one of " in (
        message(MIXTRAL, {"tile": 8, "regions": 4})
    )
    assert "no published experiment of deepseek-r1; there are of mixtral-8x7b and qwen3" in message(
        "deepseek-r1", {"tile": 8}
    )
    assert "different fifo_depth, 2 and 1024; give fifo_depth, or select batches of one" in message(
        QWEN, {"tile": 8}, 64, 1024
    )
