"""Resources of an FPGA that a compiled design is laid out on.

Simulated times never depend on it. The compiler uses it to choose element types, memory kinds for
buffers and FIFOs, and dies for kernels.
"""

from __future__ import annotations

from stepsim.machine.section import Section, integer, section, setting, text

_BLOCKS = integer(0, 1 << 30)


@section
class Device(Section):
    """Resources of an FPGA, and the element types of designs for it."""

    dies: int = setting(integer(1, 64), "dies, which share the resources evenly", default=1)
    lutram_blocks: int = setting(
        _BLOCKS, "lookup tables usable as memory, of 64 bits each", default=0
    )
    bram_blocks: int = setting(_BLOCKS, "block memories of 18 Kbit, 512 x 36 bits", default=0)
    uram_blocks: int = setting(_BLOCKS, "large memories of 288 Kbit, 4096 x 72 bits", default=0)
    weight_dtype: str = setting(text(), "element type of weights", default="bf16")
    activation_dtype: str = setting(text(), "element type of activations", default="bf16")
