"""Prices of the resources of a machine, in any unit: area, power, money.

Simulated times never depend on them. They weigh resources against each other when designs are
compared: 64 memory channels are faster than 32, and cost more.
"""

from __future__ import annotations

from stepsim.machine.section import Section, nullable, number, section, setting, text

_PRICE = nullable(number(0))


@section
class Costs(Section):
    """Prices of the resources of a machine; null means no price."""

    unit: str = setting(text(empty=True), "unit of the costs, such as mm2", default="")
    hbm_channel: float | None = setting(_PRICE, "cost of one off-chip channel", default=None)
    hbm_bytes_per_cycle: float | None = setting(
        _PRICE, "cost of one byte per cycle of off-chip peak bandwidth", default=None
    )
    onchip_bytes_per_cycle: float | None = setting(
        _PRICE, "cost of one byte per cycle of onchip.bytes_per_cycle", default=None
    )
    onchip_byte: float | None = setting(
        _PRICE, "cost of one byte of on-chip memory, FIFOs included", default=None
    )
    flops_per_cycle: float | None = setting(
        _PRICE, "cost of one FLOP per cycle of an operator", default=None
    )
