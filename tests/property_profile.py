"""Settings of the property tests, which ``STEPSIM_DRAWS`` chooses: ``few``, ``all`` or ``new``.

What decides whether a change is accepted must depend on the change alone, so the draws are the same
every time: `make test` takes ``few`` of them, which is the default, and `make slow` takes ``all``.
``new`` is for `make thorough`, which draws many more, other ones each time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

__all__ = ["FEW", "THOROUGH", "profile", "repeatable"]

_DRAWS = os.environ.get("STEPSIM_DRAWS", "few")
if _DRAWS not in ("few", "all", "new"):
    raise ValueError(f"STEPSIM_DRAWS is {_DRAWS!r}; expected few, all or new")

FEW, THOROUGH = _DRAWS == "few", _DRAWS == "new"

_FEWER = 4
"""`make test` draws so many times fewer than `make slow`, ..."""

_FEW = 10
"""... but not fewer than this."""

_HEALTH = (HealthCheck.too_slow, HealthCheck.data_too_large)


def profile(examples: int, thorough: int = 5000) -> settings:
    """Settings with the number of examples of `make slow`, and of `make thorough`."""
    if THOROUGH:
        return settings(max_examples=thorough, deadline=None, suppress_health_check=_HEALTH)
    if FEW:
        examples = max(examples // _FEWER, min(examples, _FEW))
    return repeatable(examples)


def repeatable(examples: int) -> settings:
    """Settings with the same draws in every mode and every run."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=_HEALTH,
    )
