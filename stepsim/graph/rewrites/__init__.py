"""Rewrites of a finished program on its way to the engine; the program itself never changes."""

from stepsim.graph.rewrites.wiring import (
    WiredFifo as WiredFifo,
    WiredUnit as WiredUnit,
    Wiring as Wiring,
    wire as wire,
)
