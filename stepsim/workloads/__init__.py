"""Ready-made programs."""

from stepsim.workloads.models import MOE_SHAPES, MoEShape, moe_shape
from stepsim.workloads.moe import MoEWorkload, moe_layer, published_config

__all__ = [
    "MOE_SHAPES",
    "MoEShape",
    "MoEWorkload",
    "moe_layer",
    "moe_shape",
    "published_config",
]
