"""The experts that the router of a StepDB mixture chooses, from the seeded numbers of its source.

All weights are drawn from a Mersenne twister with seed 42 before the tokens and the router are, so
the choice depends on the sizes of the experts.
"""

from __future__ import annotations

from functools import cache

import numpy as np

__all__ = ["Normals", "experts_of_tokens"]

SEED = 42


class Normals:
    """Standard normal numbers: uniforms of 24 bits, paired by 16 and transformed (Box, Muller)."""

    def __init__(self) -> None:
        self.bits = np.random.MT19937()
        # The classic recurrence from one 32-bit word; a bit generator alone hashes its seed.
        np.random.RandomState(self.bits).seed(SEED)

    def skip(self, count: int) -> None:
        self.bits.random_raw(count, output=False)

    def draw(self, *shape: int) -> np.ndarray:
        """An array whose size is a multiple of 16."""
        count = int(np.prod(shape))
        assert count % 16 == 0
        words = self.bits.random_raw(count).reshape(-1, 2, 8)
        uniform = (words & 0xFFFFFF) / 2**24
        radius, angle = np.sqrt(-2 * np.log1p(-uniform[:, 0])), 2 * np.pi * uniform[:, 1]
        pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        return pairs.reshape(shape)


@cache
def experts_of_tokens(b: int, d: int, f: int, n_experts: int, n_active: int) -> np.ndarray:
    """Indices ``[b, n_active]``, the highest score first."""
    normals = Normals()
    normals.skip(3 * n_experts * d * f)
    tokens = normals.draw(b, d)
    scores = tokens @ normals.draw(d, n_experts)
    return np.argsort(-scores, axis=1)[:, :n_active]
