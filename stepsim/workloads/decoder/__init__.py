"""Decoder layers."""

from stepsim.workloads.decoder.parameters import VARIANTS, Decoder

__all__ = ["VARIANTS", "Decoder"]
