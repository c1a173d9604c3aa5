"""The streams of Fig. 5 of the StreamTensor paper, all over 8x8 numbers of f32."""

from __future__ import annotations

from stepsim.itensor import ITensor

__all__ = ["A", "B", "C"]

A = ITensor.of_loops((8, 8), [(0, 4, 2), (1, 4, 2)], (2, 2), "f32")
B = ITensor.of_loops((8, 8), [(1, 4, 2), (0, 2, 4)], (4, 2), "f32")
C = ITensor.of_loops((8, 8), [(1, 4, 2), (None, 2, 1), (0, 2, 4)], (4, 2), "f32")
