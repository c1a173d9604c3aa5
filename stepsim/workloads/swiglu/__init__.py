"""The gated feed-forward layer of the hardware validation."""

from stepsim.workloads.swiglu.parameters import Swiglu

__all__ = ["Swiglu"]
