"""The lowest bit of a word, as kernels ask for it.

:mod:`stepsim.kernels.build.bits_types` compiles it to one instruction.
"""

from __future__ import annotations


def lowest(word: int) -> int:
    """The place of the lowest bit of a word that is not 0."""
    return (int(word) & -int(word)).bit_length() - 1
