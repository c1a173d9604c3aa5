"""Workloads: ready-made ones, and those of the user's files and of plugins."""

from stepsim.workloads.attention import Attention
from stepsim.workloads.decoder import Decoder
from stepsim.workloads.models import Model
from stepsim.workloads.moe import Moe
from stepsim.workloads.parameters import (
    KV_LENGTHS,
    ROUTING,
    Built,
    Counted,
    Data,
    Param,
    ParameterError,
)
from stepsim.workloads.resolve import Resolved, resolve
from stepsim.workloads.swiglu import Swiglu
from stepsim.workloads.workload import Workload

__all__ = [
    "KV_LENGTHS",
    "ROUTING",
    "Attention",
    "Built",
    "Counted",
    "Data",
    "Decoder",
    "Model",
    "Moe",
    "Param",
    "ParameterError",
    "Resolved",
    "Swiglu",
    "Workload",
    "resolve",
]
