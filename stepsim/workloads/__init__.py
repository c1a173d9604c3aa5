"""Ready-made programs."""

from stepsim.workloads.models import MOE_SHAPES, MoEShape, moe_shape
from stepsim.workloads.moe import MoEWorkload, moe_layer, published_config
from stepsim.workloads.moe_multiplexed import moe_multiplexed
from stepsim.workloads.swiglu import swiglu_layer

__all__ = [
    "MOE_SHAPES",
    "MoEShape",
    "MoEWorkload",
    "moe_layer",
    "moe_multiplexed",
    "moe_shape",
    "published_config",
    "swiglu_layer",
]
