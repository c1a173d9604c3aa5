"""The compute bandwidth of a whole machine, and the regions that share it."""

from __future__ import annotations

from stepsim.machine.section import Section, integer, optional, section

_FLOPS = integer(1, 1 << 30)


@section
class Compute(Section):
    """Compute bandwidth of a machine, in total and per operator."""

    flops_per_cycle: int | None = optional(
        _FLOPS,
        "total FLOPs per cycle of the machine; a program whose operators have more together does "
        "not fit",
    )
    regions: int | None = optional(
        integer(1, 1 << 10),
        "dies or regions, which share compute bandwidth and on-chip memory evenly; what a program "
        "places in one must fit there",
    )
    unit_flops_per_cycle: int | None = optional(
        _FLOPS,
        "FLOPs per cycle of every operator that computes, overriding those of the program",
    )
