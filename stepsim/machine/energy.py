"""Energy of accesses, operations and time.

Simulated times never depend on it. Runs on a machine with such a table report joules, in total and
by operator.
"""

from __future__ import annotations

from stepsim.machine.section import Section, number, optional, section, setting, text
from stepsim.typed import typed

_PICOJOULES = number(0)


@section
class Energy(Section):
    """Energy of a byte, of a FLOP of each element type, and of time. Sources are named.

    Byte energies default to 0. FLOP energies have no default: a program that computes with an
    element type without an entry is rejected.
    """

    sources: str = setting(text(), "where the numbers come from: papers, data sheets, measurements")
    offchip_pj_per_byte: float = setting(
        _PICOJOULES, "pJ per byte on the off-chip bus, whole requests", default=0.0
    )
    onchip_read_pj_per_byte: float = setting(
        _PICOJOULES, "pJ per byte read from on-chip memory", default=0.0
    )
    onchip_write_pj_per_byte: float = setting(
        _PICOJOULES, "pJ per byte written to on-chip memory", default=0.0
    )
    fifo_pj_per_byte: float = setting(
        _PICOJOULES, "pJ per byte that passes a FIFO, in and out", default=0.0
    )
    chip_link_pj_per_byte: float | None = optional(
        _PICOJOULES,
        "pJ per byte over a link between chips; without it the energy of links is not counted",
    )
    static_watts: float = setting(
        number(0), "static power of a chip in W; above 0 it requires clock_ghz", default=0.0
    )
    flop_pj_f32: float | None = optional(_PICOJOULES, "pJ per FLOP on elements of type f32")
    flop_pj_bf16: float | None = optional(_PICOJOULES, "pJ per FLOP on elements of type bf16")
    flop_pj_f16: float | None = optional(_PICOJOULES, "pJ per FLOP on elements of type f16")
    flop_pj_f8e4m3: float | None = optional(_PICOJOULES, "pJ per FLOP on elements of type f8e4m3")
    flop_pj_f8e5m2: float | None = optional(_PICOJOULES, "pJ per FLOP on elements of type f8e5m2")
    flop_pj_i8: float | None = optional(_PICOJOULES, "pJ per operation on elements of type i8")
    flop_pj_f4: float | None = optional(_PICOJOULES, "pJ per FLOP on elements of type f4")
    flop_pj_i4: float | None = optional(_PICOJOULES, "pJ per operation on elements of type i4")

    @typed
    def flop_pj(self, element: str) -> float | None:
        """pJ per FLOP on elements of a type, by its name; None where the table has no entry."""
        found: float | None = getattr(self, f"flop_pj_{element}", None)
        return found
