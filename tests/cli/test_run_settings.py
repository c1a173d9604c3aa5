"""Which options, machines and published configurations win over which, for ``run moe``."""

from __future__ import annotations

from typing import Any

import pytest

from stepsim.cli.moe import MoeChoice
from stepsim.errors import ArgError
from stepsim.machine import load_machine

QWEN = "qwen3-30b-a3b"

SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": (
        {"tile": 32},
        {"tile_inter": 64, "compute_bw": 4096, "pack_bw": 4096, "fifo_depth": 2},
    ),
    "static as published": (
        {"tile": 32, "config": "published"},
        {"tile_inter": 64, "compute_bw": 4096, "pack_bw": 4096, "fifo_depth": 2},
    ),
    "dynamic as published": (
        {"tile": "dynamic", "config": "published"},
        {"tile_inter": 64, "compute_bw": 6400, "pack_bw": 1024, "fifo_depth": 2},
    ),
    "large batch as published": (
        {"tile": 32, "config": "published", "batch": 1024},
        {"tile_inter": 64, "compute_bw": 4096, "pack_bw": 4096, "fifo_depth": 1024},
    ),
    "options win": (
        {
            "tile": "dynamic",
            "config": "published",
            "tile_inter": 48,
            "compute_bw": 512,
            "fifo_depth": 3,
        },
        {"tile_inter": 48, "compute_bw": 512, "pack_bw": 1024, "fifo_depth": 3},
    ),
    "the machine wins over the configuration": (
        {"tile": 32, "config": "published", "machine": {"fifo.depth": 7}},
        {"tile_inter": 64, "compute_bw": 4096, "pack_bw": 4096, "fifo_depth": 7},
    ),
    "an option wins over the machine": (
        {"tile": 32, "fifo_depth": 5, "machine": {"fifo.depth": 7}},
        {"tile_inter": 64, "compute_bw": 4096, "pack_bw": 4096, "fifo_depth": 5},
    ),
}


@pytest.mark.parametrize(("given", "expected"), SETTINGS.values(), ids=SETTINGS)
def test_settings(given: dict[str, Any], expected: dict[str, Any]) -> None:
    given = dict(given)
    machine = load_machine("sda-1024", given.pop("machine", None))
    batch, tile = given.pop("batch", 64), given.pop("tile")
    settings = MoeChoice(QWEN, str(tile), **given).resolve(batch, machine)
    assert settings.to_dict() == {"tile": tile, "regions": None, **expected}


@pytest.mark.parametrize("inner", [0, -8, 50, 1000])
def test_tile_inter_must_divide(inner: int) -> None:
    with pytest.raises(ArgError) as caught:
        MoeChoice(QWEN, "32", tile_inter=inner).resolve(64, load_machine())
    assert str(caught.value).startswith(
        "--tile-inter: expected a divisor of the inner dimension 768 of qwen3-30b-a3b, "
        f"found {inner}; near ones are "
    )


def test_only_published_models_have_a_published_configuration() -> None:
    with pytest.raises(ArgError) as caught:
        MoeChoice("glm-4.5", "32", config="published").resolve(64, load_machine())
    assert str(caught.value) == (
        "--config published: there is no published experiment of glm-4.5; "
        "there are of mixtral-8x7b and qwen3-30b-a3b"
    )
