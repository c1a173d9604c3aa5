"""Decoder layers."""

from stepsim.workloads.decoder.parameters import VARIANTS as VARIANTS, Decoder as Decoder
