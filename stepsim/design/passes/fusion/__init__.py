"""Fusion: groups of kernels that are on the chip together."""
