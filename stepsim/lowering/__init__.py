"""From a program to the flat arrays of the engine."""

from __future__ import annotations

from stepsim.lowering.builder import build_image
from stepsim.lowering.image import Image
from stepsim.lowering.lower import default_depth, lower, network_of, timing_of, unit_bandwidth
from stepsim.lowering.network import ChannelSpec, Network, TimingParams, UnitSpec

__all__ = [
    "ChannelSpec",
    "Image",
    "Network",
    "TimingParams",
    "UnitSpec",
    "build_image",
    "default_depth",
    "lower",
    "network_of",
    "timing_of",
    "unit_bandwidth",
]
