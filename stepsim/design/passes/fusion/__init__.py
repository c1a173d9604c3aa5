"""Fusion: which kernels are on the chip together."""
