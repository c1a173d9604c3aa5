"""Rewrites of a finished program on its way to the engine; the program itself never changes."""

from stepsim.graph.rewrites.wiring import WiredChannel, WiredUnit, Wiring, wire

__all__ = ["WiredChannel", "WiredUnit", "Wiring", "wire"]
