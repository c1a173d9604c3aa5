"""Settings of the property tests: repeatable by default, thorough with STEPSIM_THOROUGH=1.

What decides whether a change is accepted must depend on the change alone, so the draws of a default
run are the same every time. ``make thorough`` draws many more, new ones each time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

__all__ = ["profile", "repeatable"]

_HEALTH = (HealthCheck.too_slow, HealthCheck.data_too_large)


def profile(quick: int, thorough: int = 5000) -> settings:
    """Settings with the number of examples for either mode."""
    if os.environ.get("STEPSIM_THOROUGH") == "1":
        return settings(max_examples=thorough, deadline=None, suppress_health_check=_HEALTH)
    return repeatable(quick)


def repeatable(examples: int) -> settings:
    """Settings with the same draws in either mode and every run."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=_HEALTH,
    )
