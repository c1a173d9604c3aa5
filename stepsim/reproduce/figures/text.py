"""Headlines of the paper's abstract and setup, which belong to no figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stepsim.machine import load_machine
from stepsim.reproduce.figures.attention import over_coarse
from stepsim.reproduce.figures.regions import utilization_gain
from stepsim.reproduce.headline import Headline, ratio


def _setting(section: str, claim: str, machine: str, value: Callable[[Any], float]) -> Headline:
    return ratio(section, claim, lambda n: value(load_machine(machine)), unit="bytes/cycle")


HEADLINES: Final = (
    ratio(
        "abstract", "dynamic parallelisation latency improvement", lambda n: over_coarse(n, 16)
    ),
    utilization_gain("abstract", "time-multiplexing utilisation improvement", "static"),
    _setting(
        "setup", "on-chip memory unit bandwidth", "sda-1024", lambda m: m.onchip.bytes_per_cycle
    ),
    _setting("setup", "off-chip bandwidth", "sda-1024", lambda m: m.peak_bandwidth),
    _setting(
        "setup", "on-chip bandwidth for the HDL validation", "sda-hdl",
        lambda m: m.onchip.bytes_per_cycle,
    ),
)  # fmt: skip
