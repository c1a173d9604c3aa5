"""Exact, fast simulation of Streaming Tensor Programs on spatial dataflow accelerators."""

from __future__ import annotations

from stepsim._version import MODEL_VERSION, __version__
from stepsim.errors import StepSimError

__all__ = ["MODEL_VERSION", "StepSimError", "__version__"]
