"""The gated feed-forward layer of the hardware validation."""

from stepsim.workloads.swiglu.parameters import Swiglu as Swiglu
