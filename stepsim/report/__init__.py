"""Results for people: tables of the terminal, and all pictures."""

from stepsim.report.designs import DesignLook, DesignPoint, draw_designs
from stepsim.report.tilings import TilingPoint, draw_tilings
from stepsim.report.traces import draw_requests, draw_routing

__all__ = [
    "DesignLook",
    "DesignPoint",
    "TilingPoint",
    "draw_designs",
    "draw_requests",
    "draw_routing",
    "draw_tilings",
]
