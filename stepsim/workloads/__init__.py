"""Ready-made programs."""

from stepsim.workloads.attention import (
    AttentionWorkload,
    attention,
    published_attention_config,
)
from stepsim.workloads.decoder import DecoderWorkload, decoder_layer, published_decoder_config
from stepsim.workloads.models import (
    ATTENTION_SHAPES,
    MOE_SHAPES,
    AttentionShape,
    MoEShape,
    attention_shape,
    moe_shape,
)
from stepsim.workloads.moe import MoEWorkload, moe_layer, published_config
from stepsim.workloads.moe_config import MOE_DEFAULTS, published_moe_config
from stepsim.workloads.swiglu import SwiGLUWorkload, published_swiglu_config, swiglu_layer
from stepsim.workloads.time_multiplexing import (
    TimeMultiplexedMoE,
    published_time_multiplexing_config,
    time_multiplexed_moe,
)

__all__ = [
    "ATTENTION_SHAPES",
    "MOE_DEFAULTS",
    "MOE_SHAPES",
    "AttentionShape",
    "AttentionWorkload",
    "DecoderWorkload",
    "MoEShape",
    "MoEWorkload",
    "SwiGLUWorkload",
    "TimeMultiplexedMoE",
    "attention",
    "attention_shape",
    "decoder_layer",
    "moe_layer",
    "moe_shape",
    "published_attention_config",
    "published_config",
    "published_decoder_config",
    "published_moe_config",
    "published_swiglu_config",
    "published_time_multiplexing_config",
    "swiglu_layer",
    "time_multiplexed_moe",
]
