"""What a mixture-of-experts layer is built with when it is not said, and as it was published."""

from __future__ import annotations

from typing import Any

from stepsim.errors import ArgError
from stepsim.workloads.models import MoEShape
from stepsim.workloads.moe import published_config
from stepsim.workloads.time_multiplexing import published_time_multiplexing_config

__all__ = ["MOE_DEFAULTS", "published_moe_config"]

MOE_DEFAULTS = {"tile_inter": 64, "compute_bw": 4096, "fifo_depth": 2}
"""For layers of a region for each expert and of regions that experts share alike."""

_MODELS = ("mixtral-8x7b", "qwen3-30b-a3b")
_MODELS_OF_SHARED_REGIONS = ("qwen3-30b-a3b",)


def published_moe_config(
    shape: MoEShape, batch: int, tile: int | str, regions: int | None
) -> dict[str, Any]:
    """Arguments of the published experiment; ``regions`` are those that experts share, if any do.

    Raises
    ------
    ArgError : no experiment with this model was published.
    """
    models = _MODELS if regions is None else _MODELS_OF_SHARED_REGIONS
    if shape.name not in models:
        shared = "" if regions is None else " with shared regions"
        raise ArgError(
            f"there is no published experiment of {shape.name}{shared}; "
            f"there {'are' if len(models) > 1 else 'is one'} of {' and '.join(models)}"
        )
    if regions is None:
        return published_config(shape.name, batch, tile)
    return published_time_multiplexing_config(tile, regions)
