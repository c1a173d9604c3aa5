"""Rewrites of a finished program on its way to the engine; the program itself never changes."""

from stepsim.graph.rewrites.wiring import WiredFifo, WiredUnit, Wiring, wire

__all__ = ["WiredFifo", "WiredUnit", "Wiring", "wire"]
