"""Hypothesis settings of the oracle's tests: quick by default, thorough with STEPSIM_THOROUGH=1."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

__all__ = ["profile"]


def profile(quick: int = 150, thorough: int = 5000, *, derandomize: bool = False) -> settings:
    """Settings with the number of examples for either mode."""
    chosen = thorough if os.environ.get("STEPSIM_THOROUGH") == "1" else quick
    return settings(
        max_examples=chosen,
        deadline=None,
        derandomize=derandomize,
        database=None if derandomize else settings.default.database,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
